"""`make test`: one part runs side by side at low priority, the other one after the other; then both
are reported.

The slowest tests of both are written to `.test-durations.txt`.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests import durations
from tests.parts import ALONE, BESIDE

PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.durations")
BACKGROUND = ("nice", "-n", "15")
"""Tests that look at a clock come first."""
PARTS = {
    BESIDE: (
        (*BACKGROUND, *PYTEST, f"--part={BESIDE}", "--numprocesses=auto", "--dist=loadgroup"),
        ("browser", "chaos", "integration"),
    ),
    ALONE: ((*PYTEST, f"--part={ALONE}"), ("learners",)),
}
"""How to run each, and folders that have nothing in it."""
DURATIONS = Path(__file__).parent.parent / ".test-durations.txt"


def main(arguments):
    with tempfile.TemporaryDirectory() as folder:
        files = {part: Path(folder, part) for part in PARTS}
        ends = run_parts({part: command(part, files[part], arguments) for part in PARTS})
        written = [
            durations.read(file.read_text(encoding="utf-8"))
            for file in files.values()
            if file.exists()
        ]
    DURATIONS.write_text(durations.table(sum(written, Counter())), encoding="utf-8")
    # What was asked for may all be in one part; if it is in none, that is a mistake.
    ran = [end for end in ends if end != pytest.ExitCode.NO_TESTS_COLLECTED]
    return next(filter(None, ran), 0) if ran else pytest.ExitCode.NO_TESTS_COLLECTED


def command(part, file, arguments):
    line, others = PARTS[part]
    named = any(Path(word.partition("::")[0]).exists() for word in arguments)
    ignored = [] if named else [f"--ignore=tests/{folder}" for folder in others]
    return [*line, f"--durations-file={file}", *ignored, *arguments]


def run_parts(commands):
    """Both at once; the output of the one in the background follows that of the other."""
    with tempfile.TemporaryFile() as output:
        background = subprocess.Popen(commands[BESIDE], stdout=output, stderr=subprocess.STDOUT)
        try:
            ends = [subprocess.run(commands[ALONE], check=False).returncode, background.wait()]
        finally:
            background.kill()
        output.seek(0)
        sys.stdout.buffer.write(output.read())
    return ends


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
