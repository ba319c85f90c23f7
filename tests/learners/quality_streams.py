"""Streams of labels, guesses and probabilities, and the parts that count their quality."""

import numpy as np
from hypothesis import strategies as st

from learners.evaluation.history import fresh_history
from learners.evaluation.progress import fresh_progress
from learners.evaluation.quality import assess, fresh_quality

CLASSES = [0, 2, 5]
"""Number of classes; 0 means binary, and 2 is the smallest maximum of a multiclass model."""


def stream(seed, events, classes, *, calm=False):
    """Return labels, guesses and probabilities. Some labels and guesses are of no class, and some
    events have no probability; in a calm stream labels come in runs and most guesses are right.
    """
    rng = np.random.default_rng(seed)
    y = (
        rng.choice([-1, 1], events, p=[0.7, 0.3])
        if classes == 0
        else rng.integers(-1, classes, events)
    )
    if calm:
        y = np.repeat(y, 400)[:events]
    guess = np.where(rng.random(events) < (0.95 if calm else 0.6), y, rng.permutation(y))
    p = np.where(rng.random(events) < 0.1, np.nan, rng.random(events) * 1.2 - 0.1)
    return y.astype(np.float64), guess.astype(np.int64), p


LONG = {classes: stream(classes, 5000, classes) for classes in CLASSES}


@st.composite
def streams(draw):
    classes = draw(st.sampled_from(CLASSES))
    return classes, stream(
        draw(st.integers(0, 10**6)), draw(st.integers(0, 300)), classes, calm=draw(st.booleans())
    )


def fresh(classes):
    return fresh_progress(), fresh_quality(classes), fresh_history()


def assess_stream(classes, rows, cuts=()):
    """Assess rows in pieces; return the outcomes and the three parts."""
    parts, ends = fresh(classes), [*sorted(cuts), len(rows[0])]
    wrong = [
        assess(*parts, *(array[first:last] for array in rows))
        for first, last in zip([0, *ends], ends, strict=False)
    ]
    return np.concatenate(wrong), parts
