"""What is proved or promised of ROMMA, the L2-regularised PAs, NORMA and the dual SVM, as
properties.
"""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import optimize

from learners.batch import BIAS, Batch
from learners.evaluation.progress import predict_labels
from learners.learner import Memory
from learners.registry import make
from tests.learners.streams import SMALL, labels, seeded
from tests.looped import looped

INVARIANTS = {
    "romma": "test_romma_meets_its_two_constraints",
    "pa-l2obj": "test_pa_l2obj_ends_where_its_objective_is_least",
    "pa-l2": "test_pa_l2_ends_where_a_general_solver_does",
    "norma": "test_norma_is_a_sum_of_what_it_saw",
    "svm-dual": "test_svm_dual_climbs_to_the_support_vector_machine",
}

some = settings(max_examples=60, derandomize=True, deadline=None)

FEATURES = st.dictionaries(st.integers(1, SMALL - 1), st.floats(-50, 50), max_size=6)
LABEL = st.sampled_from([-1.0, 1.0])
IMPORTANCE = st.sampled_from([1.0, 0.25, 4.0])
PARAMETER = st.sampled_from([0.03, 0.5, 1.0, 5.0])
HISTORY = st.integers(0, 20)
UPDATE_ON = st.sampled_from(["margin", "mistake"])


def learn(learner, state, row, y, c=1.0):
    """One event; returns its score."""
    return learner.learn(state, one(row, c), np.array([y]))[0]


def one(row, c=1.0):
    return Batch.from_rows(
        [([BIAS, *sorted(row)], [1.0, *(row[slot] for slot in sorted(row))])], [c]
    )


def bare(*rows):
    """Rows without the bias, all slots filled."""
    return Batch.from_rows([(range(len(values)), values) for values in rows])


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


def separable(seed, margin=0.1):
    """Rows with y·u·x ≥ 1 for a known u, and (R·‖u‖)², the perceptron's bound."""
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((4000, 1)), rng.normal(size=(4000, 4))])
    u = rng.normal(size=5)
    u /= np.linalg.norm(u) * margin
    x = x[np.abs(x @ u) >= 1]
    return x, np.sign(x @ u), np.linalg.norm(u), np.sqrt(np.square(x).sum(axis=1).max())


def noisy(seed, rows=3000, dim=6, wrong=0.2):
    """Rows that no weights separate."""
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((rows, 1)), rng.normal(size=(rows, dim - 1))])
    y = np.sign(x @ rng.normal(size=dim))
    return x, np.where(rng.random(rows) < wrong, -y, y)


# ROMMA


@some
@given(row=FEATURES, y=LABEL, aggressive=st.booleans(), history=HISTORY)
def test_romma_meets_its_two_constraints(row, y, aggressive, history):
    """After an update w·x = y, and w·w_old = ‖w_old‖², or more where only the margin binds."""
    learner = make({"kind": "romma", "aggressive": aggressive})
    state = after(learner, history)
    old, x, updates = weights(state), dense(row), learner.updates(state)
    s = learn(learner, state, row, y)
    w = weights(state)
    assert learner.updates(state) - updates == (y * s < 1 if aggressive else y * s <= 0)
    if learner.updates(state) == updates:
        assert w.tobytes() == old.tobytes()
        return
    both = (x @ x) * (old @ old)
    assume(both == 0 or 1 - s * s / both > 1e-6)  # nearer to parallel, rounding is all that is left
    tight = 1e-9 / (1 - s * s / both) if both else 1e-9
    assert w @ x == pytest.approx(y, abs=tight * max(1, abs(s)))
    if y * s < both:
        assert w @ old == pytest.approx(old @ old, rel=tight)
    else:
        assert w @ old >= (old @ old) * (1 - tight)
        assert np.allclose(w, y * x / (x @ x), rtol=1e-12)
    assert state.length[0] == pytest.approx(w @ w, rel=1e-9)


@looped("aggressive", [False, True])
@looped("seed", range(3))
def test_romma_keeps_the_mistake_bound_of_the_perceptron(seed, aggressive):
    """And its norm only grows, up to that of any weights which separate the rows by 1."""
    x, y, u, R = separable(seed)
    learner = make({"kind": "romma", "aggressive": aggressive})
    state = learner.init(5)
    mistakes, length = 0, 0.0
    for row, label in zip(x, y, strict=True):
        mistakes += label * learner.learn(state, bare(row), np.array([label]))[0] <= 0
        assert length * (1 - 1e-12) <= state.length[0] <= u * u * (1 + 1e-9)
        length = state.length[0]
    assert 0 < mistakes <= R * R * u * u
    if not aggressive:
        assert learner.updates(state) == mistakes


@looped("aggressive", [False, True])
def test_romma_knows_its_length_however_long_it_gets(aggressive):
    """On noise its norm grows for ever; the weights are shortened, and the labels stay those of
    exact arithmetic.
    """
    x, y = noisy(1, rows=6000)
    learner = make({"kind": "romma", "aggressive": aggressive})
    state, shortened, length, w = learner.init(6), 0, 0.0, np.zeros(6)
    for row, label in zip(x, y, strict=True):
        s = learner.learn(state, bare(row), np.array([label]))[0]
        assert abs(s - w @ row) <= 1e-9 * np.linalg.norm(w) * np.linalg.norm(row)
        shortened += state.length[0] < length
        w, length = weights(state), state.length[0]
        assert length == pytest.approx(w @ w, rel=1e-9)
    assert shortened >= 2
    assert learner.dropped_updates(state) == 0


def test_romma_stays_with_the_direction_when_it_shortens():
    """One state is long enough to be shortened, the other a little shorter: the same but for a
    factor.
    """
    x, y = noisy(2, rows=300)
    learner = make("averaged:mode=avg,base=romma")
    far, near = learner.init(6), learner.init(6)
    far.w.v[:] = 1e40 * x[0]
    near.w.v[:] = 1e35 * x[0]
    for state in (far, near):
        state.length[0] = state.computed[0] = weights(state) @ weights(state)
    scores = [learner.learn(state, bare(*x[1:]), y[1:]) for state in (far, near)]
    factor = weights(far)[0] / weights(near)[0]
    assert factor < 1e4
    assert np.array_equal(predict_labels(scores[0]), predict_labels(scores[1]))
    assert np.allclose(weights(far), factor * weights(near), rtol=1e-9)
    assert np.allclose(
        learner.scores(far, bare(*x)), factor * learner.scores(near, bare(*x)), rtol=1e-9
    )


@looped("aggressive", [False, True])
def test_romma_starts_anew_where_both_constraints_cannot_hold(aggressive):
    learner = make({"kind": "romma", "aggressive": aggressive})
    state = learner.init(3)
    for row, y in (([1.0, 2.0, 0.0], 1.0), ([1.0, 2.0, 0.0], -1.0), ([-3.0, -6.0, 0.0], -1.0)):
        learner.learn(state, bare(row), np.array([y]))
        assert np.allclose(weights(state), y * np.array(row) / np.square(row).sum(), rtol=1e-12)
    assert learner.updates(state) == 3


def test_aggressive_romma_lets_the_old_constraint_go_where_it_holds_by_itself():
    learner = make("romma:aggressive=true")
    state = learner.init(2)
    learner.learn(state, bare([10.0, 0.0]), np.array([1.0]))
    # ≥ ‖x‖²‖w‖² = 0.02.
    assert learner.learn(state, bare([1.0, 1.0]), np.array([1.0]))[0] == pytest.approx(0.1)
    assert np.allclose(weights(state), [0.5, 0.5])


@looped("share", [0.01, 0.5, 0.999])
def test_aggressive_romma_wants_the_whole_margin(share):
    learner = make("romma:aggressive=true")
    state = learner.init(2)
    learner.learn(state, bare([3.0, 4.0]), np.array([1.0]))
    learner.learn(state, bare([share * 3.0, share * 4.0]), np.array([1.0]))
    assert learner.scores(state, bare([share * 3.0, share * 4.0]))[0] == pytest.approx(
        1.0, rel=1e-12
    )


# L2-regularised PA


def step(learner, state, row, y):
    """One event: weights before and after, the row and its score; hypothesis drops the example if
    nothing moved.
    """
    before, updates = weights(state), learner.updates(state)
    s = learn(learner, state, row, y)
    expected = y * s <= 0 if learner.update_on == "mistake" else y * s < 1
    assert learner.updates(state) - updates == expected
    if not expected:
        assert weights(state).tobytes() == before.tobytes()
    assume(expected)
    return before, weights(state), dense(row), s


@some
@given(row=FEATURES, y=LABEL, alpha=PARAMETER, update_on=UPDATE_ON, history=HISTORY)
def test_pa_l2obj_ends_where_its_objective_is_least(row, y, alpha, update_on, history):
    """KKT of ½‖w − w_t‖² + α/2·‖w‖², y·w·x ≥ 1: w − w_t + α·w = τ·y·x with τ ≥ 0, on the margin."""
    learner = make({"kind": "pa-l2obj", "alpha": alpha, "update_on": update_on})
    before, w, x, s = step(learner, after(learner, history), row, y)
    assert y * (w @ x) == pytest.approx(1.0, rel=1e-9)
    tau = (1 - y * s + alpha) / (x @ x)
    assert tau > 0
    assert np.allclose(
        w - before + alpha * w, tau * y * x, rtol=1e-9, atol=1e-9 * np.abs(before).max() + 1e-12
    )


@looped("seed", range(3))
def test_pa_l2obj_keeps_its_mistake_bound(seed):
    """Theorem 3.1 with a concept that stands still: m ≤ D²/((1 − α²)/R² − αD²/(2 + α))."""
    x, y, D, R = separable(seed, margin=1.0)
    alpha = 0.001
    least = (1 - alpha**2) / R**2 - alpha * D**2 / (2 + alpha)
    assert least > 0
    learner = make({"kind": "pa-l2obj", "alpha": alpha})
    state = learner.init(5)
    learner.learn(state, bare(*x), y)
    assert 0 < learner.updates(state) <= D**2 / least


def problem(seed, feasible):
    """Weights within a ball, a row and a label that they get wrong or barely right; whether the
    margin is in reach.
    """
    rng = np.random.default_rng(seed)
    beta = 10.0 ** rng.uniform(-1, 1)
    x = rng.normal(size=5)
    x *= (
        (10.0 ** rng.uniform(0.01, 1.5) if feasible else 10.0 ** rng.uniform(-1.5, 0))
        / beta
        / np.linalg.norm(x)
    )
    w = rng.normal(size=5)
    w *= beta * rng.choice([0.0, 0.3, 0.99, 1.0]) / max(np.linalg.norm(w), 1e-9)
    y = 1.0 if w @ x <= 0 else -1.0
    if rng.random() < 0.3 and abs(w @ x) < 1:
        y = -y
    return beta, w, x, y


def stepped(beta, w, x, y):
    """The weights after one step of `pa-l2` from given ones, and the state."""
    learner = make({"kind": "pa-l2", "beta": beta, "update_on": "margin"})
    state = learner.init(w.size)
    state.w.v[:] = w
    state.length[0] = w @ w
    learner.learn(state, bare(x), np.array([y]))
    assert learner.updates(state) == 1
    assert state.length[0] == pytest.approx(weights(state) @ weights(state), rel=1e-9)
    return weights(state)


@some
@given(seed=st.integers(0, 10**6))
def test_pa_l2_ends_where_a_general_solver_does(seed):
    beta, old, x, y = problem(seed, feasible=True)
    unit = 1 / np.linalg.norm(x)  # the solver works in units of the margin's distance
    solved = optimize.minimize(
        lambda w: 0.5 * np.sum((w - old / unit) ** 2),
        y * x / (x @ x) / unit,
        jac=lambda w: w - old / unit,
        constraints=[
            {
                "type": "ineq",
                "fun": lambda w: y * (w @ x) * unit - 1,
                "jac": lambda _: y * x * unit,
            },
            {"type": "ineq", "fun": lambda w: (beta / unit) ** 2 - w @ w, "jac": lambda w: -2 * w},
        ],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert np.allclose(stepped(beta, old, x, y), solved.x * unit, rtol=1e-6, atol=1e-6 * unit)


@some
@given(seed=st.integers(0, 10**6))
def test_pa_l2_meets_the_conditions_of_its_optimum(seed):
    """KKT: w·Z = w_t + τ·y·x with Z ≥ 1 and τ ≥ 0, on the margin, within the ball, on its surface
    if Z > 1.
    """
    beta, old, x, y = problem(seed, feasible=True)
    w = stepped(beta, old, x, y)
    assert y * (w @ x) == pytest.approx(1.0, rel=1e-9)
    assert np.linalg.norm(w) <= beta * (1 + 1e-9)
    # The component of both across x gives Z, the one along it τ.
    across = old - (old @ x) / (x @ x) * x
    across_now = w - (w @ x) / (x @ x) * x
    Z = (
        1.0
        if np.linalg.norm(across) < 1e-9 * beta
        else np.linalg.norm(across) / np.linalg.norm(across_now)
    )
    assert Z >= 1 - 1e-9
    assert (Z - y * (old @ x)) >= 0
    assert np.allclose(Z * across_now, across, rtol=1e-9, atol=1e-9 * beta)
    if Z > 1 + 1e-6:
        assert np.linalg.norm(w) == pytest.approx(beta, rel=1e-9)


@some
@given(seed=st.integers(0, 10**6))
def test_pa_l2_takes_the_least_loss_where_the_margin_is_out_of_reach(seed):
    beta, old, x, y = problem(seed, feasible=False)
    assert np.allclose(stepped(beta, old, x, y), beta * y * x / np.linalg.norm(x), rtol=1e-9)


def test_pa_l2_takes_the_one_point_there_is_where_the_margin_touches_the_ball():
    assert np.allclose(
        stepped(0.5, np.array([0.3, -0.4]), np.array([0.0, 2.0]), 1.0), [0.0, 0.5], rtol=1e-12
    )


@some
@given(rows=st.lists(st.tuples(FEATURES, LABEL), max_size=30), beta=PARAMETER, update_on=UPDATE_ON)
@example(
    rows=[({1: 50.0}, 1.0), ({1: 50.0}, -1.0), ({}, 1.0), ({1: 1e-40}, -1.0)],
    beta=0.03,
    update_on="margin",
)
def test_pa_l2_never_leaves_its_ball(rows, beta, update_on):
    learner = make({"kind": "pa-l2", "beta": beta, "update_on": update_on})
    state = learner.init(SMALL)
    for row, y in rows:
        learn(learner, state, row, y)
        assert learner.norm(state) <= beta * (1 + 1e-12)


def test_pa_l2_does_not_leave_its_ball_in_a_long_run():
    x, y = noisy(3, rows=20000)
    for beta in (0.5, 2.0, 10.0):
        learner = make({"kind": "pa-l2", "beta": beta, "update_on": "margin"})
        state = learner.init(6)
        learner.learn(state, bare(*x), y)
        assert learner.updates(state) > 5000
        assert learner.norm(state) <= beta * (1 + 1e-12)
        assert state.length[0] == pytest.approx(learner.norm(state) ** 2, rel=1e-10)


@looped("seed", range(3))
def test_pa_l2_keeps_its_mistake_bound(seed):
    """Theorem 3.2 with a concept that stands still: no more than (R·D)² mistakes if D < β."""
    x, y, D, R = separable(seed)
    learner = make({"kind": "pa-l2", "beta": 1.01 * D})
    state = learner.init(5)
    learner.learn(state, bare(*x), y)
    assert 0 < learner.updates(state) <= (R * D) ** 2


@looped("spec", ["pa-l2obj:alpha=0.3", "pa-l2:beta=2"])
def test_a_rotation_of_the_rows_changes_no_score(spec):
    """Lemma 3.3."""
    x, y = noisy(4, rows=200)
    rotation = np.linalg.qr(np.random.default_rng(5).normal(size=(6, 6)))[0]
    learner = make(spec)
    scores = learner.learn(learner.init(6), bare(*x), y)
    assert np.allclose(
        learner.learn(learner.init(6), bare(*(x @ rotation)), y), scores, rtol=1e-9, atol=1e-9
    )


@looped("spec", ["romma", "pa-l2obj", "pa-l2"])
def test_a_kept_norm_is_computed_afresh_after_so_many_updates(spec):
    learner = make(spec)
    states = [after(learner, 20) for _ in range(2)]
    for state, updates in zip(states, (65_534, 65_535), strict=True):
        state.length[0] *= 1.001
        state.updates[0] = updates
        row = {1: -math.copysign(9.0, weights(state)[1])}  # a mistake
        assert learn(learner, state, row, 1.0) < 0
    wrong, right = (state.length[0] / (weights(state) @ weights(state)) - 1 for state in states)
    assert abs(wrong) > 1e-6
    assert abs(right) < 1e-12


# NORMA


@some
@given(
    eta=PARAMETER,
    lam=st.sampled_from([1e-4, 0.01, 0.15]),
    rho=st.sampled_from([0.0, 1.0, 3.0]),
    heavy=st.booleans(),
)
def test_norma_is_a_sum_of_what_it_saw(eta, lam, rho, heavy):
    """w = Σ η_t·y_t·x_t·Π_{i>t}(1 − η_i·λ) over the events that missed the margin; every event
    counts in t.
    """
    x, y = noisy(6, rows=60)
    c = np.where(np.arange(60) % 3 == 0, 2.0, 1.0) if heavy else np.ones(60)
    assume(eta * lam * c[0] < 1)
    learner = make({"kind": "norma", "eta": eta, "lam": lam, "rho": rho})
    state = learner.init(6)
    scores = learner.learn(state, bare(*x)._replace(weights=c), y)
    rate = c * eta / np.sqrt(np.arange(1, 61))
    kept = np.array([np.prod(1 - rate[t + 1 :] * lam) for t in range(60)])
    wanted = (rate * y * kept * (y * scores <= rho)) @ x
    assert np.allclose(weights(state), wanted, rtol=1e-10, atol=1e-12)
    assert learner.updates(state) == 60


@looped("c", [1.0, 100.0])
def test_norma_stays_within_its_ball(c):
    """Every event takes a mean of w and y·x/λ, or of w and 0, so ‖w‖ ≤ R/λ; one too heavy for a
    mean is η·y·x alone.
    """
    x, y = noisy(7)
    learner = make({"kind": "norma", "eta": 1.0, "lam": 0.5})
    state = learner.init(6)
    R = np.sqrt(np.square(x).sum(axis=1).max())
    for row, label in zip(x, y, strict=True):
        learner.learn(state, bare(row)._replace(weights=np.array([c])), np.array([label]))
        assert learner.norm(state) <= R * max(2.0, c) * (1 + 1e-9)


def test_norma_refuses_a_rate_that_would_turn_the_weights_round():
    make("norma:eta=1,lam=0.99")
    for spec in ("norma:eta=1,lam=1", "norma:eta=100,lam=0.01", "norma:eta=1e300,lam=1e300"):
        with pytest.raises(ValueError, match=r"^norma: eta·lam is .* it must be below 1$"):
            make(spec)


def test_an_event_too_heavy_for_norma_shrinks_to_0_and_no_further():
    learner = make("norma:eta=1,lam=0.5")
    state = learner.init(SMALL)
    learn(learner, state, {1: 2.0, 2: 3.0}, 1.0)
    learn(learner, state, {1: 1.0}, -1.0, 40.0)
    assert np.allclose(weights(state), -40.0 / math.sqrt(2) * dense({1: 1.0}), rtol=1e-12)


# The dual SVM


def dual_value(x, y, a):
    return a.sum() - 0.5 * np.square((a * y) @ x).sum()


@looped("C", [0.05, 1.0])
@looped("seed", range(2))
def test_svm_dual_climbs_to_the_support_vector_machine(seed, C):
    """Every pass raises the dual; in the end its optimality conditions hold, with c·C for each
    row's C.
    """
    x, y = noisy(seed, rows=60)
    c = np.where(np.arange(60) % 4 == 0, 2.0, 1.0)
    X = bare(*x)._replace(weights=c)
    learner = make({"kind": "svm-dual", "eta": "auto", "C": C})
    state, duals = learner.init(6), np.zeros(60)
    value = 0.0
    for epoch in range(3000):
        learner.learn(state, X, y, Memory(duals, again=epoch > 0))
        assert dual_value(x, y, duals) >= value - 1e-12 * abs(value)
        value = dual_value(x, y, duals)
        assert ((duals >= 0) & (duals <= c * C)).all()
    assert np.allclose(weights(state), (duals * y) @ x, rtol=1e-9, atol=1e-9)
    margins = y * learner.scores(state, X)
    assert (margins[duals == 0] >= 1 - 1e-6).all()
    assert (margins[duals == c * C] <= 1 + 1e-6).all()
    between = (duals > 0) & (duals < c * C)
    assert between.any()
    assert np.allclose(margins[between], 1.0, atol=1e-6)
    primal = 0.5 * np.square(weights(state)).sum() + (c * C * np.maximum(0, 1 - margins)).sum()
    assert primal == pytest.approx(value, rel=1e-6)


@looped("C", [0.01, 1.0, 100.0])
@looped("J", [1.0, 3.0])
def test_svm_dual_in_one_pass_is_pa1(C, J):
    stream = seeded(12, 300)
    dual, pa1 = (
        make({"kind": "svm-dual", "eta": "auto", "C": C, "J": J}),
        make({"kind": "pa1", "C": C, "J": J}),
    )
    states = dual.init(SMALL), pa1.init(SMALL)
    y = labels(dual, stream)
    scores = [
        learner.learn(state, stream.X, y)
        for learner, state in zip((dual, pa1), states, strict=True)
    ]
    assert scores[0].tobytes() == scores[1].tobytes()
    assert states[0].w.v.tobytes() == states[1].w.v.tobytes()
    assert states[0].updates[0] == states[1].updates[0] > 0


@some
@given(
    row=FEATURES,
    y=LABEL,
    eta=PARAMETER,
    C=PARAMETER,
    c=IMPORTANCE,
    a=st.floats(0, 1),
    history=HISTORY,
)
def test_svm_dual_moves_the_dual_variable_and_the_weights_together(row, y, eta, C, c, a, history):
    learner = make({"kind": "svm-dual", "eta": eta, "C": C})
    state, duals = after(learner, history), np.array([a * c * C])
    before = weights(state)
    s = learner.learn(state, one(row, c), np.array([y]), Memory(duals))[0]
    wanted = np.clip(a * c * C + eta * (1 - y * s), 0, c * C)
    assert duals[0] == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    step = weights(state) - before
    assert np.allclose(
        step, (duals[0] - a * c * C) * y * dense(row), rtol=1e-9, atol=1e-9 * np.abs(before).max()
    )


def test_a_dual_variable_beyond_the_safe_range_is_dropped_with_its_step():
    learner = make("svm-dual:eta=auto,C=1e200")
    state, duals = learner.init(2), np.zeros(1)
    learner.learn(state, bare([1e-110, 0.0]), np.array([1.0]), Memory(duals))
    assert (learner.updates(state), learner.dropped_updates(state)) == (0, 1)
    assert not duals.any()
    assert not state.w.v.any()


def test_svm_dual_in_passes_equals_any_cut_of_them():
    x, y = noisy(8, rows=40)
    learner = make("svm-dual:eta=0.1")
    whole, pieces = learner.init(6), learner.init(6)
    duals, parts = np.zeros(40), np.zeros(40)
    X = bare(*x)
    for _ in range(5):
        learner.learn(whole, X, y, Memory(duals))
        for start, stop in ((0, 7), (7, 8), (8, 40)):
            learner.learn(pieces, X.rows(start, stop), y[start:stop], Memory(parts[start:stop]))
    assert duals.tobytes() == parts.tobytes()
    assert whole.w.v.tobytes() == pieces.w.v.tobytes()


# All of them


KINDS = [
    "romma",
    "romma:aggressive=true",
    "pa-l2obj",
    "pa-l2",
    "pa-l2:beta=0.01,update_on=margin",
    "norma",
]
DUALS = ["svm-dual", "svm-dual:eta=auto", "svm-dual:eta=auto,C=1e90"]
ODD_ROWS = st.lists(
    st.tuples(
        st.lists(
            st.sampled_from([0.0, 1.0, -1.0, 1e40, -1e40, 1e-40, -3e-40, 1e-160, 5e49, 1e-324]),
            min_size=3,
            max_size=3,
        ),
        LABEL,
    ),
    max_size=12,
)


@looped("spec", KINDS + DUALS)
@some
@given(rows=ODD_ROWS)
@example(rows=[([0.0, 0.0, 0.0], 1.0)])
@example(
    rows=[
        ([1e-160, 0.0, 0.0], 1.0),
        ([1e-40, 0.0, 0.0], 1.0),
        ([1e40, 0.0, 0.0], -1.0),
        ([1.0, 1.0, 0.0], 1.0),
    ]
)
@example(
    rows=[
        ([1e40, 1e40, 0.0], 1.0),
        ([1e-40, 0.0, 0.0], -1.0),
        ([1.0, 1.0, 1.0], -1.0),
        ([1.0, 2.0, 0.0], 1.0),
    ]
)
def test_rows_of_any_size_leave_the_state_finite_and_true(spec, rows):
    """Without a bias, so that norms may be as small as they like."""
    learner = make(spec)
    state, updates, longest = learner.init(3), 0, 0.0
    for row, y in rows:
        before = weights(state)
        s = learner.learn(state, bare(row), np.array([y]))[0]
        assert np.isfinite(s)
        w = weights(state)
        assert np.isfinite(w).all()
        assert np.abs(w).max() <= 1e100 * (1 + 1e-12)
        if learner.updates(state) == updates:
            assert np.array_equal(w, before)
        updates = learner.updates(state)
        if "length" in state._fields:
            assert state.length[0] <= 1e100
            longest = max(longest, w @ w)  # what is left of weights that were long is rounding
            assert state.length[0] == pytest.approx(w @ w, rel=1e-3, abs=1e-12 * longest)
        if not np.any(row) and spec != "norma":
            assert np.array_equal(w, before)


@looped("spec", KINDS + DUALS)
@looped("y", [-1.0, 1.0])
def test_a_single_class_is_learned_for_good(spec, y):
    x, _ = noisy(9, rows=500)
    learner = make(spec)
    state = learner.init(6)
    scores = learner.learn(state, bare(*x), np.full(500, y))
    assert np.isfinite(scores).all()
    # A ball too small for the margin remembers the last row alone.
    if spec != "pa-l2:beta=0.01,update_on=margin":
        assert (predict_labels(scores[-100:]) == y).mean() > 0.95
