"""The snapshot format: what is written comes back bit for bit, and nothing else is taken for a snapshot."""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.registry import make
from service.events import Decoder
from service.model import Model
from service.settings import Features, Label, Limits
from service.snapshot import DTYPES, MAGIC, BadSnapshot, Snapshot, decode, encode

some = settings(max_examples=80, derandomize=True, deadline=None)

GOLDEN = Path(__file__).parent / "golden" / "snapshot-1.bin"
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


SNAPSHOTS = st.builds(
    Snapshot,
    model=st.dictionaries(st.text(), JSON, max_size=3),
    classes=st.lists(st.text(), max_size=4),
    positions=st.dictionaries(st.text(), st.text(), max_size=3),
    rejects=st.dictionaries(st.text(), st.integers(0, 2**60), max_size=3),
    state_digest=st.text(),
    arrays=st.dictionaries(st.text(), arrays(), max_size=4),
)


def bits(snapshot: Snapshot) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in snapshot.arrays.items()}


@some
@given(SNAPSHOTS)
def test_round_trip(snapshot):
    again = decode(encode(snapshot))
    assert again._replace(arrays={}) == snapshot._replace(arrays={})
    assert bits(again) == bits(snapshot)
    assert list(again.arrays) == list(snapshot.arrays)


@some
@given(SNAPSHOTS)
def test_the_same_snapshot_is_the_same_bytes(snapshot):
    again = snapshot._replace(positions=dict(reversed(snapshot.positions.items())))
    assert encode(again) == encode(snapshot) == encode(decode(encode(snapshot)))


def test_the_order_of_memory_does_not_matter():
    square = np.arange(6.0).reshape(2, 3)
    columns = small({"a": np.asfortranarray(square)})
    assert encode(columns) == encode(small({"a": square}))
    assert np.array_equal(decode(encode(columns)).arrays["a"], square)
    assert encode(small({"a": square[:, ::2]})) == encode(small({"a": square[:, ::2].copy()}))


def test_events_are_the_progress():
    assert small({"progress/events": np.array([7])}).events == 7


def small(arrays=None) -> Snapshot:
    arrays = {"w": np.array([1.5, -2.0]), "n": np.array([3])} if arrays is None else arrays
    return Snapshot({"learner": {"kind": "pa1"}}, ["a"], {"0": "12"}, {"type": 1}, "d" * 8, arrays)


def sealed(body: bytes) -> bytes:
    """With a checksum that fits: damage that only the later checks can see."""
    return body + hashlib.sha256(body).digest()


def with_header(change, arrays=b"") -> bytes:
    """A snapshot whose header has been changed and sealed again."""
    whole = encode(small({}))
    (length,) = struct.unpack("<Q", whole[8:16])
    header = json.loads(whole[16 : 16 + length])
    change(header)
    head = json.dumps(header).encode()
    return sealed(MAGIC + struct.pack("<Q", len(head)) + head + arrays)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_changed_byte_is_noticed(flip):
    whole = encode(small())
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= flip
        with pytest.raises(BadSnapshot):
            decode(bytes(damaged))


def test_every_truncation_is_noticed():
    whole = encode(small())
    for length in range(len(whole)):
        with pytest.raises(BadSnapshot):
            decode(whole[:length])


@pytest.mark.parametrize("more", [b"\0", b"\0" * 8, b"ONEPASS1"])
def test_bytes_left_over_are_noticed(more):
    whole = encode(small())
    for data in (whole + more, sealed(whole[:-32] + more)):
        with pytest.raises(BadSnapshot):
            decode(data)


def test_another_version_is_named():
    with pytest.raises(BadSnapshot, match="format b'2'"):
        decode(sealed(b"ONEPASS2" + encode(small())[8:-32]))


def test_other_files_are_no_snapshots():
    for data in (b"", b"PK\x03\x04", b"\x80\x04pickle", bytes(1000)):
        with pytest.raises(BadSnapshot, match="not a onepass snapshot"):
            decode(data)


@pytest.mark.parametrize("dtype", ["|O", "<f4", ">f8", "<U8", "|V8", "<i4", "<m8[ns]", "f8", ""])
def test_other_types_of_array_are_refused(dtype):
    data = with_header(lambda header: header.update(arrays=[["w", dtype, [1]]]), bytes(8))
    with pytest.raises(BadSnapshot, match="not allowed"):
        decode(data)


@pytest.mark.parametrize(
    "shape", [[-1], [1, -1], [2], [2**62, 4], [2**64], [2**40, 2**40, 2**40], [2**64, 0], [1] * 65]
)
def test_shapes_that_do_not_fit_take_no_memory(shape):
    for arrays in (b"", bytes(8)):
        data = with_header(lambda header: header.update(arrays=[["w", "<f8", shape]]), arrays)
        with pytest.raises(BadSnapshot):
            decode(data)


@pytest.mark.parametrize("length", [200, 2**32, 2**63])
def test_a_header_longer_than_the_data(length):
    with pytest.raises(BadSnapshot, match="header is longer"):
        decode(sealed(MAGIC + struct.pack("<Q", length) + encode(small({}))[16:-32]))


HEADERS = {
    "unknown field": lambda header: header.update(more=1),
    "missing field": lambda header: header.pop("positions"),
    "positions not text": lambda header: header.update(positions={"0": 12}),
    "rejects not numbers": lambda header: header.update(rejects={"type": "1"}),
    "arrays no list": lambda header: header.update(arrays={}),
    "array too short": lambda header: header.update(arrays=[["w", "<f8"]]),
    "shape not whole": lambda header: header.update(arrays=[["w", "<f8", [1.5]]]),
}


@pytest.mark.parametrize("change", HEADERS.values(), ids=HEADERS)
def test_a_header_of_another_form_is_refused(change):
    with pytest.raises(BadSnapshot):
        decode(with_header(change))


@pytest.mark.parametrize(
    "head", [b"", b"{", b"[]", b'{"model": "\xff"}', b'{"model": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}"]
)
def test_a_header_that_is_no_json_is_refused(head):
    with pytest.raises(BadSnapshot):
        decode(sealed(MAGIC + struct.pack("<Q", len(head)) + head))


def golden_model() -> tuple[Model, Decoder]:
    features = Features(columns=("a", "b"), bits=2)
    label = Label(classes="grow", max_classes=3)
    learner = make({"kind": "scaled", "base": {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1:C=0.5"}})
    decoder = Decoder(features, label, Limits())
    return Model(learner, features, label, decoder), decoder


def golden_events(first: int, last: int) -> list[bytes]:
    """Plain arithmetic, so that no generator has to stay the same."""
    return [
        json.dumps(
            {
                "features": {"a": n * 37 % 11 - 5, "b": n * 53 % 17 / 4, "colour": "rgb"[n * 7 % 3]},
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
    """The file is never written anew: a change that cannot read it needs another version, with a file of its own."""
    snapshot = decode(GOLDEN.read_bytes())
    assert snapshot.positions == {"0": "40"}
    assert snapshot.classes == ["x", "z", "y"]
    assert snapshot.rejects == {"type": 1}
    assert snapshot.events == 40
    assert snapshot.state_digest == STATE_AT_GOLDEN
    assert encode(snapshot) == GOLDEN.read_bytes()
    model, decoder = golden_model()
    model.restore(snapshot)
    assert model.snapshot({}).state_digest == STATE_AT_GOLDEN
    learn(model, decoder, golden_events(40, 80))
    assert model.snapshot({}).state_digest == STATE_AFTER_GOLDEN


def test_the_snapshot_of_long_ago_is_what_those_events_give_today():
    model, decoder = golden_model()
    learn(model, decoder, golden_events(0, 40))
    assert encode(model.snapshot({"0": "40"})) == GOLDEN.read_bytes()
