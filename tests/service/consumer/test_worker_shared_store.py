"""The worker stays correct when others write to its store, freeze it or empty it."""

import logging

import pytest

from service.checkpoint.lineage import Frozen
from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import (
    NO_SEGMENTS,
    Acquired,
    CorruptCheckpointError,
    FencedError,
    Freeze,
    InMemoryStore,
)
from service.consumer.checkpointer import CheckpointPolicy
from tests.service.consumer.learner_process import (
    NEVER,
    PLACE,
    VALUES,
    Process,
    no_waiting,  # noqa: F401  # a fixture
    truth_fixture,  # noqa: F401  # a fixture
)
from tests.service.fakes import Log


class Shared(InMemoryStore):
    """A store to which others write, too, as the test says."""

    def __init__(self, *standings: Acquired) -> None:
        super().__init__()
        self.standings = list(standings)
        self.acquired = 0
        self.refusing = 0

    def acquire(self) -> Acquired:
        self.acquired += 1
        self.disturbed = False
        return self.standings.pop(0) if self.standings else Acquired.CURRENT

    def save(self, snapshot: Snapshot, segments=NO_SEGMENTS):
        if self.refusing:
            self.refusing -= 1
            self.disturbed = True
            raise FencedError("another learner has taken over")
        return super().save(snapshot, segments)


def test_a_worker_fenced_by_another_learner_adopts_its_history(truth):
    """Meanwhile the other learner continued from 10 to 20; the events that only this worker had
    learned are dropped.
    """
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.STALE)

    def replace() -> None:
        if process.at == "40" and store.acquired == 1:
            store.save(truth.snapshots["20"])
            store.refusing = 1

    process = Process(log, store, pace=CheckpointPolicy(NEVER, 10))
    process.run(after_round=replace)
    assert store.acquired == 2
    assert process.registry.get_sample_value("onepass_fenced_total", {"model": "m"}) == 1
    truth.check(store.load().snapshot, log.dead_letters)
    assert store.load().snapshot.events == truth.last.events


def test_a_worker_fenced_by_its_own_past_writes_its_state_again(truth):
    """The store went back in time: nothing is learned twice, and the newer state is saved again at
    once.
    """
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.CURRENT)

    def back_in_time() -> None:
        if process.at == "40" and store.acquired == 1:
            store._kept = None
            store.refusing = 1

    process = Process(log, store, pace=CheckpointPolicy(NEVER, 10))
    process.run(after_round=back_in_time)
    assert process.registry.get_sample_value(
        "onepass_events_total", {"model": "m", "result": "learned"}
    ) == (truth.last.events), "an event was learned twice"
    truth.check(store.load().snapshot, log.dead_letters)


def test_a_lost_checkpoint_is_saved_again_without_new_events():
    log, store = Log(VALUES), Shared(Acquired.STALE, Acquired.CURRENT)
    process = Process(log, store, pace=CheckpointPolicy(0.0, 1000), until_end=False)
    rounds = []

    def flush() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            store._kept, store.disturbed = None, True
        if len(rounds) == 6:
            assert store.newest() is not None
            process.stop.set()

    process.run(after_round=flush)


@pytest.mark.parametrize(("lost", "level"), [(True, logging.WARNING), (False, logging.INFO)])
def test_only_a_store_that_lost_a_checkpoint_causes_a_warning(caplog, lost, level):
    """A freeze that was lifted before the worker saw it fences, too, but nothing is lost."""
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.CURRENT)

    def disturb() -> None:
        if process.at == "40" and store.acquired == 1:
            store._kept = None if lost else store._kept
            store.disturbed = True

    process = Process(log, store, pace=CheckpointPolicy(NEVER, 10))
    with caplog.at_level(logging.INFO, "onepass"):
        process.run(after_round=disturb)
    assert store.acquired == 2
    words = ("written on top", "learning continues")
    told = [record for record in caplog.records if record.getMessage().endswith(words)]
    assert [record.levelno for record in told] == [level]
    assert told[0].getMessage().endswith(words[not lost])


def test_a_standby_follows_and_then_takes_over(truth):
    log, store = (
        Log(VALUES),
        Shared(Acquired.HELD_ELSEWHERE, Acquired.HELD_ELSEWHERE, Acquired.STALE),
    )
    store.save(truth.snapshots["30"])
    process = Process(log, store)
    seen = []
    process.run(
        after_round=lambda: seen.append((process.health.ready, process.health.checkpoint.events))
    )
    assert seen[0] == (True, truth.snapshots["30"].events)
    assert "standing by" in process.health.trouble or process.health.trouble == ""
    assert process.registry.get_sample_value(
        "onepass_events_total", {"model": "m", "result": "learned"}
    ) == (truth.last.events - truth.snapshots["30"].events)
    truth.check(store.load().snapshot, truth.rejected.values())


def test_only_a_followed_model_can_be_stale(truth):
    log, store = (
        Log(VALUES),
        Shared(Acquired.HELD_ELSEWHERE, Acquired.HELD_ELSEWHERE, Acquired.STALE),
    )
    store.save(truth.snapshots["30"])
    process = Process(log, store)
    asked = []
    process.run(after_round=lambda: asked.append(process.health.confirmed_at))
    assert [at is None for at in asked[:3]] == [False, False, True]
    assert process.health.stale_seconds == 0.0


def test_a_frozen_worker_serves_the_newest_generation_and_learns_nothing(truth):
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 20), until_end=True)
    rounds = []

    def freeze() -> None:
        at = process.checkpointer.position.positions["0"]
        if at == "30" and not rounds:
            store.frozen, store.disturbed = Freeze(1.0, store.newest().generation), True
        if store.frozen is not None and not store.disturbed:
            rounds.append(process.health.frozen)
            assert int(process.model.progress.events[0]) == store.newest().events
            if len(rounds) == 4:
                store.frozen = None

    process.run(after_round=freeze)
    assert rounds[-1] is True
    assert not process.health.frozen
    kept = store.load().snapshot
    truth.check(kept, log.dead_letters)
    assert [type(entry) for entry in kept.lineage.entries].count(Frozen) == 1


def test_a_worker_without_a_checkpoint_starts_over_from_a_fresh_model(truth):
    """It paused before its first checkpoint, and then another learner came and went without one."""
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.HELD_ELSEWHERE, Acquired.STALE)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000))

    def disturb() -> None:
        if process.at == "30" and store.acquired == 1:
            store.disturbed = True

    process.run(after_round=disturb)
    assert store.acquired == 3
    truth.check(store.load().snapshot, log.dead_letters)


def test_a_followed_store_that_becomes_empty_stops_the_worker(truth):
    log, store = Log(VALUES), Shared(Acquired.HELD_ELSEWHERE, Acquired.STALE)
    store.save(truth.snapshots["30"])

    def flush() -> None:
        store._kept = None

    with pytest.raises(CorruptCheckpointError, match="the store is empty"):
        Process(log, store).run(after_round=flush)


def test_a_worker_stopped_after_a_disturbance_still_saves(truth):
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.CURRENT)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000), until_end=False)

    def end() -> None:
        if process.at == "30":
            store.disturbed = True
            process.stop.set()

    process.run(after_round=end)
    truth.check(store.load().snapshot, log.dead_letters)
    assert store.load().snapshot.bookmark.positions == {PLACE: "30"}


def test_a_frozen_worker_writes_nothing(truth):
    log, store = Log(VALUES), Shared(Acquired.STALE)
    store.save(truth.snapshots["30"])
    store.frozen = Freeze(1.0, 1)
    log.first = 40
    process = Process(log, store, pace=CheckpointPolicy(0.0, 1), until_end=False)
    rounds = []
    process.run(
        after_round=lambda: rounds.append(1) or (process.stop.set() if len(rounds) == 5 else None)
    )
    assert process.health.frozen
    assert store.newest().generation == 1
