"""Record figures while `make chaos` runs a part; as a pytest plugin it adds the number of passed
tests.
"""

import json
import os
import time
from pathlib import Path

FILE = "ONEPASS_MEASURED"
"""Environment variable with the path of the file; without it nothing is recorded."""


class Stopwatch:
    """Count seconds from its creation. The figure is for docs/reliability.md; only `make chaos`
    compares it with a limit.
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
