"""What each paper proves or promises of its rule, as properties. The table names the first of each
kind.
"""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from learners.compose.scaled import LEARN
from learners.evaluation.progress import predict_labels
from learners.registry import make
from tests.learners.specs import FOLDING, composition_choices
from tests.learners.streams import CLASSES, SMALL, labels, seeded
from tests.looped import looped

INVARIANTS = {
    "perceptron": "test_perceptron_keeps_its_mistake_bound",
    "pa": "test_pa_ends_exactly_on_the_margin",
    "pa1": "test_pa1_takes_no_step_longer_than_its_cap",
    "pa2": "test_pa2_ends_where_its_objective_is_least",
    "sgd-log": "test_sgd_log_steps_down_the_gradient",
    "averaged": "test_avg_is_the_mean_over_events_and_vote_over_those_that_moved_nothing",
    "one_vs_rest": "test_the_first_event_of_a_class_is_an_error",
    "scaled": "test_no_centred_value_is_beyond_its_bound",
}

some = settings(max_examples=60, derandomize=True, deadline=None)

FEATURES = st.dictionaries(st.integers(1, SMALL - 1), st.floats(-50, 50), max_size=6)
LABEL = st.sampled_from([-1.0, 1.0])
IMPORTANCE = st.sampled_from([1.0, 0.25, 4.0])
PARAMETER = st.sampled_from([0.03, 0.5, 1.0, 5.0])
HISTORY = st.integers(0, 20)


def learn(learner, state, row, y, c=1.0):
    """One event; returns its score."""
    return learner.learn(state, one(row, c), np.array([y]))[0]


def one(row, c=1.0):
    return Batch.from_rows(
        [([BIAS, *sorted(row)], [1.0, *(row[slot] for slot in sorted(row))])], [c]
    )


def dense(row):
    x = np.zeros(SMALL)
    x[[BIAS, *row]] = [1.0, *row.values()]
    return x


def after(learner, events):
    """A state that has seen something."""
    stream = seeded(7, 20)
    state = learner.init(SMALL)
    learner.learn(state, stream.X.rows(0, events), labels(learner, stream)[:events])
    return state


def weights(state):
    return state.w.scale[0] * state.w.v


# Passive-Aggressive


@some
@given(row=FEATURES, y=LABEL, epsilon=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_pa_ends_exactly_on_the_margin(row, y, epsilon, c, history):
    learner = make({"kind": "pa", "epsilon": epsilon})
    state = after(learner, history)
    if y * learn(learner, state, row, y, c) < epsilon:
        assert y * learner.scores(state, one(row))[0] == pytest.approx(epsilon, rel=1e-9)


@some
@given(row=FEATURES, y=LABEL, C=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_pa1_takes_no_step_longer_than_its_cap(row, y, C, c, history):
    learner = make({"kind": "pa1", "C": C})
    state = after(learner, history)
    before = weights(state)
    s = learn(learner, state, row, y, c)
    step, x = weights(state) - before, dense(row)
    assert np.linalg.norm(step) <= C * c * np.linalg.norm(x) * (1 + 1e-9)
    if 0 < (1 - y * s) / (x @ x) < C * c:  # uncapped: it is PA
        assert y * (weights(state) @ x) == pytest.approx(1.0, rel=1e-9)
    elif y * s < 1:
        assert np.allclose(step, C * c * y * x, rtol=1e-9, atol=1e-12)


@some
@given(row=FEATURES, y=LABEL, C=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_pa2_ends_where_its_objective_is_least(row, y, C, c, history):
    """½‖w − w_t‖² + c·C·ξ², ξ = 1 − y·w·x: the gradient vanishes."""
    learner = make({"kind": "pa2", "C": C})
    state = after(learner, history)
    before, x = weights(state), dense(row)
    s = learn(learner, state, row, y, c)
    w = weights(state)
    if y * s < 1:
        gradient = w - before - 2 * c * C * (1 - y * (w @ x)) * y * x
        assert np.allclose(
            gradient, 0.0, atol=1e-9 * max(1.0, 2 * c * C) * np.abs(x).max() * (1 + abs(s))
        )
        assert np.allclose(
            w, before + (1 - y * s) / (x @ x + 1 / (2 * c * C)) * y * x, rtol=1e-9, atol=1e-12
        )


@some
@given(
    row=FEATURES,
    y=LABEL,
    kind=st.sampled_from(["pa", "pa1", "pa2"]),
    epsilon=PARAMETER,
    history=HISTORY,
)
def test_the_pa_family_is_passive_beyond_the_margin(row, y, kind, epsilon, history):
    learner = make({"kind": kind, "epsilon": epsilon})
    state = after(learner, history)
    before, updates = weights(state), learner.updates(state)
    passive = y * learn(learner, state, row, y) >= epsilon
    assert passive == (weights(state).tobytes() == before.tobytes())
    assert learner.updates(state) == updates + (not passive)


# The perceptron


@looped("margin", [0.05, 0.3])
@looped("seed", range(3))
def test_perceptron_keeps_its_mistake_bound(seed, margin):
    """Novikoff: on data that a unit vector separates by γ, no more than (R/γ)² mistakes, however
    long.
    """
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((4000, 1)), rng.normal(size=(4000, 4))])
    u = rng.normal(size=5)
    u /= np.linalg.norm(u)
    x = x[np.abs(x @ u) >= margin]
    rows = Batch.from_rows([(range(5), values) for values in x])
    learner = make("perceptron")
    state = learner.init(5)
    learner.learn(state, rows, np.sign(x @ u))
    assert 0 < learner.updates(state) <= np.square(x).sum(axis=1).max() / margin**2


@some
@given(
    row=FEATURES,
    y=LABEL,
    c=IMPORTANCE,
    eta=PARAMETER,
    bias=st.sampled_from(["feature", "r2"]),
    history=HISTORY,
)
def test_perceptron_moves_on_a_mistake_only(row, y, c, eta, bias, history):
    learner = make({"kind": "perceptron", "eta": eta, "bias": bias})
    state = after(learner, history)
    before = weights(state)
    s = learn(learner, state, row, y, c)
    x = dense(row)
    if bias == "r2":
        assert state.radius[0] >= np.linalg.norm(x[1:]) * (1 - 1e-12)
        x[BIAS] = state.radius[0] ** 2
    wanted = before + c * eta * y * x if y * s <= 0 else before
    assert np.allclose(weights(state), wanted, rtol=1e-12, atol=1e-12)


# Logistic regression


@some
@given(row=FEATURES, y=LABEL, c=IMPORTANCE, eta0=PARAMETER, history=HISTORY)
def test_sgd_log_steps_down_the_gradient(row, y, c, eta0, history):
    learner = make({"kind": "sgd-log", "eta0": eta0, "horizon": 50})
    state = after(learner, history)
    before, x, k = weights(state), dense(row), int(state.events[0])
    assume(abs(before @ x) < 30)  # beyond, the loss is too flat for differences
    learn(learner, state, row, y, c)
    h = 1e-6
    gradient = [
        (loss(before + h * e, x, y) - loss(before - h * e, x, y)) / (2 * h) for e in np.eye(SMALL)
    ]
    rate = c * eta0 / (1 + k / 50)
    assert np.allclose(
        weights(state) - before,
        -rate * np.array(gradient),
        rtol=1e-5,
        atol=1e-6 * rate * np.abs(x).max(),
    )


def loss(w, x, y):
    return np.logaddexp(0.0, -y * (w @ x))


def test_sgd_log_shrinks_every_weight_but_the_bias():
    """Rows of the bias alone, whose label is near certain: what moves is shrinking."""
    learner = make({"kind": "sgd-log", "lam": 3.0, "horizon": 10})
    state = learner.init(3)
    state.w.v[:] = [800.0, 2.0, -3.0]
    shrunk = 1.0
    for k in range(40):
        learn(learner, state, {}, 1.0)
        shrunk *= 1 - 2 * 3.0 * 0.1 / (1 + k / 10) / 10
        assert np.allclose(weights(state), [800.0, 2.0 * shrunk, -3.0 * shrunk], rtol=1e-12)


def test_the_weights_do_not_notice_a_fold():
    learner = make(FOLDING)
    state = learner.init(3)
    w, b, folds = np.zeros(2), 0.0, 0
    for k in range(400):
        row, y = {1: 1.0 + k % 3, 2: -0.5}, 1.0 - 2 * (k % 2)
        eta = 0.1 / (1 + k / 1000)
        step = eta * ((y > 0) - 1 / (1 + math.exp(-(w @ [row[1], row[2]] + b))))
        w, b = w * (1 - 2 * 4900 * eta / 1000) + step * np.array([row[1], row[2]]), b + step
        scale = state.w.scale[0]
        learn(learner, state, row, y)
        folds += state.w.scale[0] > scale
        assert np.allclose(weights(state), [b, *w], rtol=1e-10, atol=1e-12)
    assert folds >= 2


# Averaging


def test_avg_is_the_mean_over_events_and_vote_over_those_that_moved_nothing():
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
    for averaged in states.values():  # learning goes on from the current weights, whatever answers
        assert weights(averaged).tobytes() == weights(state).tobytes()


def test_the_mean_of_weights_that_shrink_fast_counts_every_event():
    """A rate at which the sum of all scales so far soon dwarfs the present one."""
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
def test_the_first_event_of_a_class_is_an_error(base):
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


def test_one_vs_rest_answers_as_binary_learners_of_one_class_each():
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
    """Scaled values as the base gets them."""

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
        assert abs(values[1]) <= (k - 1) / math.sqrt(k) * (1 + 1e-9)


@looped("center", [True, False])
def test_the_first_event_and_columns_without_variance_are_0_and_the_bias_is_untouched(center):
    scaler = Passing(center)
    for x in (0.1, 0.1, 0.1, 0.3):
        values = scaler.values({1: x, 2: 7.0})
        assert values[BIAS] == 1.0
        assert values[2] == 0.0
        assert (values[1] == 0.0) == (x == 0.1)


@some
@given(column=COLUMN, center=st.booleans())
def test_absent_features_count_as_zeros(column, center):
    """Lazy counting, where a zero is left out, equals eager counting, where it is written."""
    lazy, eager = Passing(center), Passing(center)
    for x in [*column, 1.0]:
        present = {1: x} if x != 0.0 else {}
        lazily, eagerly = lazy.values(present), eager.values({1: x})
        assert lazily.get(1, 0.0) == pytest.approx(eagerly[1], rel=1e-9, abs=1e-9)
    k = int(eager.state.events[0])
    assert int(lazy.state.events[0]) == k
    everything = np.array([*column, 1.0])
    assert eager.state.mean[1] == pytest.approx(everything.mean(), rel=1e-9, abs=1e-9)
    assert eager.state.spread[1] == pytest.approx(everything.var() * k, rel=1e-9, abs=1e-9)


@looped("choice", composition_choices("scaled"), ids=str)
def test_an_event_is_counted_once_whatever_its_importance(choice):
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
