"""Measured claims: each benchmark gives `machine`, `results` and `bars`, one bar per figure that it promises."""
