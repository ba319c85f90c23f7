"""Kernel learners keep their norm exact, their support terms sum to the score, and the kernel
perceptron keeps its bound.
"""

import numpy as np
import pytest
from hypothesis import given

from learners.kernel.similarity import compare_to_itself
from tests.learners.kernel_learners import (
    KERNEL,
    KINDS,
    SEED,
    after,
    few,
    gram,
    make_kernel_learner,
    stored,
    stream_of,
)
from tests.learners.stored_sets import stored_rows
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {"k-perceptron": "test_the_norm_of_k_perceptron_is_bounded_by_its_mistakes"}


@few
@given(kernel=KERNEL, seed=SEED)
def test_the_norm_of_k_perceptron_is_bounded_by_its_mistakes(kernel, seed):
    """‖f‖² grows by at most K(x, x) with each mistake: half of the proof of its bound."""
    learner = make_kernel_learner("k-perceptron", kernel)
    stream, y = stream_of(learner, seed)
    state = learner.init(SMALL)
    learner.learn(state, stream.X._replace(weights=np.ones(60)), y)
    rows = stored_rows(state.support)
    allowed = sum(compare_to_itself(learner.function(), rows, i).k for i in range(rows.size))
    # Both are sums of up to 60 terms in float64, and a root is taken and squared again.
    assert 0.0 < learner.norm(state) ** 2 <= allowed * (1 + 1e-12)


@looped("kind", KINDS)
@few
@given(kernel=KERNEL, seed=SEED)
def test_the_kept_norm_is_that_of_the_set(kind, kernel, seed):
    learner = make_kernel_learner(kind, kernel)
    state = after(learner, seed, 60)
    a, G = state.support.a[: stored(state)], gram(learner, state)
    size = np.abs(np.outer(a, a) * G).sum()
    assert size > 0.0
    # The learner sums event by event, the test in another order: 60² terms, each rounded by 2⁻⁵³ of
    # the sum of their sizes; rows that rbp has forgotten leave some rounding, too.
    assert abs(state.square[0] - a @ G @ a) <= 1e-9 * size


# What decided


@looped("kind", KINDS)
@few
@given(kernel=KERNEL, seed=SEED)
def test_support_terms_sum_to_the_score(kind, kernel, seed):
    learner = make_kernel_learner(kind, kernel)
    state = after(learner, seed)
    stream, _ = stream_of(learner, seed, 60)
    row = stream.X.rows(40, 41)
    told = learner.support_terms(state, row, 0, 5)
    total = (told.coefficients * told.similarities).sum() + told.others + told.constant
    assert told.exact == (kind != "k-voted")
    assert told.stored == stored(state)
    averaged = make_kernel_learner("k-averaged", kernel) if kind == "k-voted" else learner
    peer = after(averaged, seed) if kind == "k-voted" else state
    assert total == pytest.approx(
        averaged.scores(peer, row)[0], rel=1e-9, abs=1e-9 * np.abs(state.support.a).sum()
    )
