"""The projectrons project to the nearest point, and never beyond their room."""

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
    compared,
    dense,
    few,
    forms,
    gram,
    history,
    kernels,
    learned,
    learner,
    one,
    seeds,
)
from tests.learners.stored_sets import stored_rows
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {
    "projectron": "test_a_projection_is_the_nearest_point_and_delta_away",
    "projectron++": "test_a_margin_step_never_adds_and_never_loses_ground",
}
"""Names the first test of each kind."""

some = examples(60)


@some
@given(form=forms, K=kernels, seed=seeds)
def test_no_more_rows_are_stored_than_there_is_room_for(form, K, seed):
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
def test_a_projection_is_the_nearest_point_and_delta_away(K, seed, plus, eta, room):
    """‖f − f′‖ = δ where f′ is the perceptron's step, and f′ − f is orthogonal to every stored row.

    δ ≤ η says what is projected (δ, not δ²), unless there is no room or nothing left to add.
    """
    form = {"kind": "projectron++" if plus else "projectron", "eta": eta, "max_support": room}
    model = learner(form, K)
    state = learned(model, seed)
    X, y = history(seed + 1, 20)
    for x, label in zip(X, y, strict=True):
        k, own = (
            compared(model, state, one(x))[:, 0],
            compare_to_itself(model.function(), one(x), 0).k,
        )
        before, n, K_ = coefficients(state), int(state.support.size[0]), gram(model, state)
        rebuilt = state.inverse.rebuilt[0]
        score = model.learn(state, one(x), np.array([label]))[0]
        if label * score > 0 or state.inverse.rebuilt[0] > rebuilt:
            continue
        if state.support.size[0] > n:
            assert coefficients(state).tolist() == [*before, label]
            # δ² by a solver, which knows it as the similarities know rows near each other.
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
def test_delta_and_not_its_square_is_compared_with_eta(kind, delta, rows):
    model = learner({"kind": kind, "eta": 0.1}, {"gamma": 1.0})
    state = model.init(SMALL)
    apart = math.sqrt(-math.log(math.sqrt(1 - delta * delta)))  # K = √(1 − δ²)
    X = Batch.from_rows([([0, 1], [1.0, 0.0]), ([0, 1], [1.0, apart])])
    model.learn(state, X, np.array([1.0, -1.0]))
    assert state.support.size[0] == rows
    assert model.updates(state) == 2


@some
@given(form=forms, K=kernels, seed=seeds, label=st.sampled_from([-1.0, 1.0]))
def test_an_exact_projection_leaves_every_score_as_the_perceptron_would(form, K, seed, label):
    """A row that is stored already is a combination of the stored ones: its mistake moves f as if
    it were added.

    To 1e-9, or to what a solver would give for stored rows that nearly depend on each other. Where
    the forgetful one then drops its oldest row, that may cost η of f in norm (section 7.3).
    """
    model = learner(form, K)
    state = learned(model, seed, near=False)
    rows, scale = stored_rows(state.support), np.sqrt(state.inverse.own[: state.support.size[0]])
    close = max(1e-9, 1e-14 * np.linalg.cond(gram(model, state) / scale / scale[:, None]))
    r = seed % rows.size
    again, others = rows.rows(r, r + 1), one(history(seed + 1, 1)[0][0])
    before = model.scores(state, others)[0]
    said = model.learn(state, again, np.array([label]))[0]
    if label * said > 0:
        return
    assert state.support.size[0] <= rows.size
    k = itself_with(model, again, others)
    forgot = form["kind"] == "forgetful-projectron" and state.support.size[0] < rows.size
    lost = form["eta"] * math.sqrt(itself_with(model, others, others)) if forgot else 0.0
    assert model.scores(state, others)[0] == pytest.approx(
        before + label * k, rel=close, abs=close * max(1.0, abs(k)) + lost
    )


def itself_with(model, X, other):
    """K of two rows."""
    state = make({"kind": "k-perceptron", **model.model_dump(include=SHARED)}).init(SMALL)
    fresh = make({"kind": "k-perceptron", **model.model_dump(include=SHARED)})
    fresh.learn(state, X, np.ones(1))
    return fresh.scores(state, other)[0]


SHARED = {"kernel", "gamma", "s", "c", "d", "normalise", "width"}


@some
@given(K=kernels, seed=seeds, budget=st.sampled_from([None, 9]), eta=st.sampled_from([0.1, 1.0]))
def test_a_margin_step_never_adds_and_never_loses_ground(K, seed, budget, eta):
    """Where 0 < y·f(x) < 1 no row is stored, y·f(x) never falls and never passes 1."""
    model = make(
        {"kind": "projectron++", "eta": eta, "gamma": 1.0, "width": SMALL}
        | ({"max_support": 15} if budget is None else {"budget": budget})
        | K
    )
    state = learned(model, seed)
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
            # Exactly: nothing is written without being counted.
            assert (state_digest(state) != before) == (model.updates(state) > updates)
            # The step is cut where the margin is 1; the score is then summed of other coefficients.
            assert margin - 1e-9 <= label * model.scores(state, one(x))[0] <= 1 + 1e-6


@looped("kind", ["projectron", "projectron++"])
@few
@given(seed=seeds, gamma=st.sampled_from([0.02, 0.1, 0.5]), budget=st.integers(2, 40))
def test_the_budget_form_makes_progress_of_a_half_against_any_hypothesis_within_its_bound(
    kind, seed, gamma, budget
):
    """‖f−g‖² − ‖f′−g‖² ≥ ½ − 2ℓ(g) for ‖g‖ ≤ U, for each mistake that the budget has room for;
    needs K(x,x) ≤ 1.

    For some g, and for the worst: that of norm U along what a projection loses, with y·g(x) = U·δ.
    """
    model = make({"kind": kind, "budget": budget, "gamma": gamma, "width": SMALL})
    U = 0.25 * math.sqrt((budget + 1) / math.log(budget + 1))
    X, y = history(seed, 60)
    state, rng = model.init(SMALL), np.random.default_rng(seed)
    everything = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    # G is rather right, so that it is hard to come nearer to.
    weights = rng.normal(size=len(X)) + 3 * y
    weights *= U / math.sqrt(weights @ everything @ weights)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        rows = stored_rows(state.support)
        a, full = coefficients(state), state.support.size[0] == budget
        to_g = products(gamma, dense(rows), X) @ weights
        k, K_, n = (
            compared(model, state, one(x))[:, 0],
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
        # Differences of squares of up to U² ≈ 7, by an inverse that is true to PRECISION.
        assert apart - after >= 0.5 - 2 * loss - 1e-6
        left = 1 - k @ np.linalg.solve(K_, k)
        if state.support.size[0] == n and left > 1e-6:
            shrunk = square - a @ K_ @ a  # such a g is orthogonal to f and to f′
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
    """Room for entries ends before that for rows: what is new and does not fit moves f all the
    same.
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
        assert state.support.size[0] == 1  # it needs all the room
    else:
        assert state.support.size[0] == n
    beyond = Batch.from_rows([(range(1, 8), [0.3] * 7)])
    size, said = int(state.support.size[0]), model.scores(state, beyond)[0]
    model.learn(state, beyond, np.array([-np.sign(said)]))
    assert state.support.size[0] == size
    assert model.scores(state, beyond)[0] != said
