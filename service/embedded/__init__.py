"""Real servers started as children of this process, for trying out and for tests."""
