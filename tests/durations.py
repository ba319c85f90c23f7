"""The slowest tests of a run, in a file that a person can read: `pytest -p tests.durations
--durations-file=FILE`.
"""

import re
from collections import Counter
from pathlib import Path

SLOWEST = 50


def pytest_addoption(parser):
    parser.addoption(
        "--durations-file", type=Path, help=f"where the slowest {SLOWEST} tests are written"
    )


def pytest_terminal_summary(terminalreporter, config):
    file = config.getoption("--durations-file")
    if file is not None:
        file.write_text(table(spent(terminalreporter.stats)), encoding="utf-8")


def spent(stats):
    """Seconds of each test, with those of the fixtures that it had to wait for."""
    seconds = Counter()
    for reports in stats.values():
        for report in reports:
            if getattr(report, "when", None) in {"setup", "call", "teardown"}:
                seconds[_without_group(report.nodeid)] += report.duration
    return seconds


def table(seconds):
    """One line per test, the slowest first."""
    return "".join(f"{spent:9.2f} s  {test}\n" for test, spent in seconds.most_common(SLOWEST))


def read(text):
    """What `table` wrote."""
    lines = [line.split(" s  ", 1) for line in text.splitlines()]
    return Counter({test: float(spent) for spent, test in lines})


def _without_group(nodeid):
    """xdist writes the group of a test behind its name."""
    return re.sub(r"@[^@\]]+$", "", nodeid)
