"""The rating as a library: the examples of docs/library.md and of docstrings run, and each name says what it is."""

from __future__ import annotations

import doctest
import importlib
import re
import shutil
from pathlib import Path

import pytest

import elometer.rating

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "library.md").read_text()
FOUNDING = ROOT / "tests" / "fixtures" / "founding" / "records.jsonl"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FOUNDING, tmp_path)
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 3
    known: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "docs/library.md", "exec"), known)


def test_the_example_of_the_package_runs() -> None:
    assert doctest.testmod(elometer.rating).attempted >= 3
    assert doctest.testmod(elometer.rating).failed == 0


@pytest.mark.parametrize("name", sorted(elometer.rating._PLACES))
def test_each_name_is_there_documented_and_on_the_page(name: str) -> None:
    place = importlib.import_module(f"elometer.rating.{elometer.rating._PLACES[name]}")
    assert getattr(elometer.rating, name) is getattr(place, name)
    assert getattr(elometer.rating, name).__doc__
    assert name in dir(elometer.rating)
    assert re.search(rf"\b{name}\b", PAGE) or name in {"FitResult", "PairRecord"}
