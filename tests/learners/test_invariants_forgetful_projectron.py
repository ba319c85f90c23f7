"""The forgetful projectron forgets its oldest row, and keeps the part of it that the younger rows
can express.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.kernel.gram_inverse import (
    distance,
    fresh_inverse,
    grow,
    is_valid_inverse,
    project,
    shrink,
)
from learners.registry import make
from tests.examples import examples
from tests.learners.projectrons import (
    coefficients,
    compare_to_stored,
    dense,
    factor,
    gram,
    history,
    kernels,
    one,
    seeds,
)
from tests.learners.stored_sets import stored_rows
from tests.learners.streams import SMALL

INVARIANTS = {"forgetful-projectron": "test_a_forgotten_row_leaves_no_trace_in_the_inverse"}

some = examples(60)


def definite(seed, n):
    """Return a Gram matrix of rows of different lengths."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-2, 2, n)[:, None]
    return rows @ rows.T


def grow_inverse(K):
    n = len(K)
    inverse, d = fresh_inverse(n), np.empty(n)
    for r in range(n):
        p = project(inverse, r, K[:, r].copy(), d)
        grow(inverse, r, d, math.sqrt(K[r, r] - p), K[r, r])
    return inverse


@some
@given(seed=seeds, n=st.integers(2, 12), data=st.data())
def test_a_forgotten_row_leaves_no_trace_in_the_inverse(seed, n, data):
    """This holds for the oldest and any other row: the factor is that of a fresh inverse; δ and the
    projection are those of a solver.
    """
    r = data.draw(st.one_of(st.just(0), st.integers(0, n - 1)))
    K = definite(seed, n)
    rest = [i for i in range(n) if i != r]
    inverse, d = grow_inverse(K), np.empty(n)
    scale = np.sqrt(np.diag(K))
    away = distance(inverse, n, r)
    delta = shrink(inverse, n, r, d)
    wanted = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, r])
    # Neither is more exact than the condition of the matrix allows.
    conditions = np.linalg.cond(K / scale / scale[:, None])
    assert delta == pytest.approx(math.sqrt(K[r, r] - K[rest, r] @ wanted), rel=1e-13 * conditions)
    assert away == pytest.approx(delta, rel=1e-13 * conditions)
    close = 1e-13 * conditions * n
    assert np.abs((d[: n - 1] - wanted) * scale[rest] / scale[r]).max() <= close
    fresh = grow_inverse(K[np.ix_(rest, rest)])
    off = factor(inverse, n - 1) - factor(fresh, n - 1)
    assert (
        np.abs(off * scale[rest]).max() <= close * np.abs(factor(fresh, n - 1) * scale[rest]).max()
    )
    assert inverse.own[: n - 1].tolist() == np.diag(K)[rest].tolist()
    assert is_valid_inverse(inverse, n - 1)


@some
@given(K=kernels, seed=seeds, eta=st.sampled_from([0.0, 0.3]), budget=st.integers(1, 9))
def test_forgetting_changes_no_score_of_a_younger_row(K, seed, eta, budget):
    """The newcomer is stored, and only the oldest row ever leaves; the younger rows' scores stay
    the same.
    """
    model = make(
        {"kind": "forgetful-projectron", "budget": budget, "eta": eta, "width": SMALL, "gamma": 1.0}
        | K
    )
    X, y = history(seed, 40)
    state = model.init(SMALL)
    for x, label in zip(X, y, strict=True):
        before = stored_rows(state.support)
        scores, rebuilt = model.scores(state, before), state.inverse.rebuilt[0]
        k = compare_to_stored(model, state, one(x))[:, 0]
        said = model.learn(state, one(x), np.array([label]))[0]
        after = dense(stored_rows(state.support)).tolist()
        if label * said > 0 or state.inverse.rebuilt[0] > rebuilt:
            continue
        old = dense(before).tolist()
        assert after in ([*old, [0.0, *x[1:]]], [*old[1:], [0.0, *x[1:]]], old, old[1:])
        if after[:-1] == old[1:]:
            wanted = scores[1:] + label * k[1:]
            now = model.scores(state, before)[1:]
            lengths = np.sqrt(np.diag(gram(model, state)))[:-1]
            size = (
                max(1.0, model.norm(state))
                * np.abs(coefficients(state) * np.sqrt(state.inverse.own[: len(after)])).max()
            )
            # The projection onto the younger rows is exact to the inverse's PRECISION.
            assert (np.abs(now - wanted) <= 1e-6 * lengths * size).all()
