"""Theme files: they load, can be read, and stay apart at 256 colours."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from rich.color import Color, ColorSystem
from rich.color_triplet import ColorTriplet
from tests.tui.conftest import MakeApp

from elometer.core.paths import config_folder, data_folder
from elometer.tui import themes

FILES = sorted(data_folder("themes").glob("elometer-*.toml"))


def test_there_are_two_of_our_own() -> None:
    assert [path.stem for path in FILES] == [themes.DEFAULT, themes.LIGHT]


def test_contrast_is_that_of_wcag() -> None:
    assert themes.contrast("#000000", "#ffffff") == pytest.approx(21.0)
    # WCAG's own example of the least grey on white that passes AA.
    assert themes.contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_theme_can_be_read_and_survives_256_colours(path: Path) -> None:
    data = tomllib.loads(path.read_text())
    theme = themes.parse_theme(path.read_text())
    assert theme.name == path.stem
    for ink, ground in themes.text_pairs(data):
        assert themes.contrast(ink, ground) >= themes.LEAST_CONTRAST, (ink, ground)
        reduced = [eight_bit(colour).hex for colour in (ink, ground)]
        assert themes.contrast(*reduced) >= themes.LEAST_CONTRAST, (ink, ground)
    surfaces = [data[name] for name in ("background", "surface", "panel")]
    assert len({eight_bit(colour) for colour in surfaces}) == 3
    for colour in surfaces:
        assert colour[1:3] == colour[3:5] == colour[5:7], "a tinted grey turns navy or teal at 256 colours"
    for name in ("primary", "warning", "error", "success", "accent"):
        assert eight_bit(data[name]).hex == data[name], "off the colour cube"


def eight_bit(colour: str) -> ColorTriplet:
    """The colour that a terminal of 256 colours shows."""
    return Color.parse(colour).downgrade(ColorSystem.EIGHT_BIT).get_truecolor()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("dark = true", "drak = true"), "unknown key drak"),
        (('error = "#ff8787"', 'error = "red"'), "error is no colour"),
        (('foreground = "#d0d0d0"', 'foreground = "#303030"'), "contrast"),
        (('primary = "#87d7ff"', ""), "primary is missing"),
    ],
)
def test_a_faulty_theme_says_what_does_not_fit(change: tuple[str, str], word: str) -> None:
    text = (data_folder("themes") / "elometer-dark.toml").read_text()
    assert change[0] in text
    with pytest.raises(ValueError, match=word):
        themes.parse_theme(text.replace(*change))


async def test_a_broken_file_costs_one_notice_and_nothing_else(make_app: MakeApp, home: Path) -> None:
    folder = config_folder() / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text("name = ")
    (folder / "other.toml").write_text('name = "other"')
    app = make_app(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert app.theme == themes.DEFAULT
        assert [line.split(":")[0] for line in app.failures] == ["mine.toml", "other.toml"]
        assert len(app._notifications) == 1


@pytest.mark.parametrize("name", ["ansi-dark", "ansi-light", "textual-light", themes.LIGHT])
async def test_every_theme_has_our_style_names(make_app: MakeApp, story_folder: Path, name: str) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.theme = name
        await pilot.pause()
        assert "row-muted" in app.theme_variables
