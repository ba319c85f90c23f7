"""The fair lock of a model: a waiting thread comes next, the holder may take it again, and slow
rows are learned few at a time.
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
    build_monitored,
    everything,
    no_clock,  # noqa: F401  # a fixture
    records,
)
from tests.waiting import HANG_SECONDS, wait_for


def wait_for_asker(lock):
    """Wait, as the holder of the lock, until another thread waits for it."""
    wait_for(lock._gate.locked, "a waiting thread")


def test_the_lock_is_reentrant_and_others_wait_for_its_release():
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


def test_the_lock_is_released_after_an_error():
    lock = FairLock()
    with pytest.raises(ValueError, match="x"), lock:
        raise ValueError("x")
    assert not lock.mine
    with lock:
        assert lock.mine


def test_a_waiting_thread_gets_the_lock_before_the_last_holder():
    """With a plain lock, which the other thread takes again at once, this thread would wait for
    nearly all its turns.
    """
    lock, done, stop = FairLock(), [], threading.Event()

    def work():
        while not stop.is_set():
            with lock:
                done.append(1)
                wait_for(lambda: lock._gate.locked() or stop.is_set(), "a waiting thread")

    other = threading.Thread(target=work)
    other.start()
    try:
        for turn in range(1, 21):
            wait_for(lambda turn=turn: len(done) == turn, "the next turn of the other thread")
            with lock:
                assert len(done) == turn
    finally:
        stop.set()
        other.join()


def test_the_slice_size_follows_the_time_per_row():
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
    """Records how many rows a model learns under one hold of the lock."""

    def __init__(self, model, monkeypatch):
        self.rows, learn_rows = [], type(model.learner).learn_rows

        def count_and_learn(learner: Learner, state, X, y, *more):
            self.rows.append(X.size)
            return learn_rows(learner, state, X, y, *more)

        monkeypatch.setattr(type(model.learner), "learn_rows", count_and_learn)


@pytest.mark.parametrize(("hold", "largest"), [(0.0, 1), (60.0, 64)])
def test_slow_rows_are_learned_few_at_a_time_with_the_same_result(monkeypatch, hold, largest):
    whole = build_monitored(ACTING)
    outcome = whole.learn(STREAM, records(len(STREAM)))
    assert any(alarm.actions for alarm in outcome.alarms)
    monkeypatch.setattr(service.model.scheduling, "HOLD", hold)
    cut = build_monitored(ACTING)
    held = Held(cut, monkeypatch)
    again = cut.learn(STREAM, records(len(STREAM)))
    assert max(held.rows[1:]) == largest, (
        "slow rows must be learned few at a time after the first slice"
    )
    assert again[:7] == outcome[:7]
    assert everything(cut) == everything(whole)


def test_an_answer_waits_only_for_one_slice_of_slow_rows(monkeypatch):
    """A row takes a millisecond, by a clock that only rows move."""
    model, learned, over = build_monitored(ACTING), [], threading.Event()
    learn_rows = type(model.learner).learn_rows

    def slow(learner, state, X, y, *more):
        learned.append(X.size)
        wait_for(lambda: model.lock._gate.locked() or over.is_set(), "a waiting request")
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
            assert version.version == then, "the answer waited for more than one slice"
    finally:
        over.set()
        learning.join()
    assert max(learned[1:]) == HOLD / 0.001, (
        "slow rows must be learned few at a time after the first slice"
    )
    assert sum(learned) == 600
