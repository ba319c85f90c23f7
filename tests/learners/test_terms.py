"""A score is the sum of its terms, and `weights` returns the weights that answer, for every learner
and composition.
"""

import tracemalloc

import numpy as np

from learners.batch import BIAS, Batch
from learners.jit import ACCEPTED
from learners.registry import make
from learners.state import state_digest
from tests.learners.specs import chosen_specs, every_learner, name
from tests.learners.streams import CLASSES, SMALL, SPARSE, labels, seeded, suited
from tests.looped import looped

every_linear = every_learner(
    [learner for learner in chosen_specs() if not learner.capabilities.stores_rows]
)
LONG = seeded(1, 45, SMALL, hostile=True)
WIDE = seeded(2, 30, SPARSE, hostile=True)


def learn_some(learner, stream, rows=4):
    """Return a state that has learned, and accepted rows: some it has learned, some it has not, one
    with only the bias.
    """
    stream = suited(learner, stream)
    y, state = labels(learner, stream), learner.init(stream.dim)
    half = 2 * stream.X.size // 3
    learner.learn(state, stream.X.rows(0, half), y[:half])
    accepted = np.flatnonzero(learner.row_refusals(stream.X) == ACCEPTED)
    chosen = [stream.X.rows(t, t + 1) for t in [*accepted[:1], *accepted[-rows:]]]
    return state, [*chosen, Batch.from_rows([([BIAS], [1.0])])]


def columns(learner, state, row):
    """Return each column of a seen class, and its score; a binary learner has one column."""
    scores = learner.scores(state, row)[0]
    if scores.ndim == 0:
        return [(0, float(scores))]
    assert scores.size == CLASSES
    return [(c, float(scores[c])) for c in np.flatnonzero(np.isfinite(scores))]


@every_linear
def test_terms_sum_to_the_score_and_write_nothing(learner):
    for stream in (LONG, WIDE):
        check_sums(learner, *learn_some(learner, stream))


def check_sums(learner, state, rows):
    before = state_digest(state)
    for row in rows:
        for column, score in columns(learner, state, row):
            slots, values, weights, constant = learner.terms(state, row, column)
            assert slots.size == values.size == weights.size
            assert (np.diff(slots) > 0).all()
            assert set(row.indices.tolist()) <= set(slots.tolist())
            parts = values * weights
            size = np.abs(parts).sum() + abs(constant)
            assert abs(parts.sum() + constant - score) <= 1e-9 * size + 1e-300
    assert state_digest(state) == before


@every_linear
def test_weights_are_copies_of_those_in_the_terms(learner):
    state, rows = learn_some(learner, LONG)
    before = state_digest(state)
    for column, _ in columns(learner, state, rows[0]):
        weights = learner.weights(state, column)
        assert weights.shape == (SMALL,)
        parts = [learner.weights(state, column, slice(start, start + 3)) for start in (0, 3, 6, 9)]
        assert np.concatenate(parts).tobytes() == weights.tobytes()
        for row in rows if "fs3" not in name(learner) else ():
            terms = learner.terms(state, row, column)
            assert terms.weights.tobytes() == weights[terms.slots].tobytes()
        weights += 1.0
    assert state_digest(state) == before


def test_the_weights_of_fs3_are_its_scales():
    learner = make("fs3:absent=skip")
    state = learner.init(3)
    learner.learn(state, Batch.from_rows([([0, 1], [1.0, 2.0])] * 3), np.array([1.0, 1.0, -1.0]))
    assert learner.weights(state, 0).tolist() == [state.w.v[0], *state.alpha.v[1:]]
    assert state.alpha.v[1] != 0.0


@looped(
    ("spec", "slots"),
    [
        ({"kind": "scaled", "center": True, "base": "pa1"}, [0, 1, 2, 3]),
        ({"kind": "scaled", "center": False, "base": "pa1"}, [0, 2]),
        ("fs:absent=zero", [0, 1, 2, 3]),
        ("fs:absent=skip", [0, 2]),
    ],
)
def test_absent_features_that_take_part_are_listed(spec, slots):
    learner = make(spec)
    state = learner.init(4)
    learner.learn(
        state,
        Batch.from_rows([([0, 1, 2, 3], [1.0, 2.0, -1.0, 5.0])] * 3),
        np.array([1.0, -1.0, 1.0]),
    )
    assert learner.terms(state, Batch.from_rows([([0, 2], [1.0, 3.0])]), 0).slots.tolist() == slots


def test_winnow_explains_the_mean_over_seen_features():
    learner = make("winnow-balanced:theta=0.5")
    state = learner.init(5)
    learner.learn(state, Batch.from_rows([([0, 1], [1.0, 3.0])]), np.array([-1.0]))
    terms = learner.terms(state, Batch.from_rows([([0, 1, 4], [1.0, 3.0, 9.0])]), 0)
    assert terms.values.tolist() == [0.25, 0.75, 0.0]
    assert terms.weights.tolist() == [2.0 * 0.5 - 1.5, 2.0 * 0.5 - 1.5, 0.0]
    assert terms.constant == -0.5


@looped("spec", ["averaged:base=pa1", "mbw", "fs2:absent=skip", "scaled:center=false,base=arow"])
def test_the_cost_of_terms_grows_with_the_row_and_not_the_dimension(spec):
    learner = make(spec)
    state = learner.init(1_000_000)
    row = Batch.from_rows([([0, 999_999], [1.0, 2.0])])
    learner.learn(state, row, np.array([1.0]))
    learner.terms(state, row, 0)
    tracemalloc.start()
    try:
        learner.terms(state, row, 0)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()
