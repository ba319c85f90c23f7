"""What every scenario has: a zygote to fork from, lives that end with the test, and a place to
record figures.
"""

import time
from pathlib import Path

import pytest

from tests.chaos import zygote as forks
from tests.chaos.life import Life
from tests.chaos.measuring import keep
from tests.chaos.scale import CHAOS

collect_ignore = [] if CHAOS else ["test_soak.py", "test_network_kafka.py"]
"""They take long: only in `make chaos`."""


LEFT_SOCKETS = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
"""kafka-python leaves sockets to the collector when it is closed while it connects, which faults
make it do.
"""


def pytest_collection_modifyitems(items):
    """The long figures take longer than a test may."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(LEFT_SOCKETS))
            if CHAOS:
                item.add_marker(pytest.mark.timeout(3600))


@pytest.fixture(scope="session")
def zygote():
    with forks.zygote() as ready:
        yield ready


@pytest.fixture
def make_life(zygote, tmp_path):
    """`make_life(log, store_url, name)`: a life whose processes are ended with the test."""
    lives = []

    def make(log, store, name, **changes):
        lives.append(Life(zygote, tmp_path, log, store, name, **changes))
        return lives[-1]

    yield make
    for life in lives:
        life.close()


@pytest.fixture
def broker(kafka):
    """The run's broker, to be killed; whatever happened, later tests find it running."""
    if kafka.pid is None:
        pytest.skip("a broker named by KAFKA_BOOTSTRAP is not ours to kill")
    yield kafka
    if not kafka.process.running:
        kafka.start()


@pytest.fixture
def measured():
    """`measured("kill -9 at random times", rounds=300, …)`: a line of docs/reliability.md, if `make
    chaos` asks.
    """
    started = time.monotonic()

    def record(fault, **figures):
        keep(fault, **figures, seconds=round(time.monotonic() - started))

    return record
