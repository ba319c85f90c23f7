"""The support set against a list of rows: adding, dropping, and arrays that are no valid set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import NO_TREE, Batch
from learners.kernel.explain import stored_row
from learners.kernel.support import add, drop, fresh_support, has_room, is_valid_support
from learners.kernel.tree_parser import flatten_tree
from learners.registry import LEARNERS, make
from learners.state import flatten, restore, state_digest
from tests.examples import examples
from tests.learners.stored_sets import score_with
from tests.learners.streams import bracketed
from tests.looped import looped

DIM, ROWS, ENTRIES, NODES = 9, 5, 12, 40


def row(seed):
    """Return a row of up to four entries, with or without the bias and a tree."""
    rng = np.random.default_rng(seed)
    slots = sorted(rng.choice(np.arange(1, DIM), rng.integers(0, 5), replace=False).tolist())
    bias = [0] if rng.random() < 0.5 else []
    tree = flatten_tree(bracketed(rng, 2), 100) if rng.random() < 0.8 else NO_TREE
    return Batch.from_rows(
        [(bias + slots, [1.0] * len(bias) + rng.normal(size=len(slots)).tolist())], trees=tree
    )


def same(support, rows):
    """Whether a set holds these rows, apart from the bias."""
    bare = [(part.indices[part.indices > 0], part.values[part.indices > 0]) for part in rows]
    wanted = [
        Batch.from_rows([row], trees=part.trees) for row, part in zip(bare, rows, strict=True)
    ]
    pairs = [(flatten(stored_row(support, i)), flatten(one)) for i, one in enumerate(wanted)]
    return all(
        np.array_equal(array, one[path]) for kept, one in pairs for path, array in kept.items()
    )


def add_row(support, X, a):
    square = float(sum(value * value for value in X.values[X.indices > 0]))
    add(support, X, 0, a, square, 0.5)


STEPS = st.lists(st.one_of(st.integers(0, 200), st.integers(-ROWS, -1)), max_size=30)
"""Seeds of rows to add; −k drops the row k from the end."""


@examples(100)
@given(steps=STEPS)
def test_rows_stay_in_order_and_free_room_stays_0(steps):
    support, kept = fresh_support(DIM, ROWS, ENTRIES, NODES), []
    for step in steps:
        X = row(abs(step))
        if step < 0:
            if len(kept) >= -step:
                drop(support, len(kept) + step)
                del kept[step]
        elif has_room(support, X, 0):
            add_row(support, X, float(len(kept) + 1))
            kept.append(X)
        else:
            entries = sum((part.indices > 0).sum() for part in [*kept, X])
            nodes = sum(part.trees.productions.size for part in [*kept, X])
            assert len(kept) == ROWS or entries > ENTRIES or nodes > NODES
        assert is_valid_support(support)
        assert same(support, kept)
        assert support.size[0] == len(kept)
    whole = {path: array.copy() for path, array in flatten(support).items()}
    back = restore(fresh_support(DIM, ROWS, ENTRIES, NODES), whole)
    assert [array.tobytes() for array in back[:-1]] == [array.tobytes() for array in support[:-1]]
    assert [array.tobytes() for array in back.trees] == [array.tobytes() for array in support.trees]


def make_set():
    support = fresh_support(DIM, ROWS, ENTRIES, NODES)
    for seed in (5, 6, 7):
        add_row(support, row(seed), 1.0)
    return support


MESS = st.tuples(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.sampled_from([-(2**62), -1, 0, 1, 3, 7, 2**62, np.nan]),
)
CHANGED = [path for path, array in flatten(make_set()).items() if array.size and path != "dim"]


@examples(300)
@given(mess=st.lists(MESS, min_size=1, max_size=3))
def test_a_set_that_counts_as_valid_is_safe_for_kernels(mess):
    """Whatever numbers are written into it, a kernel without bounds checks stays inside."""
    support = make_set()
    for which, place, value in mess:
        path = CHANGED[which % len(CHANGED)]
        array = getattr(
            support.trees if path.startswith("trees/") else support, path.removeprefix("trees/")
        )
        if np.isfinite(value) or array.dtype == np.float64:
            array[place % array.size] = value
    if is_valid_support(support):
        K = make("k-perceptron:kernel=tree+rbf,gamma=1,width=4").function()
        assert np.isfinite(score_with(support, K, row(3))).all()
        while support.size[0]:
            drop(support, 0)
        assert same(support, [])


@looped(
    ("name", "place", "value"),
    [
        ("size", 0, -1),
        ("size", 0, ROWS + 1),
        ("size", 0, ROWS),
        ("dim", 0, 0),
        ("dim", 0, 3),
        ("ends", 1, ENTRIES + 1),
        ("ends", 3, ENTRIES + 1),
        ("ends", 3, -(2**62)),
        ("slots", 0, DIM),
        ("slots", 0, 0),
        ("slots", 1, 1),
        ("values", 0, np.nan),
        ("values", 0, 100.0),
        ("a", 0, np.nan),
        ("a", 1, -np.inf),
        ("squares", 0, np.nan),
        ("squares", 1, 1e6),
        ("tree_squares", 0, np.inf),
        ("tree_squares", 0, -1.0),
        ("trees/productions", 1, 2**62),
        ("trees/order", 0, 1),
        ("trees/ends", 3, NODES + 1),
        ("trees/order", 0, NODES),
        ("trees/order", 0, -1),
        ("trees/child_ends", 1, -3),
        ("trees/children", 0, NODES),
        ("trees/children", 0, -1),
    ],
)
def test_a_set_that_a_kernel_could_not_survive_is_invalid(name, place, value):
    support = make_set()
    assert is_valid_support(support)
    part = support.trees if name.startswith("trees/") else support
    getattr(part, name.removeprefix("trees/"))[place] = value
    assert not is_valid_support(support)


STORING = [kind for kind in LEARNERS if make(kind).capabilities.stores_rows]


@looped("kind", STORING)
def test_a_checkpoint_holds_only_the_stored_rows(kind):
    learner = make(f"{kind}:gamma=1,width=64")
    state = learner.init(DIM)
    assert sum(array.nbytes for array in flatten(state).values()) < 300
    learner.learn(state, row(5), np.array([1.0]))
    assert state.support.size[0] == 1
    assert sum(array.nbytes for array in flatten(state).values()) < 500


def test_arrays_beyond_the_room_are_refused():
    support = make_set()
    small = fresh_support(DIM, 2, ENTRIES, NODES)
    with pytest.raises(
        ValueError, match=r"a is float64\(3,\), this learner has float64\(2,\) at most"
    ):
        restore(small, flatten(support))


def test_unseen_classes_take_no_room_in_a_checkpoint():
    learner = make(
        {"kind": "one_vs_rest", "max_classes": 64, "base": "k-perceptron:gamma=1,width=64"}
    )
    state = learner.init(DIM)
    X = Batch.from_rows([([1, 2, 3], [1.0, 2.0, 3.0])] * 40)
    learner.learn(state, X, np.arange(40.0) % 3)
    arrays = flatten(state)
    assert arrays["classes/support/slots"].shape[0] == 3
    assert sum(array.nbytes for array in arrays.values()) < 40_000
    back = restore(learner.init(DIM), arrays)
    assert back.classes.support.slots.shape == state.classes.support.slots.shape
    assert np.array_equal(learner.scores(back, X), learner.scores(state, X))
    for more in (state, back):
        learner.learn(more, X, np.arange(40.0) % 5)
    assert state_digest(back) == state_digest(state)
