"""Where elometer keeps things: workspace, configuration, state, packed data files."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

APP = "elometer"


def expanded(path: str | Path) -> Path:
    """A path with `~` and `~user` as a shell takes them; as it stands where there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def workspace() -> Path:
    """The folder that holds one folder per experiment: ELOMETER_HOME, else ~/bt-eval."""
    named = os.environ.get("ELOMETER_HOME")
    return expanded(named) if named else Path.home() / "bt-eval"


def config_folder() -> Path:
    """Configuration (profiles, secrets): $XDG_CONFIG_HOME/elometer, else ~/.config/elometer."""
    return _xdg("XDG_CONFIG_HOME", Path.home() / ".config") / APP


def state_folder() -> Path:
    """State (accounts, pristine copies, logs): $XDG_STATE_HOME/elometer, else ~/.local/state/elometer."""
    return _xdg("XDG_STATE_HOME", Path.home() / ".local" / "state") / APP


def _xdg(variable: str, default: Path) -> Path:
    named = os.environ.get(variable)
    # The XDG base directory specification asks that relative values be ignored.
    return Path(named) if named and Path(named).is_absolute() else default


def data_folder(name: str) -> Path:
    """A folder of packed data files (`themes`, `sample_profiles`).

    In a wheel it lies inside the package; in an editable installation at the checkout's root.
    """
    packed = Path(str(files("elometer"))) / name
    if packed.is_dir():
        return packed
    checkout = Path(__file__).resolve().parents[3] / name
    if checkout.is_dir():
        return checkout
    raise FileNotFoundError(name)
