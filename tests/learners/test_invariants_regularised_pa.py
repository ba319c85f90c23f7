"""The L2-regularised passive-aggressive learners end where their objectives are least, and keep
their bounds.
"""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import optimize

from learners.registry import make
from tests.examples import examples
from tests.learners.gaussian_rows import bare, noisy, separable
from tests.learners.single_events import (
    FEATURES,
    HISTORY,
    LABEL,
    PARAMETER,
    after,
    dense,
    learn,
    weights,
)
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {
    "pa-l2obj": "test_pa_l2obj_minimises_its_objective",
    "pa-l2": "test_pa_l2_ends_where_a_general_solver_does",
}
"""Kind -> its first test."""

some = examples(60)

UPDATE_ON = st.sampled_from(["margin", "mistake"])


def step(learner, state, row, y):
    """Learn one event; return the weights before and after, the row and its score. The example is
    dropped if nothing moved.
    """
    before, updates = weights(state), learner.updates(state)
    s = learn(learner, state, row, y)
    # Exactly: the rule compares the score that it returns.
    expected = y * s <= 0 if learner.update_on == "mistake" else y * s < 1
    assert learner.updates(state) - updates == expected
    if not expected:
        assert weights(state).tobytes() == before.tobytes()
    assume(expected)
    return before, weights(state), dense(row), s


@some
@given(row=FEATURES, y=LABEL, alpha=PARAMETER, update_on=UPDATE_ON, history=HISTORY)
def test_pa_l2obj_minimises_its_objective(row, y, alpha, update_on, history):
    """KKT of ½‖w − w_t‖² + α/2·‖w‖², y·w·x ≥ 1: w − w_t + α·w = τ·y·x with τ ≥ 0, on the margin."""
    learner = make({"kind": "pa-l2obj", "alpha": alpha, "update_on": update_on})
    before, w, x, s = step(learner, after(learner, history), row, y)
    # A sum of eight terms, each rounded by 2⁻⁵³ of its size.
    size = (np.abs(before) + np.abs(w)) @ np.abs(x)
    assert abs(y * (w @ x) - 1.0) <= 1e-14 * size
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
    """Return weights within a ball, and a row and a label that they get wrong or barely right;
    `feasible` says whether the margin is in reach.
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


def step_from(beta, w, x, y):
    """Return the weights after one step of `pa-l2` from given weights."""
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
    # The solver stops where its objective, which is flat there, does not change by 1e-15.
    assert np.allclose(step_from(beta, old, x, y), solved.x * unit, rtol=1e-6, atol=1e-6 * unit)


@some
@given(seed=st.integers(0, 10**6))
def test_pa_l2_meets_the_conditions_of_its_optimum(seed):
    """KKT: w·Z = w_t + τ·y·x with Z ≥ 1 and τ ≥ 0, on the margin, within the ball, on its surface
    if Z > 1.
    """
    beta, old, x, y = problem(seed, feasible=True)
    w = step_from(beta, old, x, y)
    assert y * (w @ x) == pytest.approx(1.0, rel=1e-9)
    assert np.linalg.norm(w) <= beta * (1 + 1e-9)
    # The component of both across x gives Z, the one along x gives τ. A component near 0 is only
    # rounding.
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
def test_pa_l2_minimises_the_loss_where_the_margin_is_out_of_reach(seed):
    beta, old, x, y = problem(seed, feasible=False)
    assert np.allclose(step_from(beta, old, x, y), beta * y * x / np.linalg.norm(x), rtol=1e-9)


def test_pa_l2_takes_the_point_where_the_margin_touches_the_ball():
    assert np.allclose(
        step_from(0.5, np.array([0.3, -0.4]), np.array([0.0, 2.0]), 1.0), [0.0, 0.5], rtol=1e-12
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
        # Not exact: the factor that brings the weights to the surface is rounded, and so is the
        # norm.
        assert learner.norm(state) <= beta * (1 + 1e-12)


def test_pa_l2_never_leaves_its_ball_in_a_long_run():
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
