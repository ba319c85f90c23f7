"""Shared setup of the serving benchmarks: durations, a Redis and server processes."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from service.bench.serve.load import Load
from service.bench.serve.processes import HEADERS, Role, Stream, bare, role
from service.embedded.redis import RedisServer

CLOSED, OPEN = 32, 64
"""Connections of a closed load and of an open load."""
LEARN_SECONDS = 120.0


class Plan(NamedTuple):
    pairs: int
    windows: int
    seconds: float
    """Seconds of one window."""
    crowd_seconds: float
    events: int
    """Events: enough for a learner at full speed for a second or two."""


class Setup(NamedTuple):
    folder: Path
    redis: RedisServer
    plan: Plan

    def role(self, what: str, stream: str) -> AbstractContextManager[Role]:
        return role(self.folder, self.redis.url, what, stream)

    def bare(self) -> AbstractContextManager[Role]:
        return bare(self.folder)

    @contextmanager
    def stream(self, name: str, events: int) -> Iterator[Stream]:
        """Create a stream with this many events."""
        stream = Stream(self.redis.port, name)
        try:
            stream.fill(events)
            yield stream
        finally:
            stream.close()


def make_load(server: Role, seconds: float, connections: int, rate: float | None = None) -> Load:
    return Load(
        server.port, "/predict", seconds, connections, rate, warm_seconds=0.5, headers=HEADERS
    )


def wait_until_learned(learner: Role, events: int) -> None:
    give_up = time.monotonic() + LEARN_SECONDS
    while learner.status()["checkpoint"]["events"] < events:
        assert time.monotonic() < give_up, "the learner does not reach the end of its stream"
        time.sleep(0.1)
