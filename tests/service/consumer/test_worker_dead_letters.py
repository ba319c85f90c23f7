"""The worker writes dead letters before it polls or saves again."""

import pytest

from service.checkpoint.store import InMemoryStore
from service.consumer.checkpointer import CheckpointPolicy
from service.errors import UnfinishedError
from service.sources.base import SourceUnavailableError
from tests.service.consumer.learner_process import (
    NEVER,
    PLACE,
    VALUES,
    Process,
    no_waiting,  # noqa: F401  # a fixture
    truth_fixture,  # noqa: F401  # a fixture
)
from tests.service.fakes import FaultyStore, Log, Plan


def test_dead_letters_are_written_before_the_next_save_and_poll():
    plan = Plan()
    Process(Log(VALUES, [8]), FaultyStore(plan), plan, pace=CheckpointPolicy(NEVER, 1)).run()
    rounds = "".join(
        {"poll": "p", "append": "a", "save": "s"}.get(name, "") for name in plan.history
    )
    assert set(rounds.split("p")[1:]) == {"as"}


def test_no_poll_and_no_checkpoint_while_a_dead_letter_is_unwritten(truth):
    """The dead-letter log is down for long; the log and the store are up all the time."""
    log, plan = Log(VALUES, [8]), Plan()
    away = [SourceUnavailableError("dead letters away")] * 20
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.dead_letters))

    def sink():
        if away:
            assert "save" not in plan.history
            assert plan.history.count("poll") == 1
            raise away.pop()
        return log.sink(plan)

    Process(log, store, plan, sink=sink).run()
    assert not away
    truth.check(store.kept, log.dead_letters)


def test_a_stopped_worker_writes_its_dead_letters_before_the_checkpoint(truth):
    log, plan = Log(VALUES, [30]), Plan()
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.dead_letters))

    def sink():
        if not process.stop.is_set():
            process.stop.set()
            raise SourceUnavailableError("dead letters away")
        return log.sink(plan)

    process = Process(log, store, plan, sink=sink)
    with pytest.raises(UnfinishedError):
        process.run()
    assert store.kept.bookmark.positions == {PLACE: "30"}
    assert log.dead_letters


def test_a_dead_letter_has_the_event_the_reason_and_the_position():
    log = Log([VALUES[0], b"no json", VALUES[1]])
    Process(log, InMemoryStore()).run()
    (letter,) = log.dead_letters
    assert letter.value == b"no json"
    assert letter.key == b"m:0:1"
    assert dict(letter.headers) == {"reason": b"malformed", "partition": b"0", "position": b"1"}


def test_a_dead_letter_is_cut_to_the_size_of_a_message():
    log = Log([b"x" * 2_000_000])
    Process(log, InMemoryStore()).run()
    (letter,) = log.dead_letters
    assert letter.value == b"x" * 900_000
    assert dict(letter.headers)["bytes"] == b"2000000"
    assert dict(letter.headers)["reason"] == b"too_long"


def test_without_a_dead_letter_log_rejects_are_only_counted(truth):
    log, store = Log(VALUES), InMemoryStore()
    Process(log, store, sink=lambda: None).run()
    assert store.load().snapshot.rejects == truth.last.rejects
    assert log.dead_letters == []
