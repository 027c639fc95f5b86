"""Transcripts of command line agents, read into ledger lines."""
