"""Fixtures of the benchmarks."""

from tests.e2e.conftest import place

__all__ = ["place"]
