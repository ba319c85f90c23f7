"""Within a batch the worker notices a stop, makes a checkpoint that is due, and can be fenced."""

import time
from types import SimpleNamespace

import pytest

import service.consumer.worker
from service.checkpoint.store import InMemoryStore
from service.consumer.checkpointer import CheckpointPolicy
from service.errors import UnfinishedError
from tests.service.consumer.learner_process import (
    NEVER,
    PIECE_SECONDS,
    PLACE,
    VALUES,
    Process,
    every_record_a_piece_fixture,  # noqa: F401  # a fixture
    no_waiting,  # noqa: F401  # a fixture
    truth_fixture,  # noqa: F401  # a fixture
)
from tests.service.fakes import FaultyStore, Log, Plan


@pytest.mark.usefixtures("_every_record_a_piece")
@pytest.mark.parametrize("until_end", [True, False])
@pytest.mark.parametrize("records", [1, 3, 17, 59, 60])
def test_a_stop_takes_effect_within_a_batch(truth, monkeypatch, records, until_end):
    """The checkpoint has the events learned so far, and the next process learns the rest."""
    log, store = Log(VALUES), InMemoryStore()
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000), until_end=until_end)
    learn, learned = process.worker._learn, []

    def counted(left):
        piece = learn(left)
        learned.extend(piece)
        if len(learned) == records:
            process.stop.set()
        return piece

    monkeypatch.setattr(process.worker, "_learn", counted)
    if until_end and records < len(VALUES):
        with pytest.raises(UnfinishedError):
            process.run()
    else:
        process.run()
    assert len(learned) == records
    snapshot = store.load().snapshot
    assert snapshot.bookmark.positions == {PLACE: str(records)}
    truth.check(snapshot.with_digest(), log.dead_letters)
    Process(log, store).run()
    truth.check(store.load().snapshot.with_digest(), log.dead_letters)
    assert store.load().snapshot.bookmark.positions == {PLACE: str(len(VALUES))}


@pytest.mark.usefixtures("_every_record_a_piece")
def test_a_due_checkpoint_is_made_within_a_batch(truth):
    plan, log = Plan(), Log(VALUES)
    saved = []
    store = FaultyStore(plan, saved.append)
    Process(log, store, plan, pace=CheckpointPolicy(NEVER, 10)).run()
    assert plan.history.count("poll") == 1
    assert [snapshot.bookmark.positions[PLACE] for snapshot in saved] == [
        str(n) for n in range(10, 61, 10)
    ]
    for snapshot in saved:
        truth.check(snapshot, log.dead_letters)


@pytest.mark.usefixtures("_every_record_a_piece")
def test_a_fenced_learner_stops_within_the_batch(truth):
    log = Log(VALUES)

    class Disturbed(InMemoryStore):
        disturbed = False

    store = Disturbed()
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000))
    learn, learned = process.worker._learn, []

    def counted(left):
        piece = learn(left)
        learned.extend(piece)
        store.disturbed = len(learned) == 5
        return piece

    process.worker._learn = counted
    process.worker.step()
    assert len(learned) == 5
    assert process.worker._source is None
    assert process.at == "5"
    store.disturbed = False
    process.run()
    assert [record.position for record in learned] == [str(n) for n in range(len(VALUES))]
    truth.check(store.load().snapshot.with_digest(), log.dead_letters)


RECORD_SECONDS = 0.1
"""Seconds to decode one record, by the clock of the test."""


def test_a_piece_of_a_batch_is_short(truth, monkeypatch):
    """A piece ends with the record that uses up its time, however large the batch is."""
    now = [1e9]  # later than every deadline
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time, sleep=time.sleep)
    monkeypatch.setattr(service.consumer.worker, "time", clock)
    monkeypatch.setattr(service.consumer.worker, "PIECE_SECONDS", PIECE_SECONDS)
    log, store = Log(VALUES), InMemoryStore()
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000))
    decode, learn, pieces = process.worker._decoder.event, process.worker._learn, []

    def slow(record):
        now[0] += RECORD_SECONDS
        return decode(record)

    def measured(left):
        began = now[0]
        piece = learn(left)
        pieces.append(now[0] - began)
        return piece

    monkeypatch.setattr(process.worker, "_decoder", SimpleNamespace(event=slow))
    monkeypatch.setattr(process.worker, "_learn", measured)
    process.run()
    assert max(pieces) <= 0.25 + RECORD_SECONDS
    truth.check(store.load().snapshot.with_digest(), log.dead_letters)
