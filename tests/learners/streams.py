"""Streams of events: seeded ones with structure, and hypothesis strategies with hostile values.

Every row has the bias, 1 in slot 0, as the decoder makes it. Classes are 0 … 4; binary learners get
their parity.
"""

import functools
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import NO_TREE, Batch, Trees
from learners.kernel.tree_parser import flatten_tree
from tests.examples import examples

CLASSES = 5
"""Labels in every stream, and room in every one_vs_rest."""

SMALL, SPARSE = 8, 300
"""Dimensions: SMALL for all features in most rows, SPARSE for few features of many."""


class Stream(NamedTuple):
    X: Batch
    classes: np.ndarray
    dim: int


class Drawn(NamedTuple):
    stream: Stream
    cuts: list[int]
    place: int


MAX_ROWS = 12
"""Rows of a stream that hypothesis draws for the laws."""

ODD_VALUES = [0.0, -0.0, 1.0, 0.1, 5e-324, -1e-310, 1e-162, 1e50, -1e50, 9.9e49, 3e49, 1e-50]
REFUSED_VALUES = [1e60, -1e300, 1.1e50]
WEIGHTS = [1.0, 1.0, 1.0, 0.0, 0.5, 3.7]
ODD_WEIGHTS = [1e50, 1e-50, 1e20]
REFUSED_WEIGHTS = [1e51, 1e-51, 5e-324, 1e308]


def seeded(seed, rows, dim=SMALL, *, hostile=False):
    """Return rows that can be learned to a degree, of columns with different units; class k appears
    after k ninths.
    """
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(CLASSES, dim))
    units = 10.0 ** rng.uniform(-1, 1, dim)
    shift = rng.normal(size=dim)
    made, classes, weights = [], [], []
    for t in range(rows):
        slots = np.flatnonzero(rng.random(dim - 1) < (0.8 if dim <= SMALL else 6 / dim)) + 1
        x = rng.normal(size=slots.size) + shift[slots]
        known = 1 + min(CLASSES - 1, 9 * t // rows)
        classes.append(int(np.argmax(directions[:known, slots] @ x + rng.normal(size=known))))
        x = np.where(rng.random(slots.size) < 0.1, 0.0, x * units[slots])
        weight = rng.choice(WEIGHTS)
        if rng.random() < 0.03:
            slots, x = slots[:0], x[:0]
        if hostile and rng.random() < 0.3:
            x, weight = spoil(rng, x, weight)
        made.append(([0, *slots], [1.0, *x]))
        weights.append(weight)
    return Stream(Batch.from_rows(made, weights).validate(dim), np.array(classes), dim)


def spoil(rng, x, weight):
    """Damage a row in one of five ways."""
    way = rng.integers(5)
    if way == 0:
        return np.where(rng.random(x.size) < 0.5, rng.choice(ODD_VALUES, x.size), x), weight
    if way == 1:
        return np.where(rng.random(x.size) < 0.3, rng.choice(REFUSED_VALUES, x.size), x), weight
    if way == 2:
        return np.full(x.size, rng.choice(ODD_VALUES)), weight
    if way == 3:
        return x, rng.choice(ODD_WEIGHTS)
    return x, rng.choice(REFUSED_WEIGHTS)


VALUES = st.one_of(
    st.floats(-10, 10), st.sampled_from(ODD_VALUES), st.sampled_from(ODD_VALUES + REFUSED_VALUES)
)
IMPORTANCES = st.one_of(
    st.sampled_from(WEIGHTS), st.sampled_from(WEIGHTS + ODD_WEIGHTS + REFUSED_WEIGHTS)
)


@st.composite
def streams(draw, max_rows=8):
    """Short streams of any rows that `Batch.validate` accepts, in one of the two dimensions."""
    dim = draw(st.sampled_from([SMALL, SPARSE]))
    features = st.dictionaries(st.integers(1, dim - 1), VALUES, max_size=5)
    events = draw(
        st.lists(
            st.tuples(features, IMPORTANCES, st.integers(0, CLASSES - 1)),
            min_size=1,
            max_size=max_rows,
        )
    )
    rows = [
        ([0, *sorted(row)], [1.0, *(row[slot] for slot in sorted(row))]) for row, _, _ in events
    ]
    X = Batch.from_rows(rows, [weight for _, weight, _ in events]).validate(dim)
    return Stream(X, np.array([label for _, _, label in events]), dim)


@functools.cache
def drawn():
    """Return streams with places to cut and to halt them, the same in every run: drawing a stream
    costs more than learning it.
    """
    found = []
    places = st.integers(0, MAX_ROWS)

    @examples(500)
    @given(streams(MAX_ROWS), st.lists(places, max_size=4), places)
    def draw(stream, cuts, place):
        found.append(
            Drawn(stream, [min(cut, stream.X.size) for cut in cuts], min(place, stream.X.size))
        )

    draw()
    return found


WORDS = ["a", "b", "c"]


def bracketed(rng, depth):
    """Return a random tree with few labels, so that two trees have much in common."""
    label = "ABCD"[rng.integers(4)]
    if depth == 0 or rng.random() < 0.3:
        return f"({label} {' '.join(rng.choice(WORDS, rng.integers(1, 3)))})"
    return f"({label} {' '.join(bracketed(rng, depth - 1) for _ in range(rng.integers(1, 4)))})"


def texts(rows):
    """Return trees for nine rows of ten, always the same ones for the same number of rows."""
    rng = np.random.default_rng(rows)
    return [bracketed(rng, 3) if rng.random() < 0.9 else None for _ in range(rows)]


@functools.cache
def trees(rows):
    return Trees.concatenate(
        [NO_TREE if text is None else flatten_tree(text, 1000) for text in texts(rows)]
    )


def with_trees(stream):
    return stream._replace(X=stream.X._replace(trees=trees(stream.X.size)).validate(stream.dim))


def suited(learner, stream):
    """Return the stream with trees if the learner takes them; for a learner that refuses negative
    values, four rows of five are made positive.
    """
    if learner.capabilities.takes_trees:
        return with_trees(stream)
    if learner.capabilities.takes_negative:
        return stream
    made = np.repeat(np.arange(stream.X.size) % 5 > 0, np.diff(stream.X.indptr))
    values = np.where(made, np.abs(stream.X.values), stream.X.values)
    return stream._replace(X=stream.X._replace(values=values))


def labels(learner, stream):
    """Return class indices for a learner of several classes, else −1/+1."""
    empty = stream.X.rows(0, 0)
    if learner.scores(learner.init(stream.dim), empty).ndim == 2:
        return stream.classes.astype(np.float64)
    return np.where(stream.classes % 2 == 0, 1.0, -1.0)
