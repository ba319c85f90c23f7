"""A kernel learner never exceeds its room, and forgets or stops as its rule promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import Batch
from learners.kernel.rbp import RECOMPUTED, draw
from learners.registry import make
from tests.learners.kernel_learners import (
    BUDGETED,
    KINDS,
    SEED,
    UNBOUNDED,
    after,
    few,
    gram,
    make_kernel_learner,
    stored,
    stream_of,
)
from tests.learners.single_events import one
from tests.learners.specs import leaf
from tests.learners.stored_sets import score_with, stored_rows
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {
    "stoptron": "test_stoptron_equals_the_perceptron_until_the_budget_is_full",
    "rbp": "test_rbp_forgets_each_row_with_equal_probability",
}
"""Kind -> its first test."""


@looped("kind", KINDS)
@few
@given(seed=SEED, room=st.integers(1, 9), width=st.integers(1, 6), nodes=st.integers(1, 12))
def test_a_kernel_learner_never_exceeds_its_room(kind, seed, room, width, nodes):
    field = "budget" if kind in BUDGETED else "max_support"
    learner = make(
        {
            "kind": kind,
            field: room,
            "kernel": "tree+rbf",
            "gamma": 0.1,
            "width": width,
            "nodes": nodes,
        }
    )
    stream, y = stream_of(learner, seed)
    state = learner.init(SMALL)
    support = state.support
    for t in range(60):
        before, moves = stored(state), learner.updates(state)
        learner.learn(state, stream.X.rows(t, t + 1), y[t : t + 1])
        n = stored(state)
        assert n <= room
        assert support.ends[n] <= room * width
        assert support.trees.ends[n] <= room * nodes
        assert learner.is_valid(state)
        assert kind == "rbp" or n - before == learner.updates(state) - moves


@looped("kind", KINDS)
def test_negative_counts_and_coefficients_behind_the_set_are_invalid(kind):
    field = "budget" if kind in BUDGETED else "max_support"
    learner = make({"kind": kind, field: 5, "gamma": 0.1, "width": 4})
    state = learner.init(SMALL)
    assert learner.is_valid(state)
    counts = {
        name: part
        for name, part in state._asdict().items()
        if getattr(part, "dtype", None) == np.int64
    }
    assert {"updates", "dropped"} <= counts.keys()
    for name, part in counts.items():
        assert not learner.is_valid(state._replace(**{name: part - 1 - part.max()})), name
    state.support.a[0] = 1.0
    assert not learner.is_valid(state)


@looped("kind", [*UNBOUNDED, "stoptron"])
def test_a_full_set_counts_dropped_updates_and_changes_nothing(kind):
    learner = make_kernel_learner(kind, {"kernel": "rbf"})
    state = after(learner, 3, 60)
    assert stored(state) == learner.rows() == learner.updates(state)
    assert learner.dropped_updates(state) > 0
    a, square, dropped = state.support.a.copy(), state.square.copy(), learner.dropped_updates(state)
    row = one({1: 0.5})
    y = -1.0 if score_with(state.support, learner.function(), row)[0] > 0.0 else 1.0
    learner.learn(state, row, np.array([y]))
    assert learner.dropped_updates(state) == dropped + 1
    assert (state.support.a == a).all()
    assert state.square == square


def test_stoptron_equals_the_perceptron_until_the_budget_is_full():
    stop, plain = (
        make("stoptron:gamma=0.1,width=8,budget=10"),
        make("k-perceptron:gamma=0.1,width=8,max_support=10"),
    )
    stream, y = stream_of(plain, 3)
    X = stream.X._replace(weights=np.where(stream.X.weights > 0.0, 1.0, 0.0))
    ours, theirs = stop.init(SMALL), plain.init(SMALL)
    assert stop.learn(ours, stream.X, y).tolist() == plain.learn(theirs, X, y).tolist()
    assert stored(ours) == 10
    assert ours.support.a.tolist() == theirs.support.a.tolist()


# Random budget


def test_rbp_forgets_each_row_with_equal_probability():
    """χ² of 20,000 draws of one in 20 with a fixed seed: below the 99.9 % point for 19 degrees of
    freedom.
    """
    seed, draws = np.array([5]), np.zeros(1, np.int64)
    counts = np.bincount([draw(seed, draws, 20) for _ in range(20_000)], minlength=20)
    assert draws[0] == 20_000
    assert counts.size == 20
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < 43.8
    after_each = [draw(seed, draws, 2) for _ in range(4000)]
    pairs = np.bincount(2 * np.array(after_each[:-1]) + after_each[1:], minlength=4)
    assert ((pairs - 3999 / 4) ** 2 / (3999 / 4)).sum() < 16.3


def test_rbp_draws_the_numbers_of_splitmix64():
    """These are the generator's first outputs for the seed 1234567, from its authors' code."""
    seed, draws = np.array([1234567]), np.zeros(1, np.int64)
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [draw(seed, draws, 10**6) for _ in wanted] == [number % 10**6 for number in wanted]


def test_the_seed_decides_which_rows_rbp_forgets():
    def rows(seed):
        state = after(make({**leaf("rbp"), "gamma": 0.1, "width": SMALL, "seed": seed}), 3, 60)
        assert state.draws[0] >= 5
        return stored_rows(state.support).values.tolist()

    assert rows(0) == rows(0)
    assert len({tuple(rows(seed)) for seed in range(5)}) == 5


def test_rbp_forgets_until_a_long_row_fits_and_drops_one_that_never_fits():
    learner = make("rbp:kernel=linear,gamma=1,width=2,budget=3")
    state = learner.init(9)
    short = Batch.from_rows([([slot], [1.0]) for slot in (1, 2, 3)])
    long = Batch.from_rows([([4, 5, 6, 7, 8], [1.0] * 5), ([1, 2, 3, 4, 5, 6, 7], [1.0] * 7)])
    learner.learn(state, short, np.ones(3))
    learner.learn(state, long.rows(0, 1), np.ones(1))
    assert (stored(state), state.draws[0], learner.updates(state)) == (2, 2, 4)
    assert state.support.ends[:3].tolist() == [0, 1, 6]
    assert learner.norm(state) == pytest.approx(6**0.5)
    learner.learn(state, long.rows(1, 2), -np.ones(1))
    assert (stored(state), learner.updates(state), learner.dropped_updates(state)) == (2, 4, 1)


def test_rbp_recomputes_its_norm_regularly():
    """Subtracting a row of 1e40 would otherwise lose all small terms."""
    learner = make("rbp:kernel=linear,gamma=1,width=1,budget=4")
    state = learner.init(3)
    rng = np.random.default_rng(0)
    for turn in range(2 * RECOMPUTED * 4):
        row = one({1: 1e40}) if turn == 0 else one({2: float(rng.normal())})
        y = -1.0 if learner.scores(state, row)[0] > 0.0 else 1.0
        learner.learn(state, row, np.array([y]))
    assert state.draws[0] > RECOMPUTED * 4
    a = state.support.a[: stored(state)]
    assert state.square[0] == pytest.approx(a @ gram(learner, state) @ a, rel=1e-9)
