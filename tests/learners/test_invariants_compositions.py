"""Averaging, one-vs-rest and scaling keep their promises about the learner inside them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from learners.compose.scaled import LEARN
from learners.evaluation.progress import predict_labels
from learners.registry import make
from tests.examples import examples
from tests.learners.single_events import learn, one, weights
from tests.learners.specs import FOLDING, composition_choices
from tests.learners.streams import CLASSES, SMALL, labels, seeded
from tests.looped import looped

INVARIANTS = {
    "averaged": "test_avg_is_the_mean_over_all_events_and_vote_over_passive_ones",
    "one_vs_rest": "test_the_first_event_of_a_class_counts_as_an_error",
    "scaled": "test_no_centred_value_is_beyond_its_bound",
}
"""Kind -> its first test."""

some = examples(60)


# Averaging


def test_avg_is_the_mean_over_all_events_and_vote_over_passive_ones():
    stream = seeded(8, 150)
    base = make("pa1:C=0.3")
    y, state = labels(base, stream), base.init(SMALL)
    kept = {"avg": [], "vote": []}
    states = {
        mode: make({"kind": "averaged", "mode": mode, "base": base}).init(SMALL) for mode in kept
    }
    for t in range(stream.X.size):
        event, before = stream.X.rows(t, t + 1), weights(state)
        for mode, averaged in states.items():
            answer = np.mean(kept[mode], axis=0) if kept[mode] else before
            x = np.zeros(SMALL)
            x[event.indices] = event.values
            got = make({"kind": "averaged", "mode": mode, "base": base}).learn(
                averaged, event, y[t : t + 1]
            )
            assert got[0] == pytest.approx(answer @ x, rel=1e-10, abs=1e-10)
        base.learn(state, event, y[t : t + 1])
        if event.weights[0] > 0:
            kept["avg"].append(weights(state))
            if np.array_equal(weights(state), before):
                kept["vote"].append(before)
    assert 0 < len(kept["vote"]) < len(kept["avg"])
    for averaged in states.values():  # learning uses the current weights, not the mean
        assert weights(averaged).tobytes() == weights(state).tobytes()


def test_the_mean_of_weights_that_shrink_fast_counts_every_event():
    """The rate is so high that the sum of all scales soon dwarfs the present scale."""
    learner, current = make({"kind": "averaged", "base": FOLDING}), make(FOLDING)
    state, plain = learner.init(3), current.init(3)
    kept = []
    for k in range(300):
        row, y = {1: 1.0 + k % 3, 2: -0.5}, 1.0 - 2 * (k % 2)
        learn(learner, state, row, y)
        learn(current, plain, row, y)
        kept.append(weights(plain))
    units = Batch.from_rows([([slot], [1.0]) for slot in range(3)])
    assert np.allclose(learner.scores(state, units), np.mean(kept, axis=0), rtol=1e-9, atol=1e-12)


# One-vs-rest


@looped("base", ["pa1", "perceptron", "sgd-log", "averaged:base=pa"])
def test_the_first_event_of_a_class_counts_as_an_error(base):
    learner = make({"kind": "one_vs_rest", "max_classes": CLASSES, "base": base})
    stream = seeded(9, 120)
    state = learner.init(SMALL)
    scores = learner.learn(state, stream.X, stream.classes.astype(float))
    seen = set()
    for guess, row, label, c in zip(
        predict_labels(scores), scores, stream.classes, stream.X.weights, strict=True
    ):
        assert set(np.flatnonzero(row > -np.inf)) == seen
        assert label in seen or guess != label
        seen |= {label} if c > 0 else set()
    assert len(seen) == CLASSES
    assert predict_labels(scores[:1]).tolist() == [-1]


def test_one_vs_rest_equals_a_binary_learner_per_class():
    stream = seeded(10, 100)
    learner = make({"kind": "one_vs_rest", "max_classes": CLASSES, "base": "pa1"})
    scores = learner.learn(learner.init(SMALL), stream.X, stream.classes.astype(float))
    for c in range(CLASSES):
        start = np.flatnonzero((stream.classes == c) & (stream.X.weights > 0))[0]
        y = np.where(stream.classes[start:] == c, 1.0, -1.0)
        alone = make("pa1").learn(make("pa1").init(SMALL), stream.X.rows(start, 100), y)
        assert scores[start + 1 :, c].tobytes() == alone[1:].tobytes()
        assert np.isneginf(scores[: start + 1, c]).all()


def test_the_first_class_wins_a_tie():
    assert predict_labels(
        np.array([[1.0, 2.0, 2.0], [0.0, 0.0, -np.inf], [-np.inf, -np.inf, -3.0]])
    ).tolist() == [
        1,
        0,
        2,
    ]
    assert predict_labels(np.full((1, 3), -np.inf)).tolist() == [-1]
    assert predict_labels(np.array([0.0, -0.0, -1e-300, 5.0])).tolist() == [1, 1, -1, 1]


# Scaling


class Passing:
    """A learner that records the scaled values it gets from the composition."""

    def __init__(self, center):
        self.learner = make({"kind": "scaled", "center": center, "base": "pa"})
        self.state = self.learner.init(SMALL)

    def values(self, row, c=1.0):
        scaled = self.learner._scale_rows(self.state, one(row, c), LEARN)
        return dict(zip(scaled.indices.tolist(), scaled.values.tolist(), strict=True))


COLUMN = st.lists(
    st.one_of(st.floats(-1e3, 1e3), st.sampled_from([0.0, 1e40, -1e-40, 7.0])),
    min_size=1,
    max_size=30,
)


@some
@given(column=COLUMN)
def test_no_centred_value_is_beyond_its_bound(column):
    scaler = Passing(center=True)
    for k, x in enumerate(column, start=1):
        values = scaler.values({1: x})
        # The bound is reached if all but the last are equal; the deviation is a root of a running
        # sum.
        assert abs(values[1]) <= (k - 1) / math.sqrt(k) * (1 + 1e-9)


@looped("center", [True, False])
def test_values_without_variance_are_scaled_to_0_and_the_bias_stays_1(center):
    scaler = Passing(center)
    for x in (0.1, 0.1, 0.1, 0.3):
        values = scaler.values({1: x, 2: 7.0})
        assert values[BIAS] == 1.0
        assert values[2] == 0.0
        assert (values[1] == 0.0) == (x == 0.1)


@some
@given(column=COLUMN, center=st.booleans())
def test_absent_features_count_as_zeros(column, center):
    """Lazy counting, which leaves a zero out, equals eager counting, which writes it."""
    lazy, eager = Passing(center), Passing(center)
    for x in [*column, 1.0]:
        present = {1: x} if x != 0.0 else {}
        lazily, eagerly = lazy.values(present), eager.values({1: x})
        # Zeros are counted in one step or in several, whose roundings differ.
        assert lazily.get(1, 0.0) == pytest.approx(eagerly[1], rel=1e-9, abs=1e-9)
    k = int(eager.state.events[0])
    assert int(lazy.state.events[0]) == k
    everything = np.array([*column, 1.0])
    assert eager.state.mean[1] == pytest.approx(everything.mean(), rel=1e-9, abs=1e-9)
    assert eager.state.spread[1] == pytest.approx(everything.var() * k, rel=1e-9, abs=1e-9)


@looped("choice", composition_choices("scaled"), ids=str)
def test_scaling_counts_an_event_once_whatever_its_importance(choice):
    rows = seeded(11, 30)
    learner = make({**choice, "base": "pa"})
    heavy, light = learner.init(SMALL), learner.init(SMALL)
    weighed = rows.X._replace(weights=np.where(rows.X.weights > 0, 9.0, 0.0))
    even = rows.X._replace(weights=np.where(rows.X.weights > 0, 1.0, 0.0))
    learner.learn(heavy, weighed, labels(learner, rows))
    learner.learn(light, even, labels(learner, rows))
    assert heavy.mean.tobytes() == light.mean.tobytes()
    assert heavy.spread.tobytes() == light.spread.tobytes()
    assert heavy.events[0] == np.count_nonzero(rows.X.weights)
