"""Single events: a row given as slot to value, a learner that learns it, and what properties draw
of both.
"""

import numpy as np
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from tests.learners.streams import SMALL, labels, seeded

FEATURES = st.dictionaries(st.integers(1, SMALL - 1), st.floats(-50, 50), max_size=6)
LABEL = st.sampled_from([-1.0, 1.0])
IMPORTANCE = st.sampled_from([1.0, 0.25, 4.0])
PARAMETER = st.sampled_from([0.03, 0.5, 1.0, 5.0])
HISTORY = st.integers(0, 20)


def learn(learner, state, row, y, c=1.0):
    """Learn one event and return its score."""
    return learner.learn(state, one(row, c), np.array([y]))[0]


def one(row, c=1.0, *, bias=True):
    """Return a batch of one row, given as slot to value."""
    row = {BIAS: 1.0, **row} if bias else row
    return Batch.from_rows([(sorted(row), [row[slot] for slot in sorted(row)])], [c])


def dense(row):
    x = np.zeros(SMALL)
    x[[BIAS, *row]] = [1.0, *row.values()]
    return x


def after(learner, events):
    """Return a state after some events."""
    stream = seeded(7, 20)
    state = learner.init(SMALL)
    learner.learn(state, stream.X.rows(0, events), labels(learner, stream)[:events])
    return state


def weights(state):
    return state.w.scale[0] * state.w.v
