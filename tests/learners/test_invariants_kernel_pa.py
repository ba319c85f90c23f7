"""The passive-aggressive kernel learners end where their papers say."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from learners.jit import LARGEST_WEIGHT
from learners.kernel.similarity import compare_to_itself
from learners.registry import make
from tests.examples import examples
from tests.learners.kernel_learners import (
    KERNEL,
    SEED,
    after,
    make_kernel_learner,
    stored,
    stream_of,
)
from tests.learners.single_events import IMPORTANCE, LABEL, PARAMETER, one
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {
    "k-pa": "test_k_pa_ends_exactly_on_the_margin",
    "k-pa1": "test_k_pa1_stores_no_coefficient_beyond_its_cap",
    "k-pa2": "test_k_pa2_minimises_its_objective",
}
"""Kind -> its first test."""

some = examples(60)

FEATURES = st.dictionaries(st.integers(1, SMALL - 1), st.floats(-3, 3), max_size=6)


@some
@given(row=FEATURES, y=LABEL, epsilon=PARAMETER, c=IMPORTANCE, seed=SEED, kernel=KERNEL)
@example({1: 1.8e-106}, -1.0, 0.03, 1.0, 0, {"kernel": "linear"})
def test_k_pa_ends_exactly_on_the_margin(row, y, epsilon, c, seed, kernel):
    learner = make_kernel_learner("k-pa", kernel, epsilon=epsilon, max_support=100)
    state = after(learner, seed)
    moves = learner.updates(state)
    before = float(y * learner.learn(state, one(row, c), np.array([y]))[0])
    own = compare_to_itself(learner.function(), one(row), 0).k
    # Exact: both are computed from the same floats. A row so small that its coefficient would leave
    # the safe range is dropped.
    moving = before < epsilon and own > 0.0 and (epsilon - before) / own <= LARGEST_WEIGHT
    assert (learner.updates(state) > moves) == moving
    # The new term is added last, to the score before: two roundings of at most ε + 2·|before|.
    # Where K(x, x) is tiny, its rounding in the set is no longer small.
    if learner.updates(state) > moves and own > 1e-6:
        assert y * learner.scores(state, one(row))[0] == pytest.approx(
            epsilon, rel=1e-9, abs=1e-9 * abs(before)
        )


@some
@given(row=FEATURES, y=LABEL, C=PARAMETER, c=IMPORTANCE, seed=SEED, kernel=KERNEL)
def test_k_pa1_stores_no_coefficient_beyond_its_cap(row, y, C, c, seed, kernel):
    learner = make_kernel_learner("k-pa1", kernel, C=C, max_support=100)
    state = after(learner, seed)
    n = stored(state)
    before = learner.learn(state, one(row, c), np.array([y]))[0]
    if stored(state) > n:
        a, now = state.support.a[n], y * learner.scores(state, one(row))[0]
        assert 0.0 < y * a <= c * C
        # As above; a capped step is exactly the cap.
        on_margin = abs(now - 1.0) <= 1e-9 * max(1.0, abs(before))
        assert on_margin or (y * a == c * C and now < 1.0)


@some
@given(row=FEATURES, y=LABEL, C=PARAMETER, c=IMPORTANCE, seed=SEED, kernel=KERNEL)
def test_k_pa2_minimises_its_objective(row, y, C, c, seed, kernel):
    """½‖f − f_t‖² + cC·ℓ² over all multiples of the row: half of τ²K(x, x), and the
    remaining loss.
    """
    learner = make_kernel_learner("k-pa2", kernel, C=C, max_support=100)
    state = after(learner, seed)
    n = stored(state)
    before = y * learner.learn(state, one(row, c), np.array([y]))[0]
    if stored(state) > n:
        tau, own = y * state.support.a[n], compare_to_itself(learner.function(), one(row), 0).k

        def objective(tau):
            return 0.5 * tau * tau * own + c * C * max(0.0, 1.0 - before - tau * own) ** 2

        assert tau > 0.0
        # The loss is the same float in both, so each objective is exact to some 2⁻⁵³ of itself.
        assert all(
            objective(tau) <= objective(tau * factor) * (1 + 1e-12)
            for factor in (0.5, 0.99, 1.01, 2.0)
        )


@looped("kind", ["k-pa", "k-pa1", "k-pa2"])
def test_update_on_mistake_stores_no_row_that_was_right(kind):
    learner = make(f"{kind}:update_on=mistake,gamma=0.1,width=8")
    stream, y = stream_of(learner, 3)
    X = stream.X._replace(weights=np.ones(60))
    state = learner.init(SMALL)
    assert learner.updates(state) == 0
    mistakes = np.count_nonzero(y * learner.learn(state, X, y) <= 0.0)
    assert (
        0
        < learner.updates(state)
        == stored(state)
        <= mistakes
        < np.count_nonzero(learner.scores(state, X) < 1.0)
    )
