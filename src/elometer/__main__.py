"""The composition root: the one place that knows both faces."""

from __future__ import annotations

import sys
from pathlib import Path


def _open_app(folder: Path | None) -> None:
    from elometer.tui.app import run_app

    if said := run_app(folder):
        sys.stdout.write(said.rstrip("\n") + "\n")


def main() -> None:
    """Run the command line; the terminal app is opened through a function it is given."""
    from elometer.cli.main import run

    sys.exit(run(open_app=_open_app))


if __name__ == "__main__":
    main()
