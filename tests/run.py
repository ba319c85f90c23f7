"""`make test`: what may run side by side does, then the rest one after the other."""

import subprocess
import sys

import pytest

from tests.parts import ALONE, BESIDE

PYTEST = (sys.executable, "-m", "pytest")
PARTS = (
    (f"--part={BESIDE}", "--numprocesses=auto", "--dist=loadgroup"),
    (f"--part={ALONE}",),
)


def main():
    ends = [subprocess.run([*PYTEST, *part, *sys.argv[1:]], check=False).returncode for part in PARTS]
    # What was asked for may all be in one part; if it is in none, that is a mistake.
    ran = [end for end in ends if end != pytest.ExitCode.NO_TESTS_COLLECTED]
    return max(ran, default=pytest.ExitCode.NO_TESTS_COLLECTED)


if __name__ == "__main__":
    sys.exit(main())
