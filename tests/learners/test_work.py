"""Borrowed work space: clean for each borrower, and the same again for the same thread."""

import threading

import numpy as np
import pytest

from learners.batch import Batch
from learners.kernel.support import borrow_work, fresh_support
from learners.registry import make

DIM = 16


def room():
    with borrow_work(fresh_support(DIM, 4, 16, 0)) as work:
        return work.spread


def test_a_thread_gets_the_same_work_space_again():
    assert room() is room()


def test_another_thread_gets_another_work_space():
    found = []
    thread = threading.Thread(target=lambda: found.append(room()))
    thread.start()
    thread.join()
    assert found[0] is not room()


def test_another_size_gets_another_work_space():
    with borrow_work(fresh_support(2 * DIM, 4, 16, 0)) as work:
        assert work.spread.size == 2 * DIM
    assert room().size == DIM


def test_a_work_space_in_use_is_not_lent_twice():
    with borrow_work(fresh_support(DIM, 4, 16, 0)) as outer:
        assert room() is not outer.spread


def test_a_work_space_whose_use_failed_is_not_lent_again():
    def fail():
        with borrow_work(fresh_support(DIM, 4, 16, 0)) as work:
            work.spread[3] = 1.0
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert not room().any()


def test_learning_and_scoring_leave_the_work_space_0():
    learner = make("rbp:budget=2,gamma=1.0,width=4")
    X = Batch.from_rows([([1, 5], [1.0, -2.0]), ([2], [3.0]), ([5, 7], [1.0, 1.0])])
    state = learner.init(DIM)
    learner.learn_rows(state, X, np.array([1.0, -1.0, 1.0]))
    assert np.any(learner.score_rows(state, X))
    assert not room().any()
