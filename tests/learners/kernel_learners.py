"""Kernel learners of any kind that have learned some events, and the rows they store."""

import numpy as np
from hypothesis import strategies as st

from learners.registry import make
from tests.examples import examples
from tests.learners.specs import leaf
from tests.learners.stored_sets import score_with, stored_rows
from tests.learners.streams import SMALL, labels, seeded, suited

UNBOUNDED = ["k-perceptron", "k-averaged", "k-voted", "k-pa", "k-pa1", "k-pa2"]
BUDGETED = ["stoptron", "rbp"]
KINDS = [*UNBOUNDED, *BUDGETED]

few = examples(8)
"""Fewer examples, for tests that try each of eight kinds or compute a Gram matrix per example."""

KERNEL = st.sampled_from(
    [
        {"kernel": "linear"},
        {"kernel": "polynomial", "d": 2},
        {"kernel": "rbf", "gamma": 0.3},
        {"kernel": "tree+rbf", "normalise": "none"},
    ]
)
SEED = st.integers(0, 1000)


def make_kernel_learner(kind, kernel, **parameters):
    return make({"gamma": 0.1, "width": SMALL, **leaf(kind), **kernel, **parameters})


def stream_of(learner, seed, rows=60):
    stream = suited(learner, seeded(seed, rows))
    return stream, labels(learner, stream)


def after(learner, seed, rows=20):
    """Return a state after some events."""
    stream, y = stream_of(learner, seed, rows)
    state = learner.init(SMALL)
    learner.learn(state, stream.X, y)
    return state


def stored(state):
    return int(state.support.size[0])


def gram(learner, state):
    """Return K of all stored rows with each other: the scores of a set whose only
    coefficient is 1.
    """
    rows, n = stored_rows(state.support), stored(state)
    G = np.zeros((n, n))
    for i in range(n):
        alone = state.support._replace(a=np.eye(1, state.support.a.size, i)[0])
        G[i] = score_with(alone, learner.function(), rows)
    return G
