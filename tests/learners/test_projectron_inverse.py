"""The projectrons keep the inverse of their Gram matrix exact, and rebuild it when it
is damaged.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given

from learners.kernel.gram_inverse import DEPENDENT, TOLERANCE
from learners.kernel.similarity import compare_to_itself
from learners.state import flatten, restore
from tests.learners.projectrons import (
    FORMS,
    KERNELS,
    coefficients,
    compare_to_stored,
    dense,
    factor,
    few,
    gram,
    history,
    kernels,
    learn_history,
    learner,
    one,
    seeds,
)
from tests.learners.stored_sets import stored_rows
from tests.learners.streams import SMALL
from tests.looped import looped


def residual(model, state):
    """Return how far K⁻¹K is from the identity, with rows and columns in units of their lengths."""
    return residual_of(gram(model, state), state)


def residual_of(K, state):
    W, lengths = factor(state.inverse, len(K)), np.sqrt(np.diag(K))
    return np.abs((W.T @ (W @ K) - np.eye(len(K))) * lengths[:, None] / lengths).max(initial=0.0)


PRECISION = 10 * np.finfo(float).eps / DEPENDENT
"""Rows may differ by 1e-10 of K(x,x), and their similarities have six digits of that: 2e-6, with
some reserve.
"""


@looped("form", FORMS, ids=str)
@few
@given(K=kernels, seed=seeds)
@example(K={"kernel": "polynomial", "normalise": "both"}, seed=128)
def test_the_kept_inverse_and_norm_are_exact(form, K, seed):
    model = learner(form, K)
    X, y = history(seed, 40)
    state = model.init(SMALL)
    for x, label in zip(X, y, strict=True):
        scores = model.learn(state, one(x), np.array([label]))
        assert np.isfinite(scores).all()
        assert residual(model, state) <= PRECISION
    a = coefficients(state)
    assert model.is_valid(state)
    # The learner updates the norm over 40 events, with projections exact to PRECISION; the test
    # recomputes it.
    assert model.norm(state) ** 2 == pytest.approx(a @ gram(model, state) @ a, rel=1e-6, abs=1e-6)


@looped("form", FORMS, ids=str)
@looped("value", [0.0, 1e30, math.nan])
def test_a_damaged_inverse_is_found_and_rebuilt(form, value):
    """Within as many mistakes as there are rows, or at once if it makes a projection longer than
    the row.
    """
    room = (
        {"budget": 30 if "forgetful" in form["kind"] else 300}
        if "budget" in form
        else {"max_support": 200}
    )
    model = learner(form | room, {"gamma": 0.1})
    state = learn_history(model, 1, 30, near=False)
    n = int(state.support.size[0])
    assert n >= 5
    state.inverse.factor[3] = value
    X, y = history(2, 200, near=False)
    for x, label in zip(X, y, strict=True):
        scores = model.learn(state, one(x), np.array([label]))
        assert np.isfinite(scores).all()
        assert np.abs(coefficients(state)).max() < 1e6
    assert state.inverse.rebuilt[0] == 1
    assert state.inverse.limit[0] <= 10 * DEPENDENT
    assert residual(model, state) <= TOLERANCE


@looped("form", FORMS, ids=str)
@looped("K", [{"gamma": 1e-5}, {"gamma": 0.003}, {"kernel": "polynomial", "d": 9}], ids=str)
def test_rows_that_float64_cannot_distinguish_keep_the_inverse_exact(form, K):
    """A solver with more digits checks that a projection is the nearest point, to 1e-5 of the row's
    length.
    """
    model = learner({**form, **({"budget": 60} if "budget" in form else {"max_support": 60})}, K)
    rng = np.random.default_rng(3)
    X, y = np.ones((300, SMALL)), rng.choice([-1.0, 1.0], 300)
    X[:, 1:] = rng.normal(size=(300, SMALL - 1)) * [1, 1, 1e-3, 0, 0, 0, 0]
    state = model.init(SMALL)
    projected, now = 0, gram(model, state)
    for x, label in zip(X, y, strict=True):
        k, own = (
            compare_to_stored(model, state, one(x))[:, 0],
            compare_to_itself(model.function(), one(x), 0).k,
        )
        a, G, rebuilt = coefficients(state), now, state.inverse.rebuilt[0]
        said = model.learn(state, one(x), np.array([label]))[0]
        now = gram(model, state)
        assert np.isfinite(said)
        assert residual_of(now, state) <= 1e-6
        if (
            label * said <= 0
            and len(coefficients(state)) == len(a)
            and state.inverse.rebuilt[0] == rebuilt
        ):
            if (
                "forgetful" in model.kind
                and (dense(stored_rows(state.support))[-1, 1:] == x[1:]).all()
            ):
                continue
            off = np.array(coefficients(state) - a - label * solve(G, k), np.float64)
            assert off @ G @ off <= 1e-10 * own
            projected += 1
    assert projected > 10 or form == FORMS[-1]


def solve(K, k):
    """Return K⁻¹k by Cholesky in long doubles."""
    n = len(K)
    L, u = np.zeros((n, n), np.longdouble), np.zeros(n, np.longdouble)
    for i in range(n):
        for j in range(i):
            L[i, j] = (K[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
        L[i, i] = np.sqrt(K[i, i] - L[i, :i] @ L[i, :i])
        u[i] = (k[i] - L[i, :i] @ u[:i]) / L[i, i]
    for i in reversed(range(n)):
        u[i] = (u[i] - L[i + 1 :, i] @ u[i + 1 :]) / L[i, i]
    return u


def test_a_state_that_no_rows_lead_to_is_invalid():
    model = learner(FORMS[0], KERNELS[0])
    state = learn_history(model, 1, 20)
    spoilt = [("inverse/factor", 0, 0.0), ("inverse/factor", 1, math.nan), ("inverse/own", 0, -1.0)]
    spoilt += [("inverse/limit", 0, 0.0), ("inverse/turn", 0, -1), ("inverse/since", 0, -1)]
    assert model.is_valid(state)
    assert model.is_valid(model.init(SMALL))
    for path, place, value in spoilt:
        arrays = {name: array.copy() for name, array in flatten(state).items()}
        arrays[path][place] = value
        assert not model.is_valid(restore(model.init(SMALL), arrays))
