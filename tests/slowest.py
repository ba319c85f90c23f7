"""Write the slowest tests of a run to `.pytest_cache/slowest.txt`."""

from collections import Counter

COUNT = 50
NAME = "slowest.txt"


def write_slowest(terminalreporter, config):
    folder = config.rootpath / ".pytest_cache"
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_text(table(spent(terminalreporter.stats)), encoding="utf-8")


def spent(stats):
    """Sum the seconds of each test, with those of the fixtures that it waited for."""
    seconds = Counter()
    for reports in stats.values():
        for report in reports:
            if getattr(report, "when", None) in {"setup", "call", "teardown"}:
                seconds[report.nodeid] += report.duration
    return seconds


def table(seconds):
    """Return one line per test, the slowest first."""
    return "".join(f"{spent:9.2f} s  {test}\n" for test, spent in seconds.most_common(COUNT))
