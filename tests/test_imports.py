"""The direction of imports, seen from fresh interpreters, and what a start of the command line costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGES = (
    "core",
    "profiles",
    "boundary",
    "wire",
    "ledger",
    "rating",
    "gateway",
    "runs",
    "checks",
    "archive",
    "jobs",
    "cli",
)
HEAVY = ("pandas", "scipy", "numpy", "textual", "httpx", "aiohttp", "rich")


def loaded_after(statement: str) -> set[str]:
    """Names in sys.modules of a fresh interpreter after a statement."""
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def our_packages(statement: str) -> set[str]:
    return {name.split(".")[1] for name in loaded_after(statement) if name.startswith("elometer.")}


def every_module(package: str) -> str:
    return (
        "import importlib, pkgutil, elometer\n"
        f"package = importlib.import_module('elometer.{package}')\n"
        "for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    importlib.import_module(found.name)"
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_only_tui_imports_textual(package: str) -> None:
    modules = loaded_after(every_module(package))
    assert not modules & {"textual", "textual_plot", "rich"}
    assert not any(name.startswith("elometer.tui") for name in modules)


@pytest.mark.parametrize("package", ["core"])
def test_core_imports_nothing_of_ours(package: str) -> None:
    ours = {
        name.split(".")[1] for name in loaded_after(every_module(package)) if name.startswith("elometer.")
    }
    assert ours == {"core"}


@pytest.mark.parametrize("package", ["rating", "ledger", "boundary", "profiles", "wire"])
def test_neighbours_do_not_import_one_another(package: str) -> None:
    ours = {
        name.split(".")[1] for name in loaded_after(every_module(package)) if name.startswith("elometer.")
    }
    assert ours == {"core", package}


def test_help_imports_nothing_heavy() -> None:
    shown = (
        "import contextlib, io\nfrom elometer.cli.main import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    run(['--help'], open_app=lambda folder: None)"
    )
    modules = loaded_after(shown)
    assert not modules & {*HEAVY, "msgspec", "asyncio", "yaml"}
    assert {name for name in modules if name.startswith("elometer.")} <= {
        "elometer.cli",
        "elometer.cli.main",
        "elometer.core",
        "elometer.core.text",
    }


def imported_roots(source: Path) -> set[str]:
    """First names of the modules that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_every_dependency_is_imported_somewhere() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = {re.split(r"[^\w.-]", one, maxsplit=1)[0].lower() for one in listed}
    imported = set().union(*map(imported_roots, (ROOT / "src").rglob("*.py")))
    provided = packages_distributions()
    used = {name.lower().replace("_", "-") for module in imported for name in provided.get(module, ())}
    assert wanted - used == set()
