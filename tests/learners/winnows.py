"""A multiplicative learner that has learned some events of a suitable stream."""

from hypothesis import strategies as st

from tests.learners.streams import SMALL, labels, seeded, suited

HISTORY = st.integers(0, 40)


def after(learner, events):
    """Return a state after some events."""
    stream = suited(learner, seeded(7, 40))
    state = learner.init(SMALL)
    learner.learn(state, stream.X.rows(0, events), labels(learner, stream)[:events])
    return state
