"""The worker keeps learning while the store is down, up to a bound, and reports a loss
at the end.
"""

import pytest

import service.consumer.worker
from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import NO_SEGMENTS, InMemoryStore, StoreUnavailableError
from service.consumer.checkpointer import CheckpointPolicy
from service.errors import UnsavedError
from tests.service.consumer.learner_process import (
    NEVER,
    VALUES,
    Process,
    no_waiting,  # noqa: F401  # a fixture
    truth_fixture,  # noqa: F401  # a fixture
)
from tests.service.fakes import Log


class Away(InMemoryStore):
    """A store that fails its first saves."""

    def __init__(self, saves: int) -> None:
        super().__init__()
        self.left = saves

    def save(self, snapshot: Snapshot, segments=NO_SEGMENTS):
        if self.left:
            self.left -= 1
            raise StoreUnavailableError("the store is away")
        return super().save(snapshot, segments)


def test_learning_continues_while_the_store_is_down(truth):
    log, store = Log(VALUES, [5]), Away(4)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 5))
    saved: list[tuple[str, bool]] = []
    process.run(after_round=lambda: saved.append((process.at, store.newest() is not None)))
    # Four checkpoints fail, each begun after a round; learning continues, and the fifth holds the
    # events of all rounds.
    assert saved[:6] == [(str(5 * n), n == 6) for n in range(1, 7)]
    assert process.health.store_up
    assert (
        process.registry.get_sample_value(
            "onepass_checkpoint_failures_total", {"model": "m", "reason": "down"}
        )
        == 4
    )
    truth.check(store.load().snapshot, log.dead_letters)


def test_a_worker_whose_store_stays_down_ends_with_an_error(monkeypatch):
    monkeypatch.setattr(service.consumer.worker, "FINISH_SECONDS", 0.05)
    with pytest.raises(UnsavedError, match="stopped without a last checkpoint"):
        Process(Log(VALUES), Away(10**9), pace=CheckpointPolicy(NEVER, 1000)).run()


def test_learning_pauses_at_the_bound_of_uncheckpointed_events(truth):
    log, store = Log(VALUES, [5]), Away(8)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 5, max_uncheckpointed_events=20))
    most = []
    process.run(
        after_round=lambda: most.append(
            (process.checkpointer.uncheckpointed, process.health.trouble)
        )
    )
    assert max(unsaved for unsaved, _ in most) == 20
    truth.check(store.load().snapshot, log.dead_letters)
    assert any("pauses" in trouble for _, trouble in most)
