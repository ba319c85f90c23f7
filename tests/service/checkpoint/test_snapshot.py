"""The snapshot format: what is written comes back bit for bit, and nothing else is taken for a
snapshot.
"""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.registry import make
from learners.state import state_digest
from service.checkpoint import snapshot as module
from service.checkpoint.lineage import Frozen, Lineage, Lost, Rolled, Run
from service.checkpoint.snapshot import (
    DTYPES,
    MAGIC,
    Snapshot,
    SnapshotError,
    UnwritableSnapshotError,
    decode,
    encode,
    merge,
)
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder
from service.model.model import Model
from service.sources.base import BEGINNING, Bookmark
from tests.looped import looped

some = settings(max_examples=80, derandomize=True, deadline=None)

GOLDEN = Path(__file__).parents[1] / "golden"
OLDER = GOLDEN / "snapshot-1.bin"
WHOLE = GOLDEN / "snapshot-2.bin"
DELTA = GOLDEN / "delta-2.bin"
STATE_AT_GOLDEN = "b0396bd5f3cd0ccf7997c6348ada6ec5f4aca708f3f24f47880ef11daffefecc"
STATE_AFTER_GOLDEN = "6cae335bc1efa481f58f8ec4f1efcba1ce7aebbfcc76ada742e612c8fa15c1ed"

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
    # From bytes, so that there are NaNs of every kind and no value is left out.
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


def in_bytes(snapshot: Snapshot) -> bytes:
    encoded = encode(snapshot)
    data = b"".join(encoded.buffers)
    assert len(data) == encoded.size
    assert data[-32:].hex() == encoded.sha256 == hashlib.sha256(data[:-32]).hexdigest()
    return data


def bits(snapshot: Snapshot) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {
        name: (array.dtype.str, array.shape, array.tobytes())
        for name, array in snapshot.arrays.items()
    }


def check_same(one: Snapshot, other: Snapshot) -> None:
    assert one._replace(arrays={}) == other._replace(arrays={})
    assert bits(one) == bits(other)
    assert list(one.arrays) == list(other.arrays)


@some
@given(SNAPSHOTS)
def test_round_trip(snapshot):
    check_same(decode(in_bytes(snapshot)), snapshot)


@some
@given(SNAPSHOTS)
def test_the_same_snapshot_is_the_same_bytes(snapshot):
    positions, marks = snapshot.bookmark
    again = snapshot._replace(bookmark=Bookmark(dict(reversed(positions.items())), marks))
    assert in_bytes(again) == in_bytes(snapshot) == in_bytes(decode(in_bytes(snapshot)))


def small(arrays=None) -> Snapshot:
    counts = {"progress/events": np.array([3]), "progress/errors": np.array([1])}
    arrays = {"w": np.array([1.5, -2.0])} if arrays is None else arrays
    return Snapshot(
        {"learner": {"kind": "pa1"}},
        ["a"],
        BEGINNING,
        Lineage(),
        {"type": 1},
        "d" * 8,
        counts | arrays,
    )


def test_the_order_of_memory_does_not_matter():
    square = np.arange(6.0).reshape(2, 3)
    columns = small({"a": np.asfortranarray(square)})
    assert in_bytes(columns) == in_bytes(small({"a": square}))
    assert np.array_equal(decode(in_bytes(columns)).arrays["a"], square)
    assert in_bytes(small({"a": square[:, ::2]})) == in_bytes(small({"a": square[:, ::2].copy()}))


def test_events_and_errors_are_the_progress():
    assert (small().events, small().errors) == (3, 1)


def test_the_arrays_are_not_copied():
    array = np.arange(1000.0)
    encoded = encode(small({"a": array}))
    assert np.shares_memory(np.frombuffer(encoded.buffers[-2], np.uint8), array)


def sealed(body: bytes) -> bytes:
    """With a checksum that fits: damage that only the later checks can see."""
    return body + hashlib.sha256(body).digest()


def with_header(change, arrays=b"") -> bytes:
    """A snapshot whose header has been changed and sealed again; `arrays` come after the two
    counts.
    """
    whole = in_bytes(small({}))
    (length,) = struct.unpack("<Q", whole[8:16])
    header = json.loads(whole[16 : 16 + length])
    change(header)
    head = json.dumps(header).encode()
    return sealed(MAGIC + struct.pack("<Q", len(head)) + head + whole[16 + length : -32] + arrays)


def with_array(dtype, shape, arrays=b"", name="w") -> bytes:
    return with_header(lambda header: header["arrays"].append([name, dtype, shape]), arrays)


def test_the_changes_below_change_nothing_else():
    assert decode(with_array("<f8", [1], bytes(8))).arrays["w"] == [0.0]


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_changed_byte_is_noticed(flip):
    whole = in_bytes(small())
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= flip
        with pytest.raises(SnapshotError):
            decode(bytes(damaged))


def test_every_truncation_is_noticed():
    whole = in_bytes(small())
    for length in range(len(whole)):
        with pytest.raises(SnapshotError):
            decode(whole[:length])


@pytest.mark.parametrize("more", [b"\0", b"\0" * 8, b"ONEPASS1"])
def test_bytes_left_over_are_noticed(more):
    whole = in_bytes(small())
    for data in (whole + more, sealed(whole[:-32] + more)):
        with pytest.raises(SnapshotError):
            decode(data)


def test_another_version_is_named():
    with pytest.raises(SnapshotError, match="format b'3'"):
        decode(sealed(b"ONEPASS3" + in_bytes(small())[8:-32]))


def test_other_files_are_no_snapshots():
    for data in (b"", b"PK\x03\x04", b"\x80\x04pickle", bytes(1000)):
        with pytest.raises(SnapshotError, match="not a onepass snapshot"):
            decode(data)


@pytest.mark.parametrize("dtype", ["|O", "<f4", ">f8", "<U8", "|V8", "<i4", "<m8[ns]", "f8", ""])
def test_other_types_of_array_are_refused(dtype):
    data = with_array(dtype, [1], bytes(8))
    with pytest.raises(SnapshotError, match="not allowed"):
        decode(data)


@pytest.mark.parametrize(
    "shape", [[-1], [1, -1], [2], [2**62, 4], [2**64], [2**40, 2**40, 2**40], [2**64, 0], [1] * 65]
)
def test_shapes_that_do_not_fit_take_no_memory(shape):
    for arrays in (b"", bytes(8)):
        data = with_array("<f8", shape, arrays)
        with pytest.raises(SnapshotError):
            decode(data)


@pytest.mark.parametrize("length", [1000, 2**32, 2**63])
def test_a_header_longer_than_the_data(length):
    with pytest.raises(SnapshotError, match="header is longer"):
        decode(sealed(MAGIC + struct.pack("<Q", length) + in_bytes(small({}))[16:-32]))


def test_a_header_beyond_the_limit(monkeypatch):
    """It is not written, and one that was is named for what it is."""
    data = in_bytes(small())
    monkeypatch.setattr(module, "LONGEST_HEADER", 100)
    with pytest.raises(SnapshotError, match=r"a header of \d+ bytes; no more than 100 are read"):
        decode(data)
    with pytest.raises(UnwritableSnapshotError, match="no more than 100"):
        encode(small())


def test_what_could_not_be_read_is_not_written():
    with pytest.raises(UnwritableSnapshotError, match="could not be read again"):
        encode(small()._replace(bookmark=Bookmark({"0": "9" * 1001}, {})))


COUNTS = {
    "events below 0": (np.array([-1]), np.array([0])),
    "errors below 0": (np.array([3]), np.array([-1])),
    "more errors than events": (np.array([3]), np.array([4])),
    "no numbers": (np.array([np.nan]), np.array([np.nan])),
    "numbers of another type": (np.array([3.0]), np.array([1])),
}


@pytest.mark.parametrize(("events", "errors"), COUNTS.values(), ids=COUNTS)
def test_counts_that_cannot_be_are_refused(events, errors):
    data = in_bytes(small({"progress/events": events, "progress/errors": errors}))
    with pytest.raises(SnapshotError, match=r"impossible|another shape or type"):
        decode(data)


HEADERS = {
    "a position too long": lambda header: header["bookmark"].update(positions={"0": "9" * 1001}),
    "a partition too long": lambda header: header["bookmark"].update(positions={"9" * 1001: "0"}),
    "a mark too long": lambda header: header["bookmark"].update(marks={"0": "9" * 1001}),
    "an entry too long": lambda header: header["lineage"].update(
        entries=[["run", "0", "0", "9" * 1001, 1]]
    ),
    "records below 0": lambda header: header["lineage"].update(
        entries=[["run", "0", "0", "1", -1]]
    ),
    "records beyond any": lambda header: header["lineage"].update(
        entries=[["run", "0", "0", "1", 2**63]]
    ),
    "a checksum beyond any": lambda header: header["lineage"].update(checksum=2**32),
    "a sealed name too short": lambda header: header["lineage"].update(sealed="ab"),
    "a sealed name of no hash": lambda header: header["lineage"].update(sealed="../" + "a" * 61),
    "a sealed name and a line": lambda header: header["lineage"].update(sealed="a" * 64 + "\n"),
    "rejects below 0": lambda header: header.update(rejects={"type": -1}),
    "rejects beyond any": lambda header: header.update(rejects={"type": 10**30}),
    "slots that are sliced": lambda header: (
        header.update(sliced=["slots"]),
        header["arrays"].append(["slots", "<i8", [0]]),
    ),
    "unknown field": lambda header: header.update(more=1),
    "missing field": lambda header: header.pop("bookmark"),
    "positions not text": lambda header: header["bookmark"].update(positions={"0": 12}),
    "no marks": lambda header: header["bookmark"].pop("marks"),
    "more in the bookmark": lambda header: header["bookmark"].update(more={}),
    "more in the lineage": lambda header: header["lineage"].update(more=1),
    "an entry of no kind": lambda header: header["lineage"].update(
        entries=[["walk", "0", "0", "1", 1]]
    ),
    "an entry too short": lambda header: header["lineage"].update(entries=[["run", "0", "0", "1"]]),
    "rejects not numbers": lambda header: header.update(rejects={"type": "1"}),
    "arrays no list": lambda header: header.update(arrays={}),
    "array too short": lambda header: header["arrays"][0].pop(),
    "shape not whole": lambda header: header["arrays"][0].__setitem__(2, [1.5]),
    "an array twice": lambda header: header["arrays"][1].__setitem__(0, header["arrays"][0][0]),
    "no count of errors": lambda header: header["arrays"][1].__setitem__(0, "w"),
    "a count of no dimension": lambda header: header["arrays"][1].__setitem__(2, []),
    "a slice that is not there": lambda header: header.update(sliced=["w"]),
    "a slice without slots": lambda header: header.update(sliced=["progress/events"]),
}


@looped("change", HEADERS.values(), ids=HEADERS)
def test_a_header_of_another_form_is_refused(change):
    with pytest.raises(SnapshotError):
        decode(with_header(change))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"{",
        b"[]",
        b'{"model": "\xff"}',
        b'{"model": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    ],
)
def test_a_header_that_is_no_json_is_refused(head):
    with pytest.raises(SnapshotError):
        decode(sealed(MAGIC + struct.pack("<Q", len(head)) + head))


DAMAGED_DELTAS = {
    "an array less": lambda arrays: arrays.pop("w"),
    "an array more": lambda arrays: arrays.update(v=np.zeros(1)),
    "a slot beyond the end": lambda arrays: arrays.update(slots=np.array([1, 4])),
    "slots that are no numbers of slots": lambda arrays: arrays.update(slots=np.array([1.0, 2.0])),
    "values that are too many": lambda arrays: arrays.update(w=np.array([1.0, 2.0, 3.0])),
    "values of another type": lambda arrays: arrays.update(w=np.array([1, 2])),
}


def delta(change=lambda _: None, **arrays) -> Snapshot:
    arrays = {"slots": np.array([1, 3]), "w": np.array([7.0, 8.0])} | arrays
    snapshot = small(arrays)
    change(snapshot.arrays)
    return snapshot._replace(state_digest=None, sliced=("w",))


def test_a_delta_sets_what_it_names():
    earlier = small({"w": np.arange(4.0)})
    again = merge(
        decode(in_bytes(earlier)), decode(in_bytes(delta(**{"progress/events": np.array([9])})))
    )
    assert again.whole
    assert again.events == 9
    assert again.arrays["w"].tolist() == [0.0, 7.0, 2.0, 8.0]
    assert again.sliced == ()
    assert again.state_digest is None
    assert earlier.arrays["w"].tolist() == [0.0, 1.0, 2.0, 3.0], (
        "bytes that were read stay as they are"
    )
    twice = merge(again, delta(w=np.array([5.0, 6.0])))
    assert twice.arrays["w"].tolist() == [0.0, 5.0, 2.0, 6.0]
    assert twice.arrays["w"] is again.arrays["w"], "a chain of deltas is put together in one memory"


def test_a_delta_of_several_classes():
    base, values = np.arange(8.0).reshape(2, 4), np.array([[10.0, 11.0], [12.0, 13.0]])
    merged = merge(small({"w": base}), delta(w=values)).arrays["w"]
    assert merged.tolist() == [[0.0, 10.0, 2.0, 11.0], [4.0, 12.0, 6.0, 13.0]]


def test_a_delta_without_a_changed_slot():
    none = delta(slots=np.zeros(0, np.int64), w=np.zeros(0))
    assert merge(small({"w": np.arange(4.0)}), decode(in_bytes(none))).arrays["w"].tolist() == [
        0.0,
        1.0,
        2.0,
        3.0,
    ]


@pytest.mark.parametrize("change", DAMAGED_DELTAS.values(), ids=DAMAGED_DELTAS)
def test_a_delta_that_does_not_fit_is_refused(change):
    with pytest.raises(SnapshotError):
        merge(small({"w": np.arange(4.0)}), delta(change))


def test_a_delta_follows_a_whole_snapshot():
    whole = small({"w": np.arange(4.0)})
    for earlier, later in ((whole, whole), (delta(), delta())):
        with pytest.raises(SnapshotError, match="must follow"):
            merge(earlier, later)


def test_the_digest_is_of_the_state_alone():
    state = {"w": np.array([1.5]), "base/v": np.array([2])}
    arrays = {f"state/{name}": array for name, array in state.items()}
    bare = small(arrays)._replace(state_digest=None)
    digest = bare.with_digest().state_digest
    assert digest is not None
    assert bare._replace(classes=[], rejects={}).with_digest().state_digest == digest
    assert small(arrays).with_digest().state_digest == "d" * 8, "a digest that is there is kept"
    assert delta().with_digest().state_digest is None


def fixed() -> tuple[Snapshot, Snapshot]:
    """The content of the golden files of today's format: a whole snapshot and a delta that follows
    it.
    """
    runs = (
        Run("0", "0", "7", 7),
        Lost("1", "0", "4", 4, "retention"),
        Frozen(3, 1.5, 2.5),
        Rolled(2, 3, 4.25),
    )
    whole = Snapshot(
        {
            "learner": {"kind": "pa1", "C": 0.1},
            "features": {"bits": 2},
            "label": {"field": "label"},
        },
        ["ham", "späm"],
        Bookmark({"0": "7", "1": "4"}, {"": "topic-id", "0": "6:123"}),
        Lineage("ab" * 32, 0xDEADBEEF, runs),
        {"malformed": 2},
        "cd" * 32,
        {
            "state/w": np.array([[0.5, -0.0, 1e-300, np.inf], [1.0, 2.0, 3.0, np.nan]]),
            "state/updates": np.array([5]),
            "progress/events": np.array([6]),
            "progress/errors": np.array([2]),
            "progress/recent": np.array([1, 0, 1], np.uint8),
        },
    )
    changed = {
        "slots": np.array([0, 3]),
        "state/w": np.array([[0.25, 1.0], [-1.0, 4.0]]),
        "state/updates": np.array([6]),
        "progress/events": np.array([8]),
    }
    later = whole._replace(
        bookmark=Bookmark({"0": "9", "1": "4"}, {"": "topic-id", "0": "8:77"}),
        lineage=Lineage("ab" * 32, 0xCAFE, (*runs, Run("0", "7", "9", 2))),
        state_digest=None,
        arrays=whole.arrays | changed,
        sliced=("state/w",),
    )
    return whole, later


@pytest.mark.parametrize(("path", "which"), [(WHOLE, 0), (DELTA, 1)], ids=["whole", "delta"])
def test_the_format_is_as_it_was_laid_down(path, which):
    """Never written anew: a change of the format needs another version, with files of its own."""
    assert in_bytes(fixed()[which]) == path.read_bytes()
    check_same(decode(path.read_bytes()), fixed()[which])


def test_the_laid_down_delta_follows_the_laid_down_whole():
    merged = merge(decode(WHOLE.read_bytes()), decode(DELTA.read_bytes()))
    assert merged.events == 8
    assert merged.bookmark.positions == {"0": "9", "1": "4"}
    expected = np.array([[0.25, -0.0, 1e-300, 1.0], [-1.0, 2.0, 3.0, 4.0]])
    assert merged.arrays["state/w"].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("path", "flips"), [(OLDER, (0x01, 0x80, 0xFF)), (WHOLE, range(1, 256)), (DELTA, range(1, 256))]
)
def test_every_change_of_a_byte_of_a_golden_file_is_noticed(path, flips):
    whole = path.read_bytes()
    for place, byte in enumerate(whole):
        damaged = bytearray(whole)
        for flip in flips:
            damaged[place] = byte ^ flip
            with pytest.raises(SnapshotError):
                decode(bytes(damaged))


def golden_model() -> tuple[Model, Decoder]:
    features = Features(columns=("a", "b"), bits=2)
    label = Label(classes="grow", max_classes=3)
    learner = make(
        {"kind": "scaled", "base": {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1:C=0.5"}}
    )
    decoder = Decoder(features, label, Limits())
    return Model(learner, features, label, decoder), decoder


def golden_events(first: int, last: int) -> list[bytes]:
    """Plain arithmetic, so that no generator has to stay the same."""
    return [
        json.dumps(
            {
                "features": {
                    "a": n * 37 % 11 - 5,
                    "b": n * 53 % 17 / 4,
                    "colour": "rgb"[n * 7 % 3],
                },
                "label": "xyz"[(n * 37 % 11 + n * 7) % 3],
            }
        ).encode()
        for n in range(first, last)
    ]


def learn(model: Model, decoder: Decoder, events: list[bytes]) -> None:
    outcome = model.learn([decoder.event(data) for data in events])
    assert outcome.learned == len(events)
    model.count_rejects(["type"])


def test_a_snapshot_of_long_ago_is_taken_up():
    """Of the first format, without marks and history."""
    snapshot = decode(OLDER.read_bytes())
    assert snapshot.bookmark == Bookmark({"0": "40"}, {})
    assert snapshot.lineage == Lineage()
    assert snapshot.whole
    assert snapshot.classes == ["x", "z", "y"]
    assert snapshot.rejects == {"type": 1}
    assert snapshot.events == 40
    assert snapshot.state_digest == STATE_AT_GOLDEN
    assert snapshot._replace(state_digest=None).with_digest() == snapshot
    check_same(decode(in_bytes(snapshot)), snapshot)
    model, decoder = golden_model()
    model.restore(snapshot)
    assert state_digest(model.state) == STATE_AT_GOLDEN
    learn(model, decoder, golden_events(40, 80))
    assert state_digest(model.state) == STATE_AFTER_GOLDEN


def test_the_snapshot_of_long_ago_is_what_those_events_give_today():
    model, decoder = golden_model()
    learn(model, decoder, golden_events(0, 40))
    snapshot = decode(OLDER.read_bytes())
    assert state_digest(model.state) == snapshot.state_digest
    assert model.labels.names == snapshot.classes
    assert model.rejects == snapshot.rejects
    assert model.progress.errors == snapshot.errors
