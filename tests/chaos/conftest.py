"""What every scenario has: lives that end with the test, and a recorder of figures."""

from pathlib import Path

import pytest

from tests.chaos.life import Life
from tests.chaos.measuring import Stopwatch, keep
from tests.chaos.scale import CHAOS

collect_ignore = [] if CHAOS else ["test_soak.py", "test_network_kafka.py"]
"""Files that take long: they run only in `make chaos`."""


LEFT_SOCKETS = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
"""kafka-python leaves sockets to the garbage collector when it is closed while it connects, and
faults make it do so.
"""


def pytest_collection_modifyitems(items):
    """Allow scenarios more time than other tests, and the long figures much more."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(LEFT_SOCKETS))
            item.add_marker(pytest.mark.timeout(3600 if CHAOS else 600))


@pytest.fixture
def make_life(tmp_path):
    """`make_life(log, store_url, name)` returns a life whose processes end with the test."""
    lives = []

    def make(log, store, name, **changes):
        lives.append(Life(tmp_path, log, store, name, **changes))
        return lives[-1]

    yield make
    for life in lives:
        life.close()


@pytest.fixture
def record_figures():
    """`record_figures("kill -9 at random times", rounds=300, …)` adds a line to docs/reliability.md
    during `make chaos`.
    """
    watch = Stopwatch()

    def record(fault, **figures):
        keep(fault, **figures, seconds=round(watch.seconds))

    return record
