"""The command line: one module per command group, imported when called."""
