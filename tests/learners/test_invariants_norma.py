"""NORMA is the weighted sum of the events it learned, and stays within its ball."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from learners.registry import make
from tests.examples import examples
from tests.learners.gaussian_rows import bare, noisy
from tests.learners.single_events import PARAMETER, dense, learn, weights
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {"norma": "test_norma_is_the_weighted_sum_of_its_events"}

some = examples(60)


@some
@given(
    eta=PARAMETER,
    lam=st.sampled_from([1e-4, 0.01, 0.15]),
    rho=st.sampled_from([0.0, 1.0, 3.0]),
    heavy=st.booleans(),
)
def test_norma_is_the_weighted_sum_of_its_events(eta, lam, rho, heavy):
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
    # Products and sums of up to 60 factors, in another order.
    assert np.allclose(weights(state), wanted, rtol=1e-10, atol=1e-12)
    assert learner.updates(state) == 60


@looped("c", [1.0, 100.0])
def test_norma_stays_within_its_ball(c):
    """Every event takes a mean of w and y·x/λ, or of w and 0, so ‖w‖ ≤ R/λ; an event too heavy for
    a mean gives η·y·x alone.
    """
    x, y = noisy(7)
    learner = make({"kind": "norma", "eta": 1.0, "lam": 0.5})
    state = learner.init(6)
    R = np.sqrt(np.square(x).sum(axis=1).max())
    for row, label in zip(x, y, strict=True):
        learner.learn(state, bare(row)._replace(weights=np.array([c])), np.array([label]))
        assert learner.norm(state) <= R * max(2.0, c) * (1 + 1e-9)


def test_norma_refuses_a_rate_that_would_reverse_the_weights():
    make("norma:eta=1,lam=0.99")
    for spec in ("norma:eta=1,lam=1", "norma:eta=100,lam=0.01", "norma:eta=1e300,lam=1e300"):
        with pytest.raises(ValueError, match=r"^norma: eta·lam is .* it must be below 1$"):
            make(spec)


def test_a_heavy_event_shrinks_the_weights_of_norma_to_0_at_most():
    learner = make("norma:eta=1,lam=0.5")
    state = learner.init(SMALL)
    learn(learner, state, {1: 2.0, 2: 3.0}, 1.0)
    learn(learner, state, {1: 1.0}, -1.0, 40.0)
    assert np.allclose(weights(state), -40.0 / math.sqrt(2) * dense({1: 1.0}), rtol=1e-12)
