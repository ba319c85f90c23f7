"""Where figures go while `make chaos` runs a part; as a pytest plugin it adds how many tests have
passed.
"""

import json
import os
import time
from pathlib import Path

FILE = "ONEPASS_MEASURED"
"""Names the file; without it nothing is kept."""


class Stopwatch:
    """Runs from when it is made. What it tells is a figure for docs/reliability.md, and compared
    with a limit in `make chaos` only.
    """

    def __init__(self):
        self._began = time.monotonic()

    @property
    def seconds(self):
        return time.monotonic() - self._began


def keep(fault, **figures):
    if os.environ.get(FILE):
        with Path(os.environ[FILE]).open("a") as file:
            file.write(json.dumps({"fault": fault, **figures}) + "\n")


def pytest_terminal_summary(terminalreporter):
    keep("tests of this part", passed=len(terminalreporter.stats.get("passed", ())))
