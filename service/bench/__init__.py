"""Benchmarks. Each returns `machine`, `results` and `bars`: one bar per promised figure."""
