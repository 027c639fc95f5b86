from pathlib import Path

from test_panes import settle
from tests.tui.conftest import MakeApp
from tui_stand_ins import StandIns

from elometer.core.paths import config_folder
from elometer.tui.keymap import read_keymap


def test_a_faulty_file_says_so_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    assert read_keymap(path) == ({}, [])
    path.write_text("run.pause = ")
    keys, faults = read_keymap(path)
    assert keys == {}
    assert faults[0].startswith("keys.toml: ")
    path.write_text('"run.pause" = 5\n"app.quit" = "f10"\n')
    keys, faults = read_keymap(path)
    assert keys == {"app.quit": "f10"}
    assert "run.pause" in faults[0]


async def test_a_key_can_be_bound_anew(make_app: MakeApp, story_folder: Path, stand_ins: StandIns) -> None:
    config_folder().mkdir(parents=True)
    (config_folder() / "keys.toml").write_text('"run.pause" = "f5"\n')
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("p")
        await settle(pilot)
        assert stand_ins.asked == []
        await pilot.press("f5")
        await settle(pilot)
        assert stand_ins.asked == [("state", "paused")]
