"""Edits of files that people and clients own: a changed value is spliced into the original bytes."""
