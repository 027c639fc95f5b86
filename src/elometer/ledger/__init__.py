"""The append-only token ledger: writer, reader, totals."""
