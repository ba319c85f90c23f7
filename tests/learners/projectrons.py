"""Projectrons of any form that have learned some events, and the similarities of the rows they
store.
"""

import numpy as np
from hypothesis import strategies as st

from learners.batch import Batch
from learners.kernel.similarity import similarities
from learners.registry import make
from tests.examples import examples
from tests.learners.stored_sets import room_for, stored_rows
from tests.learners.streams import SMALL

few = examples(12)
"""Fewer examples, for tests that try each of seven forms or compute many Gram matrices."""

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
    """Return a batch of one row, with all slots written."""
    return Batch.from_rows([(range(len(x)), x)])


def history(seed, rows, *, near=True):
    """Return rows in two columns or in all; three of ten are near an earlier one, from identical to
    nearly independent.
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


def learn_history(model, seed, rows=40, *, near=True):
    X, y = history(seed, rows, near=near)
    state = model.init(SMALL)
    for x, label in zip(X, y, strict=True):
        model.learn(state, one(x), np.array([label]))
    return state


def compare_to_stored(model, state, X):
    """Return K(x_i, x) of the stored rows, one column per row of a batch."""
    work, n = room_for(state.support), int(state.support.size[0])
    columns = []
    for t in range(X.size):
        similarities(state.support, model.function(), X, t, work)
        columns.append(work.k[:n].copy())
    return np.array(columns).reshape(X.size, n).T


def gram(model, state):
    K = compare_to_stored(model, state, stored_rows(state.support))
    return (K + K.T) / 2


def coefficients(state):
    return state.support.a[: state.support.size[0]].copy()


def factor(inverse, n):
    W = np.zeros((n, n))
    W[np.tril_indices(n)] = inverse.factor[: n * (n + 1) // 2]
    return W


def dense(rows):
    x = np.zeros((rows.size, SMALL))
    for t in range(rows.size):
        x[t, rows.indices[rows.indptr[t] : rows.indptr[t + 1]]] = rows.values[
            rows.indptr[t] : rows.indptr[t + 1]
        ]
    return x
