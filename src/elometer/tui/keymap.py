"""Keys of the user's own: `keys.toml` in the configuration folder, one line per binding id.

```toml
"run.pause" = "space"
"app.quit" = "q,f10"
```
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from elometer.core.text import gettext as _


def read_keymap(path: Path) -> tuple[dict[str, str], list[str]]:
    """Keys by binding id, and one line for each entry that does not fit; nothing where there is no file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError) as fault:
        return {}, [f"{path.name}: {fault}"]
    keys = {name: value for name, value in data.items() if isinstance(value, str) and value.strip()}
    faults = [
        _('{file}: {name} needs a key, such as "f5"').format(file=path.name, name=name)
        for name in data
        if name not in keys
    ]
    return keys, faults
