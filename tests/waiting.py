"""Wait for a condition. The only clock in the tests: it catches a hang, and nothing else."""

import time

HANG_SECONDS = 60
"""Seconds; no wait is shorter: on a busy machine a step of one second may take ten."""
POLL_SECONDS = 0.01


def wait_for(condition, what, seconds=HANG_SECONDS):
    """Poll until the condition returns a true value, and return that value."""
    assert seconds >= HANG_SECONDS, "a shorter deadline would compare durations"
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"not within {seconds} s: {what}")
