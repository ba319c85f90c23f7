"""What learners promise that project: of the inverse, of the projection, of the budget. The table
names one of each.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from learners.batch import Batch
from learners.kernel.gram_inverse import (
    DEPENDENT,
    TOLERANCE,
    distance,
    fresh_inverse,
    grow,
    is_valid_inverse,
    project,
    shrink,
)
from learners.kernel.similarity import compare_to_itself, similarities
from learners.registry import make
from learners.state import flatten, restore, state_digest
from tests.learners.stored_sets import room_for, stored_rows
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {
    "projectron": "test_a_projection_is_the_nearest_point_and_delta_away",
    "projectron++": "test_a_margin_step_never_adds_and_never_loses_ground",
    "forgetful-projectron": "test_the_oldest_row_leaves_as_if_it_had_never_been_in_the_inverse",
}

some = settings(max_examples=60, derandomize=True, deadline=None)

FORMS = [
    {"kind": "projectron"},
    {"kind": "projectron", "eta": 0.0},
    {"kind": "projectron", "budget": 9},
    {"kind": "projectron++"},
    {"kind": "projectron++", "budget": 9},
    {"kind": "forgetful-projectron", "budget": 9},
    {"kind": "forgetful-projectron", "budget": 9, "eta": 0.2},
]
KERNELS = [
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "rbf", "gamma": 1e-4},
    {"kernel": "polynomial"},
    {"kernel": "polynomial", "normalise": "both"},
    {"kernel": "linear"},
]
forms = st.sampled_from(FORMS)
kernels = st.sampled_from(KERNELS)
seeds = st.integers(0, 10**6)


def learner(form, K):
    room = {} if "budget" in form else {"max_support": 15}
    return make({"gamma": 1.0, "width": SMALL} | room | form | K)


def one(x):
    """A batch of one row, all slots written."""
    return Batch.from_rows([(range(len(x)), x)])


def history(seed, rows, *, near=True):
    """Rows in two columns or in all; three of ten are near an earlier one, from the same to nearly
    independent.
    """
    rng = np.random.default_rng(seed)
    X = np.ones((rows, SMALL))
    X[:, 1:] = rng.normal(size=(rows, SMALL - 1))
    if seed % 3 == 0:
        X[:, 3:] = 0.0
    for t in range(1, rows):
        if near and rng.random() < 0.3:
            X[t] = X[rng.integers(t)]
            X[t, 1] += rng.choice([0.0, 1e-9, 1e-5, 1e-3])
    return X, rng.choice([-1.0, 1.0], rows)


def learned(model, seed, rows=40, *, near=True):
    X, y = history(seed, rows, near=near)
    state = model.init(SMALL)
    for x, label in zip(X, y, strict=True):
        model.learn(state, one(x), np.array([label]))
    return state


def compared(model, state, X):
    """K(x_i, x) of the stored rows, a column per row of a batch."""
    work, n = room_for(state.support), int(state.support.size[0])
    columns = []
    for t in range(X.size):
        similarities(state.support, model.function(), X, t, work)
        columns.append(work.k[:n].copy())
    return np.array(columns).reshape(X.size, n).T


def gram(model, state):
    K = compared(model, state, stored_rows(state.support))
    return (K + K.T) / 2


def coefficients(state):
    return state.support.a[: state.support.size[0]].copy()


def factor(inverse, n):
    W = np.zeros((n, n))
    W[np.tril_indices(n)] = inverse.factor[: n * (n + 1) // 2]
    return W


def residual(model, state):
    """How far K⁻¹K is from the identity, rows and columns in units of their lengths."""
    K = gram(model, state)
    W, lengths = factor(state.inverse, len(K)), np.sqrt(np.diag(K))
    return np.abs((W.T @ (W @ K) - np.eye(len(K))) * lengths[:, None] / lengths).max(initial=0.0)


PRECISION = 10 * np.finfo(float).eps / DEPENDENT
"""Rows may differ by 1e-10 of K(x,x), of which their similarities know six digits: 2e-6, and some
more.
"""


@looped("form", FORMS, ids=str)
@some
@given(K=kernels, seed=seeds)
@example(K={"kernel": "polynomial", "normalise": "both"}, seed=128)
def test_the_inverse_is_one_and_the_norm_is_that_of_f(form, K, seed):
    model = learner(form, K)
    X, y = history(seed, 40)
    state = model.init(SMALL)
    for x, label in zip(X, y, strict=True):
        scores = model.learn(state, one(x), np.array([label]))
        assert np.isfinite(scores).all()
        assert residual(model, state) <= PRECISION
    a = coefficients(state)
    assert model.is_valid(state)
    assert model.norm(state) ** 2 == pytest.approx(a @ gram(model, state) @ a, rel=1e-6, abs=1e-6)


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
            assert (state_digest(state) != before) == (model.updates(state) > updates)
            assert margin - 1e-9 <= label * model.scores(state, one(x))[0] <= 1 + 1e-6


@looped("kind", ["projectron", "projectron++"])
@some
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
        assert apart - after >= 0.5 - 2 * loss - 1e-6
        left = 1 - k @ np.linalg.solve(K_, k)
        if state.support.size[0] == n and left > 1e-6:
            shrunk = square - a @ K_ @ a  # such a g is orthogonal to f and to f′
            assert shrunk >= 0.5 - 2 * max(0.0, 1 - U * math.sqrt(left)) - 1e-6


def dense(rows):
    x = np.zeros((rows.size, SMALL))
    for t in range(rows.size):
        x[t, rows.indices[rows.indptr[t] : rows.indptr[t + 1]]] = rows.values[
            rows.indptr[t] : rows.indptr[t + 1]
        ]
    return x


def products(gamma, rows, X):
    return np.exp(-gamma * ((rows[:, None, 1:] - X[None, :, 1:]) ** 2).sum(axis=2))


def definite(seed, n):
    """A Gram matrix of rows of different lengths."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-2, 2, n)[:, None]
    return rows @ rows.T


def grown(K):
    n = len(K)
    inverse, d = fresh_inverse(n), np.empty(n)
    for r in range(n):
        p = project(inverse, r, K[:, r].copy(), d)
        grow(inverse, r, d, math.sqrt(K[r, r] - p), K[r, r])
    return inverse


@some
@given(seed=seeds, n=st.integers(2, 12), data=st.data())
def test_the_oldest_row_leaves_as_if_it_had_never_been_in_the_inverse(seed, n, data):
    """And so does any other: the factor is that of a fresh inverse, δ and the projection are those
    of a solver.
    """
    r = data.draw(st.one_of(st.just(0), st.integers(0, n - 1)))
    K = definite(seed, n)
    rest = [i for i in range(n) if i != r]
    inverse, d = grown(K), np.empty(n)
    scale = np.sqrt(np.diag(K))
    away = distance(inverse, n, r)
    delta = shrink(inverse, n, r, d)
    wanted = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, r])
    conditions = np.linalg.cond(K / scale / scale[:, None])
    assert delta == pytest.approx(math.sqrt(K[r, r] - K[rest, r] @ wanted), rel=1e-13 * conditions)
    assert away == pytest.approx(delta, rel=1e-13 * conditions)
    close = 1e-13 * conditions * n
    assert np.abs((d[: n - 1] - wanted) * scale[rest] / scale[r]).max() <= close
    fresh = grown(K[np.ix_(rest, rest)])
    off = factor(inverse, n - 1) - factor(fresh, n - 1)
    assert (
        np.abs(off * scale[rest]).max() <= close * np.abs(factor(fresh, n - 1) * scale[rest]).max()
    )
    assert inverse.own[: n - 1].tolist() == np.diag(K)[rest].tolist()
    assert is_valid_inverse(inverse, n - 1)


@some
@given(K=kernels, seed=seeds, eta=st.sampled_from([0.0, 0.3]), budget=st.integers(1, 9))
def test_forgetting_keeps_what_the_younger_rows_can_express(K, seed, eta, budget):
    """The newcomer is stored and only the oldest ever leaves; no younger row's score changes by
    that.
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
        k = compared(model, state, one(x))[:, 0]
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
            assert (np.abs(now - wanted) <= 1e-6 * lengths * size).all()


@looped("form", FORMS, ids=str)
@looped("value", [0.0, 1e30, math.nan])
def test_a_spoilt_inverse_is_found_and_rebuilt(form, value):
    """Within as many mistakes as there are rows, or at once where it makes a projection longer than
    the row.
    """
    room = (
        {"budget": 30 if "forgetful" in form["kind"] else 300}
        if "budget" in form
        else {"max_support": 200}
    )
    model = learner(form | room, {"gamma": 0.1})
    state = learned(model, 1, 30, near=False)
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
def test_rows_that_float64_cannot_tell_apart_never_spoil_the_inverse(form, K):
    """Against a solver of more digits: a projection is the nearest point, to 1e-5 of the row's
    length.
    """
    model = learner({**form, **({"budget": 60} if "budget" in form else {"max_support": 60})}, K)
    rng = np.random.default_rng(3)
    X, y = np.ones((300, SMALL)), rng.choice([-1.0, 1.0], 300)
    X[:, 1:] = rng.normal(size=(300, SMALL - 1)) * [1, 1, 1e-3, 0, 0, 0, 0]
    state = model.init(SMALL)
    projected = 0
    for x, label in zip(X, y, strict=True):
        k, own = (
            compared(model, state, one(x))[:, 0],
            compare_to_itself(model.function(), one(x), 0).k,
        )
        a, G, rebuilt = coefficients(state), gram(model, state), state.inverse.rebuilt[0]
        said = model.learn(state, one(x), np.array([label]))[0]
        assert np.isfinite(said)
        assert residual(model, state) <= 1e-6
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
            off = np.array(coefficients(state) - a - label * solved(G, k), np.float64)
            assert off @ G @ off <= 1e-10 * own
            projected += 1
    assert projected > 10 or form == FORMS[-1]


def solved(K, k):
    """K⁻¹k by Cholesky in long doubles."""
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


def test_a_state_that_no_rows_led_to_is_seen():
    model = learner(FORMS[0], KERNELS[0])
    state = learned(model, 1, 20)
    spoilt = [("inverse/factor", 0, 0.0), ("inverse/factor", 1, math.nan), ("inverse/own", 0, -1.0)]
    spoilt += [("inverse/limit", 0, 0.0), ("inverse/turn", 0, -1), ("inverse/since", 0, -1)]
    assert model.is_valid(state)
    assert model.is_valid(model.init(SMALL))
    for path, place, value in spoilt:
        arrays = {name: array.copy() for name, array in flatten(state).items()}
        arrays[path][place] = value
        assert not model.is_valid(restore(model.init(SMALL), arrays))
