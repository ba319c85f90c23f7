"""The worker stays right where others write, freeze or empty the store that it saves to."""

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
    """A store in which others write too, as the test says."""

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


def test_fenced_by_a_foreign_history_it_begins_there(truth):
    """Another learner has gone on from 10 to 20 meanwhile; what this one had learned on its own is
    dropped.
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


def test_fenced_by_its_own_past_it_writes_on_top(truth):
    """The store went back in time: nothing is learned twice, and the newer state is there again at
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
    ) == (truth.last.events), "each event once"
    truth.check(store.load().snapshot, log.dead_letters)


def test_what_the_store_lost_is_written_again_though_nothing_is_learned():
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
def test_only_a_store_that_lost_something_is_warned_of(caplog, lost, level):
    """A freeze that was lifted before it was seen fences too, and nothing is amiss."""
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


def test_standing_by_it_follows_and_then_takes_over(truth):
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


def test_what_it_follows_can_be_stale_and_what_it_learns_cannot(truth):
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


def test_frozen_it_is_the_newest_generation_and_learns_nothing(truth):
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


def test_without_a_checkpoint_to_go_back_to_it_begins_anew_and_not_on_top(truth):
    """Paused before its first checkpoint, and then another learner came and went without
    one, too.
    """
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.HELD_ELSEWHERE, Acquired.STALE)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000))

    def disturb() -> None:
        if process.at == "30" and store.acquired == 1:
            store.disturbed = True

    process.run(after_round=disturb)
    assert store.acquired == 3
    truth.check(store.load().snapshot, log.dead_letters)


def test_a_store_found_empty_after_it_was_followed_stops_it(truth):
    log, store = Log(VALUES), Shared(Acquired.HELD_ELSEWHERE, Acquired.STALE)
    store.save(truth.snapshots["30"])

    def flush() -> None:
        store._kept = None

    with pytest.raises(CorruptCheckpointError, match="the store is empty"):
        Process(log, store).run(after_round=flush)


def test_stopped_right_after_the_store_was_emptied_it_still_saves(truth):
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.CURRENT)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000), until_end=False)

    def end() -> None:
        if process.at == "30":
            store.disturbed = True
            process.stop.set()

    process.run(after_round=end)
    truth.check(store.load().snapshot, log.dead_letters)
    assert store.load().snapshot.bookmark.positions == {PLACE: "30"}


def test_frozen_nothing_is_written(truth):
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
