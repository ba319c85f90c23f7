"""`support_terms`: the terms of the stored rows sum to the score, for each learner that stores
rows.

It lists the rows with the largest terms.
"""

import numpy as np
import pytest

from learners.jit import ACCEPTED
from learners.kernel.similarity import compare_to_itself
from learners.kernel.support import add, fresh_support
from learners.registry import make
from learners.state import state_digest
from tests.learners.specs import chosen_specs, every_learner
from tests.learners.stored_sets import score_with
from tests.learners.streams import SMALL, SPARSE, labels, seeded, suited

STORING = [learner for learner in chosen_specs() if learner.capabilities.stores_rows]
STREAMS = [seeded(1, 45, SMALL), seeded(2, 30, SPARSE)]


def learn_some(learner, stream):
    """Return a state that has learned, and accepted rows: some it has learned, some it has not."""
    stream = suited(learner, stream)
    y, state = labels(learner, stream), learner.init(stream.dim)
    half = 2 * stream.X.size // 3
    learner.learn(state, stream.X.rows(0, half), y[:half])
    accepted = np.flatnonzero(learner.row_refusals(stream.X) == ACCEPTED)
    return state, [stream.X.rows(t, t + 1) for t in [*accepted[:2], *accepted[-3:]]]


def columns(learner, state, row):
    """Return each column of a seen class, and its score."""
    scores = np.atleast_1d(learner.scores(state, row)[0])
    return [(c, float(scores[c])) for c in np.flatnonzero(np.isfinite(scores)).tolist()]


def leaf(learner):
    return leaf(learner.base) if hasattr(learner, "base") else learner


@every_learner(STORING)
def test_support_terms_sum_to_the_score_and_write_nothing(learner):
    for stream in STREAMS:
        state, rows = learn_some(learner, stream)
        before = state_digest(state)
        for row in rows:
            for column, score in columns(learner, state, row):
                check_sum(learner, state, row, column, score)
        assert state_digest(state) == before


def check_sum(learner, state, row, column, score):
    whole = learner.support_terms(state, row, column, 1000)
    parts = whole.coefficients * whole.similarities
    assert (
        len(whole.rows)
        == parts.size
        == whole.stored
        == learner.support_usage(state, column).rows
        > 0
    )
    assert whole.others == 0.0
    assert (np.diff(np.abs(parts)) <= 0.0).all(), "the terms are not sorted by size"
    size = np.abs(parts).sum() + abs(whole.constant)
    if whole.exact:
        assert abs(parts.sum() + whole.constant - score) <= 1e-9 * size
    few = learner.support_terms(state, row, column, 3)
    assert few.coefficients.tolist() == whole.coefficients[:3].tolist()
    assert few.similarities.tolist() == whole.similarities[:3].tolist()
    assert abs(few.others - parts[3:].sum()) <= 1e-12 * size
    assert (few.constant, few.stored, few.exact) == (whole.constant, whole.stored, whole.exact)


@every_learner(STORING)
def test_without_a_row_the_stored_rows_are_ranked_by_their_own_sizes(learner):
    for stream in STREAMS:
        state, rows = learn_some(learner, stream)
        before = state_digest(state)
        for column, _ in columns(learner, state, rows[0]):
            found = learner.support_terms(state, None, column, 1000)
            K = leaf(learner).function()
            norms = [np.sqrt(max(0.0, compare_to_itself(K, row, 0).k)) for row in found.rows]
            assert found.similarities == pytest.approx(norms, rel=1e-12)
            sizes = np.abs(found.coefficients) * found.similarities
            assert (np.diff(sizes) <= 0.0).all()
        assert state_digest(state) == before


@every_learner([learner for learner in STORING if learner.kind != "scaled"])
def test_support_terms_name_the_most_similar_rows(learner):
    """A listed row, with its tree, is complete: comparing it again gives its similarity."""
    state, rows = learn_some(learner, STREAMS[0])
    K = leaf(learner).function()
    for column, _ in columns(learner, state, rows[-1]):
        found = learner.support_terms(state, rows[-1], column, 4)
        for stored, similarity in zip(found.rows, found.similarities, strict=True):
            alone = fresh_support(SMALL, 1, stored.indices.size, stored.trees.productions.size)
            me = compare_to_itself(K, stored, 0)
            add(alone, stored, 0, 1.0, me.square, me.tree)
            assert score_with(alone, K, rows[-1])[0] == pytest.approx(similarity, rel=1e-12)


def test_support_terms_return_copies():
    learner = make("k-perceptron:gamma=1,width=8,max_support=12")
    state, rows = learn_some(learner, STREAMS[0])
    before = state_digest(state)
    found = learner.support_terms(state, rows[0], 0, 3)
    for row in found.rows:
        row.values[:] += 1.0
        row.indices[:] += 1
    found.coefficients[:] = found.similarities[:] = 7.0
    assert state_digest(state) == before


@every_learner(STORING)
def test_support_usage_counts_stored_rows_and_room(learner):
    state, rows = learn_some(learner, STREAMS[0])
    stocks = [
        learner.support_usage(state, column) for column, _ in columns(learner, state, rows[0])
    ]
    assert all(0 < stock.rows <= stock.room == leaf(learner).rows() for stock in stocks)
    assert np.sqrt(sum(stock.norm**2 for stock in stocks)) == pytest.approx(learner.norm(state))
