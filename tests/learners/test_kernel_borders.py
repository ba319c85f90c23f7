"""Kernel learners on rows that can be worked out by hand: ties and borders that random streams
never hit.
"""

import numpy as np
import pytest

from learners.batch import Batch
from learners.kernel.forgetron import _least_damaging
from learners.kernel.gram_inverse import DEPENDENT, check_next_row, closest, rebuild
from learners.registry import make
from tests.learners.stored_sets import room_for
from tests.looped import looped


def row(*values):
    slots = range(1, 1 + len(values))
    return Batch.from_rows([([*slots], [*values])])


def teach(model, *rows, dim=3):
    """Return a state after these rows with their labels."""
    state = model.init(dim)
    for values, label in rows:
        model.learn(state, row(*values), np.array([label]))
    return state


def linear(kind, **parameters):
    return make({"kind": kind, "kernel": "linear", "gamma": 1.0, "width": 2, **parameters})


@looped("kind", ["projectron", "projectron++"])
def test_a_row_at_distance_eta_is_projected(kind):
    state = teach(linear(kind, eta=0.5), ((1.0, 0.0), 1.0), ((1.0, 0.5), -1.0))
    assert state.support.size[0] == 1
    assert state.support.a[0] == 0.0


def test_a_projection_can_make_the_oldest_row_worthless():
    rows = ((1.0, 0.0), 1.0), ((0.0, 1.0), 1.0), ((1.0, 0.0), -1.0)
    state = teach(linear("forgetful-projectron", budget=9, eta=0.3), *rows)
    assert state.support.size[0] == 1
    assert state.support.a[0] == 1.0


def test_a_damage_exactly_at_the_bound_is_allowed():
    state = teach(linear("forgetron-greedy", budget=2), ((1.0, 0.0), 1.0), ((0.0, 1.0), 1.0))
    # Ψ = 3 and 3 − 2·value; 15/32 is allowed.
    for value, goes in ((81 / 64, 1), (80 / 64, 0)):
        state.values[:2] = 0.0, value
        assert _least_damaging(state.support, state.values, row(1.0, 1.0), 0) == goes


@looped("kind", ["forgetron-tuned", "forgetron-greedy"])
def test_values_behind_the_stored_rows_are_0(kind):
    """Otherwise a state would differ from its checkpoint, which holds only the stored rows."""
    model, dim = make({"kind": kind, "budget": 4, "gamma": 0.1, "width": 2}), 12
    state = model.init(dim)
    for slots in ([1, 2], [2, 3], [3, 4], [4, 5], [*range(1, 9)]):
        X = Batch.from_rows([(slots, [1.0] * len(slots))])
        wrong = -1.0 if model.scores(state, X)[0] > 0.0 else 1.0
        model.learn(state, X, np.array([wrong]))
    assert state.support.size[0] < 4, "a row of eight entries must take the room of several"
    assert not state.values[state.support.size[0] :].any()


def test_rows_given_up_in_a_rebuild_keep_their_scores():
    model = linear("projectron", eta=0.0, max_support=9)
    state = teach(model, ((1.0, 0.0), 1.0), ((1.0, 1e-3), -1.0))
    before = model.scores(state, row(1.0, 0.0))[0]
    state.inverse.limit[0], state.inverse.since[0] = 1e-3, 9
    rebuild(
        state.support,
        state.inverse,
        state.square,
        model.function(),
        room_for(state.support),
        np.empty(9),
    )
    assert state.support.size[0] == 1
    assert model.scores(state, row(1.0, 0.0))[0] == pytest.approx(before, abs=1e-12)
    assert state.square[0] == pytest.approx(0.0, abs=1e-12)


def corners():
    """Return a projectron that has stored three rows at right angles, and the arguments of its
    check.
    """
    model = linear("projectron", eta=0.0, max_support=9)
    rows = [(tuple(float(i == j) for i in range(3)), 1.0) for j in range(3)]
    state = teach(model, *rows, dim=4)
    assert state.support.size[0] == 3
    return state, (state.support, state.inverse, state.square, model.function())


def test_the_stored_rows_are_checked_in_turn():
    state, parts = corners()
    turns = []
    for _ in range(6):
        check_next_row(*parts, -1, room_for(state.support), np.empty(9))
        turns.append(int(state.inverse.turn[0]))
    assert sorted(turns) == [0, 0, 1, 1, 2, 2]
    assert {*turns[:3]} == {0, 1, 2}


@looped(("since", "limit"), [(2, 10 * DEPENDENT), (3, DEPENDENT)])
def test_a_rebuild_that_comes_too_soon_raises_the_limit(since, limit):
    state, parts = corners()
    state.inverse.since[0] = since
    rebuild(*parts, room_for(state.support), np.empty(9))
    assert state.inverse.limit[0] == pytest.approx(limit)
    assert (state.inverse.since[0], state.inverse.rebuilt[0], state.support.size[0]) == (0, 1, 3)


def test_the_closest_row_has_the_largest_relative_share():
    state = teach(
        linear("projectron", eta=0.0, max_support=9), ((1.0, 0.0), 1.0), ((0.0, 100.0), 1.0)
    )
    d = np.array([0.9, 0.2])  # shares of (0.9, 20)
    assert closest(state.inverse, 2, d, 0.0, 400.81) == 1
    assert closest(state.inverse, 2, d, 1.0, 400.81) == -1, (
        "no row is close, for the new one adds enough"
    )


def test_the_inverse_is_0_behind_its_rows():
    rows = [(tuple(float(i == j) for i in range(3)), 1.0) for j in range(3)]
    state = teach(linear("forgetful-projectron", budget=2, width=3), *rows, dim=4)
    assert state.support.size[0] == 2
    assert state.inverse.own.tolist()[:3] == [1.0, 1.0, 0.0]
    assert not state.inverse.factor[3:].any()
