"""A log that can be down or slow, and an app that appends to it."""

import threading

import pytest

from service.api.log_appender import Appender
from service.sources.base import Position, SourceUnavailableError
from tests.service.api.api_client import CANARY, Client
from tests.waiting import HANG_SECONDS


class Fake:
    """A log that can be down or slow, or refuse long entries."""

    def __init__(self) -> None:
        self.values, self.sizes = [], []
        self.opened = self.closed = 0
        self.down = False
        self.holds = threading.Event()
        """Set while the log has entries to append."""
        self.open = threading.Event()
        self.open.set()

    def __call__(self):
        self.opened += 1
        if self.down:
            raise SourceUnavailableError(f"the log is away, {CANARY}")
        return self

    def append(self, entries):
        self.holds.set()
        assert self.open.wait(HANG_SECONDS)
        if self.down or any(len(entry.value) > 200_000 for entry in entries):
            raise SourceUnavailableError("the log is away")
        first = len(self.values)
        self.sizes.append(len(entries))
        self.values += [entry.value for entry in entries]
        return [Position("3", str(first + place)) for place in range(len(entries))]

    def close(self):
        self.closed += 1


@pytest.fixture(name="log")
def log_fixture():
    return Fake()


@pytest.fixture(name="make_client")
def make_client_fixture(log):
    appenders = []

    def make(**changes):
        appenders.append(Appender(log))
        return Client(log=appenders[-1], **changes)

    yield make
    log.open.set()
    for one in appenders:
        one.close(HANG_SECONDS)
        assert one._thread is None or not one._thread.is_alive()


@pytest.fixture(name="client")
def client_fixture(make_client):
    return make_client()
