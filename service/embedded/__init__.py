"""Real servers as child processes, for the demo and for tests."""
