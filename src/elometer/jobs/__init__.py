"""Use cases: one module each, called by both faces."""
