"""A snapshot comes back from its bytes bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.checkpoint.lineage import Frozen, Lineage, Lost, Rolled, Run
from service.checkpoint.snapshot import DTYPES, Snapshot, UnwritableSnapshotError, decode, encode
from service.sources.base import Bookmark
from tests.examples import examples
from tests.service.checkpoint.small_snapshot import check_same, delta, in_bytes, small

some = examples(80)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(sorted(DTYPES))))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    size = int(np.prod(shape)) * dtype.itemsize
    # Drawn from bytes, so that every value occurs, with NaNs of every kind.
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)


TEXTS = st.dictionaries(st.text(), st.text(), max_size=3)
COUNT = st.integers(0, 2**60).map(lambda count: np.array([count]))
TIMES = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.integers(0, 2**60)
ENTRIES = (
    st.builds(Run, st.text(), st.text(), st.text(), NUMBERS)
    | st.builds(Lost, st.text(), st.text(), st.text(), NUMBERS, st.text())
    | st.builds(Frozen, NUMBERS, TIMES, TIMES)
    | st.builds(Rolled, NUMBERS, NUMBERS, TIMES)
)
SNAPSHOTS = st.builds(
    Snapshot,
    model=st.dictionaries(st.text(), JSON, max_size=3),
    classes=st.lists(st.text(), max_size=4),
    bookmark=st.builds(Bookmark, TEXTS, TEXTS),
    lineage=st.builds(
        Lineage,
        st.sampled_from(["", "0f" * 32]),
        st.integers(0, 2**32 - 1),
        st.lists(ENTRIES, max_size=4).map(tuple),
    ),
    rejects=st.dictionaries(st.text(), NUMBERS, max_size=3),
    state_digest=st.none() | st.text(),
    arrays=st.builds(
        lambda arrays, counts: (
            arrays | {"progress/events": max(counts), "progress/errors": min(counts)}
        ),
        st.dictionaries(st.text(), arrays(), max_size=4),
        st.tuples(COUNT, COUNT),
    ),
    sliced=st.just(()),
)


@some
@given(SNAPSHOTS)
def test_a_decoded_snapshot_equals_the_encoded_one(snapshot):
    check_same(decode(in_bytes(snapshot)), snapshot)


@some
@given(SNAPSHOTS)
def test_equal_snapshots_have_equal_bytes(snapshot):
    positions, marks = snapshot.bookmark
    again = snapshot._replace(bookmark=Bookmark(dict(reversed(positions.items())), marks))
    assert in_bytes(again) == in_bytes(snapshot) == in_bytes(decode(in_bytes(snapshot)))


def test_the_memory_order_of_arrays_does_not_matter():
    square = np.arange(6.0).reshape(2, 3)
    columns = small({"a": np.asfortranarray(square)})
    assert in_bytes(columns) == in_bytes(small({"a": square}))
    assert np.array_equal(decode(in_bytes(columns)).arrays["a"], square)
    assert in_bytes(small({"a": square[:, ::2]})) == in_bytes(small({"a": square[:, ::2].copy()}))


def test_events_and_errors_come_from_the_progress():
    assert (small().events, small().errors) == (3, 1)


def test_the_arrays_are_not_copied():
    array = np.arange(1000.0)
    encoded = encode(small({"a": array}))
    assert np.shares_memory(np.frombuffer(encoded.buffers[-2], np.uint8), array)


def test_a_snapshot_that_could_not_be_read_is_not_written():
    with pytest.raises(UnwritableSnapshotError, match="could not be read again"):
        encode(small()._replace(bookmark=Bookmark({"0": "9" * 1001}, {})))


def test_the_digest_covers_only_the_state():
    state = {"w": np.array([1.5]), "base/v": np.array([2])}
    arrays = {f"state/{name}": array for name, array in state.items()}
    bare = small(arrays)._replace(state_digest=None)
    digest = bare.with_digest().state_digest
    assert digest is not None
    assert bare._replace(classes=[], rejects={}).with_digest().state_digest == digest
    assert small(arrays).with_digest().state_digest == "d" * 8, "an existing digest must be kept"
    assert delta().with_digest().state_digest is None
