"""`onepass replay`."""
