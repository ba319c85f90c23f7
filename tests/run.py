"""`make test`: what may run side by side does, on what the rest leaves of the machine; the rest one after the other."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.parts import ALONE, BESIDE

PYTEST = (sys.executable, "-m", "pytest")
BACKGROUND = ("nice", "-n", "15")
"""Tests that look at a clock come first."""
PARTS = {
    (*BACKGROUND, *PYTEST, f"--part={BESIDE}", "--numprocesses=auto", "--dist=loadgroup"): (
        "browser",
        "chaos",
        "integration",
    ),
    (*PYTEST, f"--part={ALONE}"): ("learners",),
}
"""How to run each, and folders that have nothing in it."""


def main(arguments):
    named = any(Path(word.partition("::")[0]).exists() for word in arguments)
    beside, alone = (
        [*line, *([] if named else [f"--ignore=tests/{folder}" for folder in others]), *arguments]
        for line, others in PARTS.items()
    )
    with tempfile.TemporaryFile() as told:
        background = subprocess.Popen(beside, stdout=told, stderr=subprocess.STDOUT)
        try:
            ends = [subprocess.run(alone, check=False).returncode, background.wait()]
        finally:
            background.kill()
        told.seek(0)
        sys.stdout.buffer.write(told.read())
    # What was asked for may all be in one part; if it is in none, that is a mistake.
    ran = [end for end in ends if end != pytest.ExitCode.NO_TESTS_COLLECTED]
    return next(filter(None, ran), 0) if ran else pytest.ExitCode.NO_TESTS_COLLECTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
