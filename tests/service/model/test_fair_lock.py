"""Turns at a model: who waits comes next, who has it may take it again, and slow rows are learned
few at a time.
"""

import threading
from types import SimpleNamespace

import pytest

import service.model.scheduling
from learners.learner import Learner
from service.features.decoder import batch
from service.model.scheduling import HOLD, FairLock, SliceSizer
from tests.service.model.monitored_model import (
    ACTING,
    STREAM,
    built,
    everything,
    no_clock,  # noqa: F401  # a fixture
    records,
)
from tests.waiting import HANG_SECONDS, wait_for


def wait_for_asker(lock):
    """Called by who has the lock: until somebody waits for it."""
    wait_for(lock._gate.locked, "somebody who waits")


def test_who_has_it_may_take_it_again_and_others_wait_until_it_is_free():
    lock, got = FairLock(), threading.Event()

    def take():
        with lock:
            got.set()

    with lock:
        assert lock.mine
        other = threading.Thread(target=take)
        other.start()
        wait_for_asker(lock)
        with lock:
            assert lock.mine
        assert lock.mine
        assert not got.is_set()
    assert got.wait(HANG_SECONDS)
    other.join()
    assert not lock.mine


def test_it_is_free_again_after_an_error():
    lock = FairLock()
    with pytest.raises(ValueError, match="x"), lock:
        raise ValueError("x")
    assert not lock.mine
    with lock:
        assert lock.mine


def test_who_waits_is_not_overtaken_by_who_had_it_last():
    """By a plain lock, which the other thread takes again at once, this one waits for nearly all of
    its turns.
    """
    lock, done, stop = FairLock(), [], threading.Event()

    def work():
        while not stop.is_set():
            with lock:
                done.append(1)
                wait_for(lambda: lock._gate.locked() or stop.is_set(), "somebody who waits")

    other = threading.Thread(target=work)
    other.start()
    try:
        for turn in range(1, 21):
            wait_for(lambda turn=turn: len(done) == turn, "the other's next turn")
            with lock:
                assert len(done) == turn
    finally:
        stop.set()
        other.join()


def test_a_portion_is_what_is_learned_in_the_time():
    portion = SliceSizer(64)
    assert portion.rows == 64
    for rows, seconds, then in [
        (64, 0.064, 5),
        (5, 0.005, 5),
        (5, 0.5, 1),
        (1, 10.0, 1),
        (1, 0.0, 64),
        (64, 1e-4, 64),
    ]:
        portion.took(rows, seconds)
        assert portion.rows == then


class Held:
    """How many rows a model learns at a time."""

    def __init__(self, model, monkeypatch):
        self.rows, learn_rows = [], type(model.learner).learn_rows

        def counted(learner: Learner, state, X, y, *more):
            self.rows.append(X.size)
            return learn_rows(learner, state, X, y, *more)

        monkeypatch.setattr(type(model.learner), "learn_rows", counted)


@pytest.mark.parametrize(("hold", "largest"), [(0.0, 1), (60.0, 64)])
def test_slow_rows_are_learned_few_at_a_time_and_that_changes_nothing_though_it_acts(
    monkeypatch, hold, largest
):
    whole = built(ACTING)
    outcome = whole.learn(STREAM, records(len(STREAM)))
    assert any(alarm.actions for alarm in outcome.alarms)
    monkeypatch.setattr(service.model.scheduling, "HOLD", hold)
    cut = built(ACTING)
    held = Held(cut, monkeypatch)
    again = cut.learn(STREAM, records(len(STREAM)))
    assert max(held.rows[1:]) == largest, "of the first rows it is not known how slow they are"
    assert again[:7] == outcome[:7]
    assert everything(cut) == everything(whole)


def test_an_answer_waits_for_a_few_slow_rows_and_not_for_all(monkeypatch):
    """A row takes a millisecond, by a clock that only rows move."""
    model, learned, over = built(ACTING), [], threading.Event()
    learn_rows = type(model.learner).learn_rows

    def slow(learner, state, X, y, *more):
        learned.append(X.size)
        wait_for(lambda: model.lock._gate.locked() or over.is_set(), "somebody who asks")
        return learn_rows(learner, state, X, y, *more)

    clock = SimpleNamespace(perf_counter=lambda: 0.001 * sum(learned), time=lambda: 1.0)
    monkeypatch.setattr(service.model.model, "time", clock)
    monkeypatch.setattr(type(model.learner), "learn_rows", slow)
    learning = threading.Thread(target=lambda: model.learn(STREAM[:600]))
    asked = [event._replace(label=None) for event in STREAM[:1]]
    learning.start()
    try:
        for turn in range(1, 40):
            wait_for(lambda turn=turn: len(learned) == turn, "the learner's next turn")
            then = int(model.progress.events[0]) + learned[-1]
            version, _ = model.predict(batch(asked))
            assert version.version == then, "it waited for one turn"
    finally:
        over.set()
        learning.join()
    assert max(learned[1:]) == HOLD / 0.001, "of the first rows it is not known how slow they are"
    assert sum(learned) == 600
