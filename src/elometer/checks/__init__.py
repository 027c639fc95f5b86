"""Checks that name a cause, with evidence and fix."""
