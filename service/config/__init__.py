"""What can be set, and reading it."""
