"""The way to the first paint imports Textual and small modules of ours; what computes comes when it is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "numpy",
    "scipy",
    "pandas",
    "httpx",
    "aiohttp",
    "textual_plot",
    "uvicorn",
    "starlette",
    "yaml",
    "tomlkit",
)
PROGRAM = """
import asyncio, sys
from elometer.tui.app import ElometerApp
async def main():
    app = ElometerApp(None)
    async with app.run_test(size=(80, 24)) as pilot:
        while not app.screen.query("#empty"):
            await pilot.pause()
        print(*sorted({name.split(".")[0] for name in sys.modules} & set(sys.argv[1:])))
asyncio.run(main())
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_first_paint_of_the_run_pane_imports_nothing_heavy() -> None:
    assert run(PROGRAM, *HEAVY[:-2]) == ""


def test_pane_modules_come_with_their_pane() -> None:
    program = "import sys, elometer.tui.app; print(*[n for n in sys.modules if n.startswith('elometer.tui.screens.')])"
    assert run(program).split() == ["elometer.tui.screens.pane"]


@pytest.mark.parametrize("module", sorted(Path("src/elometer/tui").rglob("*.py")), ids=str)
def test_only_the_plot_imports_the_plot(module: Path) -> None:
    if module.name != "elo_plot.py":
        assert "textual_plot" not in module.read_text()
        assert "import numpy" not in module.read_text()
