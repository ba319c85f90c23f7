"""`make test`: what may run side by side does, then the rest one after the other."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import ALONE, BESIDE

PYTEST = (sys.executable, "-m", "pytest")
PARTS = {
    (f"--part={BESIDE}", "--numprocesses=auto", "--dist=loadgroup"): ("browser", "chaos", "integration"),
    (f"--part={ALONE}",): ("learners",),
}
"""How to run each, and folders that have nothing in it."""


def main(arguments):
    named = any(Path(word.partition("::")[0]).exists() for word in arguments)
    ends = []
    for options, others in PARTS.items():
        left_out = [] if named else [f"--ignore=tests/{folder}" for folder in others]
        ends.append(subprocess.run([*PYTEST, *options, *left_out, *arguments], check=False).returncode)
    # What was asked for may all be in one part; if it is in none, that is a mistake.
    ran = [end for end in ends if end != pytest.ExitCode.NO_TESTS_COLLECTED]
    return next(filter(None, ran), 0) if ran else pytest.ExitCode.NO_TESTS_COLLECTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
