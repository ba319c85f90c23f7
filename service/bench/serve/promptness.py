"""How soon a model answers: a process after its start, a replica after a commit."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from service.bench.report import Bar
from service.bench.serve.processes import Role
from service.bench.serve.setup import LEARN_SECONDS, Setup

START_GOAL = 3.0
"""Seconds from the start of `onepass run` to its first prediction, with compiled kernels."""
FOLLOW_GOAL = 2.0
"""Seconds from a commit to a replica's first prediction with it."""
POLL_SECONDS = 0.01
COMMITTED_EVENTS = 50


def measure_promptness(setup: Setup, events: int) -> tuple[dict[str, Any], list[Bar]]:
    """Time starts before a backlog of this many events, then commits that a replica follows.

    A start finds no checkpoint, and its first answer must not wait for the backlog. The kernels
    are compiled: a role of the same model has run before.
    """
    rounds = setup.plan.pairs
    starts = [_time_start(setup, f"start-{number}", events) for number in range(rounds)]
    follows = list(_time_follows(setup, events, rounds))
    figures = {
        "seconds from start to prediction": _summarize(starts),
        "seconds from commit to replica": _summarize(follows),
    }
    return figures, [
        Bar(
            "seconds from start to prediction, median", statistics.median(starts), "<=", START_GOAL
        ),
        Bar("seconds from commit to replica, longest", max(follows), "<=", FOLLOW_GOAL),
    ]


def _time_start(setup: Setup, name: str, events: int) -> float:
    with setup.stream(name, events):
        started = time.perf_counter()
        with setup.role("run", name) as process:
            _wait_until(lambda: process.served_generation() is not None, "the first prediction")
            return time.perf_counter() - started


def _time_follows(setup: Setup, events: int, rounds: int) -> Iterator[float]:
    with (
        setup.stream("followed", events) as stream,
        setup.role("learn", "followed") as learner,
        setup.role("serve", "followed") as replica,
    ):
        committed = 0
        for _ in range(rounds):
            stream.fill(COMMITTED_EVENTS)
            committed = _wait_for_commit(learner, committed)
            started = time.perf_counter()
            _wait_for_replica(replica, committed)
            yield time.perf_counter() - started


def _wait_for_commit(learner: Role, known: int) -> int:
    """Return the newest generation as soon as it is newer than the known one."""

    def newest() -> int:
        generation: int = learner.status()["checkpoint"]["generation"]
        return generation

    _wait_until(lambda: newest() > known, f"a generation after {known}")
    return newest()


def _wait_for_replica(replica: Role, committed: int) -> None:
    _wait_until(
        lambda: (replica.served_generation() or 0) >= committed,
        f"a prediction of generation {committed}",
    )


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + LEARN_SECONDS
    while not condition():
        assert time.monotonic() < give_up, f"not within {LEARN_SECONDS:.0f} s: {what}"
        time.sleep(POLL_SECONDS)


def _summarize(seconds: list[float]) -> dict[str, float]:
    return {"median": statistics.median(seconds), "from": min(seconds), "to": max(seconds)}
