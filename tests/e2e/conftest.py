"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.workspace import Workspace


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """An empty home."""
    return Workspace(tmp_path)
