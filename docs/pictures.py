"""Make the README's pictures from the program itself: python docs/pictures.py (needs rsvg-convert).

A demo is started, the app opens on it as it would in a terminal of 120 × 36 with 256 colours, the Run pane is
saved at about half way and the Fit pane at the end. Nothing depends on the terminal that this is called from.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
HALF_WAY, AT_MOST_S = 0.5, 300.0
TEXT = re.compile(
    r'<text class="(?P<class>[^"]*)" x="(?P<x>[^"]*)" y="(?P<y>[^"]*)" '
    r'textLength="(?P<length>[^"]*)" (?P<clip>clip-path="[^"]*")>(?P<words>[^<]*)</text>'
)


def on_the_grid(svg: str) -> str:
    """Each character at its own place: where a font lacks one, the rest of the line stays in its columns."""
    from rich.cells import cell_len

    def split(found: re.Match[str]) -> str:
        words = html.unescape(found["words"])
        cells = sum(map(cell_len, words)) or 1
        step, left = float(found["length"]) / cells, float(found["x"])
        parts = []
        for letter in words:
            if letter not in " \u00a0":
                parts.append(
                    f'<text class="{found["class"]}" x="{left:.1f}" y="{found["y"]}" {found["clip"]}>'
                    f"{html.escape(letter)}</text>"
                )
            left += step * cell_len(letter)
        return "".join(parts)

    return TEXT.sub(split, svg)


async def pictures(folder: Path) -> None:
    """Save docs/run.png and docs/fit.png."""
    from elometer.tui.app import ElometerApp
    from elometer.tui.curve import Curve
    from elometer.tui.widgets.elo_plot import EloPlot

    app = ElometerApp(folder)

    def save(name: str) -> None:
        svg = HERE / f"{name}.svg"
        svg.write_text(on_the_grid(app.export_screenshot(title="elometer")))
        subprocess.run(["rsvg-convert", "-w", "1400", "-o", str(HERE / f"{name}.png"), str(svg)], check=True)
        svg.unlink()

    async with app.run_test(size=(120, 36), notifications=False) as pilot:
        began = time.monotonic()
        session = app.session
        while session.state.blocks_done < HALF_WAY * session.state.blocks or session.fit is None:
            await pilot.pause(0.1)
            if time.monotonic() - began > AT_MOST_S:
                raise TimeoutError("the demo did not come half way")
        await pilot.pause(0.5)
        save("run")
        await pilot.press("4")
        while not (
            session.state.ended and session.beside and not session.fit_is_due and app.screen.query(EloPlot)
        ):
            await pilot.pause(0.1)
            if time.monotonic() - began > AT_MOST_S:
                raise TimeoutError("the demo did not end")
        app.screen.query_one(Curve).show(session.fit, session.ceilings, session.fit_version)
        await pilot.pause(1.0)
        save("fit")


def main() -> None:
    os.environ["TERM"] = "xterm-256color"
    for name in ("COLORTERM", "NO_COLOR", "FORCE_COLOR", "TEXTUAL_THEME", "ELOMETER_THEME", "SSH_CONNECTION"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(
            ELOMETER_HOME=home, XDG_CONFIG_HOME=f"{home}/config", XDG_STATE_HOME=f"{home}/state"
        )
        start = subprocess.Popen(
            [sys.executable, "-m", "elometer", "demo", "--plain", "--seed", "3"], stderr=subprocess.DEVNULL
        )
        try:
            while not (found := list(Path(home).glob("demo-*/events.jsonl"))):
                if start.poll() is not None:
                    raise RuntimeError("the demo did not start")
                time.sleep(0.1)
            asyncio.run(pictures(found[0].parent))
        finally:
            start.terminate()
            start.wait()


if __name__ == "__main__":
    main()
