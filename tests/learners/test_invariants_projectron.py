"""The projectrons project to the nearest point, and never exceed their room."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import Batch
from learners.kernel.similarity import compare_to_itself
from learners.registry import make
from learners.state import state_digest
from tests.examples import examples
from tests.learners.projectrons import (
    FORMS,
    coefficients,
    compare_to_stored,
    dense,
    few,
    forms,
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

INVARIANTS = {
    "projectron": "test_a_projection_is_the_nearest_point_at_distance_delta",
    "projectron++": "test_a_margin_step_stores_no_row_and_never_lowers_the_margin",
}
"""Kind -> its first test."""

some = examples(60)


@some
@given(form=forms, K=kernels, seed=seeds)
def test_a_projectron_never_stores_more_rows_than_its_room(form, K, seed):
    model = learner(form, K)
    X, y = history(seed, 40)
    state = model.init(SMALL)
    most = form.get("budget", 15)
    for x, label in zip(X, y, strict=True):
        before = int(state.support.size[0])
        model.learn(state, one(x), np.array([label]))
        assert state.support.size[0] <= min(before + 1, most)
    assert state.inverse.own.size == most + ("forgetful" in model.kind)


@some
@given(
    K=kernels,
    seed=seeds,
    plus=st.booleans(),
    eta=st.sampled_from([0.1, 0.5, 2.0]),
    room=st.sampled_from([5, 25]),
)
def test_a_projection_is_the_nearest_point_at_distance_delta(K, seed, plus, eta, room):
    """‖f − f′‖ = δ where f′ is the perceptron's step, and f′ − f is orthogonal to every stored row.

    A row is projected if δ ≤ η (δ, not δ²), or if there is no room or nothing left to add.
    """
    form = {"kind": "projectron++" if plus else "projectron", "eta": eta, "max_support": room}
    model = learner(form, K)
    state = learn_history(model, seed)
    X, y = history(seed + 1, 20)
    for x, label in zip(X, y, strict=True):
        k, own = (
            compare_to_stored(model, state, one(x))[:, 0],
            compare_to_itself(model.function(), one(x), 0).k,
        )
        before, n, K_ = coefficients(state), int(state.support.size[0]), gram(model, state)
        rebuilt = state.inverse.rebuilt[0]
        score = model.learn(state, one(x), np.array([label]))[0]
        if label * score > 0 or state.inverse.rebuilt[0] > rebuilt:
            continue
        if state.support.size[0] > n:
            assert coefficients(state).tolist() == [*before, label]
            # A solver's δ² is as exact as the similarities are for rows near each other.
            assert n == 0 or own - k @ np.linalg.solve(K_, k) > eta * eta * (1 - 1e-6)
            continue
        moved = coefficients(state) - before
        off = label * k - K_ @ moved  # (f′ − f)(x_i)
        assert np.abs(off / np.sqrt(np.diag(K_) * own)).max() <= 1e-6 * max(
            1.0, np.abs(moved).max()
        )
        delta2 = own - label * k @ moved
        away = own - 2 * label * k @ moved + moved @ K_ @ moved
        assert away == pytest.approx(
            max(0.0, delta2), abs=1e-6 * own * max(1.0, np.abs(moved).max() ** 2)
        )
        full = n == room
        assert (
            full
            or math.sqrt(max(0.0, delta2)) <= eta * (1 + 1e-6)
            or delta2 <= 2 * state.inverse.limit[0] * own
        )


@looped(("delta", "rows"), [(0.2, 2), (0.11, 2), (0.09, 1)])
@looped("kind", ["projectron", "projectron++"])
def test_eta_bounds_delta_and_not_its_square(kind, delta, rows):
    model = learner({"kind": kind, "eta": 0.1}, {"gamma": 1.0})
    state = model.init(SMALL)
    apart = math.sqrt(-math.log(math.sqrt(1 - delta * delta)))  # K = √(1 − δ²)
    X = Batch.from_rows([([0, 1], [1.0, 0.0]), ([0, 1], [1.0, apart])])
    model.learn(state, X, np.array([1.0, -1.0]))
    assert state.support.size[0] == rows
    assert model.updates(state) == 2


@some
@given(form=forms, K=kernels, seed=seeds, label=st.sampled_from([-1.0, 1.0]))
def test_an_exact_projection_gives_the_scores_of_the_perceptron(form, K, seed, label):
    """A row that is already stored is a combination of the stored ones: its mistake moves f as if
    the row were added.

    The tolerance is 1e-9, or the error of a solver for stored rows that nearly depend on each
    other. If the forgetful one then drops its oldest row, that may cost η of f in norm (section
    7.3).
    """
    model = learner(form, K)
    state = learn_history(model, seed, near=False)
    rows, scale = stored_rows(state.support), np.sqrt(state.inverse.own[: state.support.size[0]])
    close = max(1e-9, 1e-14 * np.linalg.cond(gram(model, state) / scale / scale[:, None]))
    r = seed % rows.size
    again, others = rows.rows(r, r + 1), one(history(seed + 1, 1)[0][0])
    before = model.scores(state, others)[0]
    said = model.learn(state, again, np.array([label]))[0]
    if label * said > 0:
        return
    assert state.support.size[0] <= rows.size
    k = kernel_of_rows(model, again, others)
    forgot = form["kind"] == "forgetful-projectron" and state.support.size[0] < rows.size
    lost = form["eta"] * math.sqrt(kernel_of_rows(model, others, others)) if forgot else 0.0
    assert model.scores(state, others)[0] == pytest.approx(
        before + label * k, rel=close, abs=close * max(1.0, abs(k)) + lost
    )


def kernel_of_rows(model, X, other):
    """Return K of two rows."""
    state = make({"kind": "k-perceptron", **model.model_dump(include=SHARED)}).init(SMALL)
    fresh = make({"kind": "k-perceptron", **model.model_dump(include=SHARED)})
    fresh.learn(state, X, np.ones(1))
    return fresh.scores(state, other)[0]


SHARED = {"kernel", "gamma", "s", "c", "d", "normalise", "width"}


@some
@given(K=kernels, seed=seeds, budget=st.sampled_from([None, 9]), eta=st.sampled_from([0.1, 1.0]))
def test_a_margin_step_stores_no_row_and_never_lowers_the_margin(K, seed, budget, eta):
    """Where 0 < y·f(x) < 1 no row is stored, y·f(x) never falls and never exceeds 1."""
    model = make(
        {"kind": "projectron++", "eta": eta, "gamma": 1.0, "width": SMALL}
        | ({"max_support": 15} if budget is None else {"budget": budget})
        | K
    )
    state = learn_history(model, seed)
    for x in history(seed + 1, 30)[0]:
        for label in (-1.0, 1.0):
            before, margin = state_digest(state), label * model.scores(state, one(x))[0]
            if not 0 < margin < 1:
                continue
            n, rows = int(state.support.size[0]), state.support.values.copy()
            updates = model.updates(state)
            model.learn(state, one(x), np.array([label]))
            assert state.support.size[0] == n
            assert (state.support.values == rows).all()
            # Exact: the state changes if and only if an update is counted.
            assert (state_digest(state) != before) == (model.updates(state) > updates)
            # The step is cut where the margin is 1; then the score is a sum over other
            # coefficients.
            assert margin - 1e-9 <= label * model.scores(state, one(x))[0] <= 1 + 1e-6


@looped("kind", ["projectron", "projectron++"])
@few
@given(seed=seeds, gamma=st.sampled_from([0.02, 0.1, 0.5]), budget=st.integers(2, 40))
def test_each_mistake_with_budget_progresses_toward_any_hypothesis(kind, seed, gamma, budget):
    """‖f−g‖² − ‖f′−g‖² ≥ ½ − 2ℓ(g) for ‖g‖ ≤ U, for each mistake that the budget has room for;
    needs K(x,x) ≤ 1.

    The test tries some g, and the worst: the g of norm U along the part that a projection loses,
    with y·g(x) = U·δ.
    """
    model = make({"kind": kind, "budget": budget, "gamma": gamma, "width": SMALL})
    U = 0.25 * math.sqrt((budget + 1) / math.log(budget + 1))
    X, y = history(seed, 60)
    state, rng = model.init(SMALL), np.random.default_rng(seed)
    everything = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    # G is mostly right, so that it is hard to approach.
    weights = rng.normal(size=len(X)) + 3 * y
    weights *= U / math.sqrt(weights @ everything @ weights)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        rows = stored_rows(state.support)
        a, full = coefficients(state), state.support.size[0] == budget
        to_g = products(gamma, dense(rows), X) @ weights
        k, K_, n = (
            compare_to_stored(model, state, one(x))[:, 0],
            gram(model, state),
            int(state.support.size[0]),
        )
        square = a @ K_ @ a
        apart = square - 2 * a @ to_g
        score = model.learn(state, one(x), np.array([label]))[0]
        if label * score > 0 or full or state.inverse.rebuilt[0]:
            continue
        a = coefficients(state)
        to_g = products(gamma, dense(stored_rows(state.support)), X) @ weights
        after = a @ gram(model, state) @ a - 2 * a @ to_g
        loss = max(0.0, 1 - label * (everything[t] @ weights))
        # Differences of squares of up to U² ≈ 7, from an inverse that is exact to PRECISION.
        assert apart - after >= 0.5 - 2 * loss - 1e-6
        left = 1 - k @ np.linalg.solve(K_, k)
        if state.support.size[0] == n and left > 1e-6:
            shrunk = square - a @ K_ @ a  # this g is orthogonal to f and to f′
            assert shrunk >= 0.5 - 2 * max(0.0, 1 - U * math.sqrt(left)) - 1e-6


def products(gamma, rows, X):
    return np.exp(-gamma * ((rows[:, None, 1:] - X[None, :, 1:]) ** 2).sum(axis=2))


@looped("kind", ["projectron", "projectron++", "forgetful-projectron"])
@looped("kernel", ["sigmoid", "tree+sigmoid"])
def test_a_kernel_that_is_not_positive_definite_is_refused(kind, kernel):
    with pytest.raises(ValueError, match="sigmoid is not positive definite"):
        make({"kind": kind, "kernel": kernel})


@looped("form", FORMS, ids=str)
def test_a_row_without_room_is_projected(form):
    """The room for entries ends before that for rows; a new row that does not fit moves f
    nevertheless.
    """
    model = learner(
        {**form, **({"budget": 3} if "budget" in form else {"max_support": 3})},
        {"gamma": 0.5, "width": 2},
    )
    state = model.init(SMALL)
    short, long = [([1], [0.5]), ([2], [0.5])], ([1, 2, 3, 4, 5, 6], [0.5, 0.4, 0.3, 0.2, 0.1, 0.6])
    for row in short:
        model.learn(state, Batch.from_rows([row]), np.array([1.0]))
        model.learn(state, Batch.from_rows([row]), np.array([-1.0]))
    model.learn(state, Batch.from_rows([short[0]]), np.array([1.0]))
    n, before = int(state.support.size[0]), model.scores(state, Batch.from_rows([long]))[0]
    model.learn(state, Batch.from_rows([long]), np.array([-np.sign(before)]))
    after = model.scores(state, Batch.from_rows([long]))[0]
    assert abs(after) < abs(before) or after * before < 0
    assert state.support.ends[state.support.size[0]] <= 6
    if "forgetful" in model.kind:
        assert state.support.size[0] == 1  # the row needs all the room
    else:
        assert state.support.size[0] == n
    beyond = Batch.from_rows([(range(1, 8), [0.3] * 7)])
    size, said = int(state.support.size[0]), model.scores(state, beyond)[0]
    model.learn(state, beyond, np.array([-np.sign(said)]))
    assert state.support.size[0] == size
    assert model.scores(state, beyond)[0] != said
