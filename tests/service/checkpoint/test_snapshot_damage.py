"""The reader accepts nothing but valid snapshots."""

import hashlib
import json
import struct

import numpy as np
import pytest

from service.checkpoint import snapshot as module
from service.checkpoint.snapshot import (
    MAGIC,
    SnapshotError,
    UnwritableSnapshotError,
    decode,
    encode,
)
from tests.looped import looped
from tests.service.checkpoint.small_snapshot import in_bytes, small


def seal(body: bytes) -> bytes:
    """Append a matching checksum, so that only the later checks can notice the damage."""
    return body + hashlib.sha256(body).digest()


def with_header(change, arrays=b"") -> bytes:
    """Return a snapshot with a changed header and a new checksum; `arrays` come after the two
    counts.
    """
    whole = in_bytes(small({}))
    (length,) = struct.unpack("<Q", whole[8:16])
    header = json.loads(whole[16 : 16 + length])
    change(header)
    head = json.dumps(header).encode()
    return seal(MAGIC + struct.pack("<Q", len(head)) + head + whole[16 + length : -32] + arrays)


def with_array(dtype, shape, arrays=b"", name="w") -> bytes:
    return with_header(lambda header: header["arrays"].append([name, dtype, shape]), arrays)


def test_a_snapshot_with_a_changed_header_is_otherwise_valid():
    assert decode(with_array("<f8", [1], bytes(8))).arrays["w"] == [0.0]


@looped("flip", [0x01, 0x80, 0xFF])
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


@looped("more", [b"\0", b"\0" * 8, b"ONEPASS1"])
def test_trailing_bytes_are_noticed(more):
    whole = in_bytes(small())
    for data in (whole + more, seal(whole[:-32] + more)):
        with pytest.raises(SnapshotError):
            decode(data)


def test_another_version_is_named():
    with pytest.raises(SnapshotError, match="format b'3'"):
        decode(seal(b"ONEPASS3" + in_bytes(small())[8:-32]))


def test_other_files_are_refused():
    for data in (b"", b"PK\x03\x04", b"\x80\x04pickle", bytes(1000)):
        with pytest.raises(SnapshotError, match="not a onepass snapshot"):
            decode(data)


@looped("dtype", ["|O", "<f4", ">f8", "<U8", "|V8", "<i4", "<m8[ns]", "f8", ""])
def test_other_types_of_array_are_refused(dtype):
    data = with_array(dtype, [1], bytes(8))
    with pytest.raises(SnapshotError, match="not allowed"):
        decode(data)


@looped(
    "shape", [[-1], [1, -1], [2], [2**62, 4], [2**64], [2**40, 2**40, 2**40], [2**64, 0], [1] * 65]
)
def test_wrong_shapes_are_refused_without_allocating(shape):
    for arrays in (b"", bytes(8)):
        data = with_array("<f8", shape, arrays)
        with pytest.raises(SnapshotError):
            decode(data)


@looped("length", [1000, 2**32, 2**63])
def test_a_header_longer_than_the_data_is_refused(length):
    with pytest.raises(SnapshotError, match="header is longer"):
        decode(seal(MAGIC + struct.pack("<Q", length) + in_bytes(small({}))[16:-32]))


def test_a_header_beyond_the_limit_is_neither_written_nor_read(monkeypatch):
    """Reading one says that it is too long."""
    data = in_bytes(small())
    monkeypatch.setattr(module, "LONGEST_HEADER", 100)
    with pytest.raises(SnapshotError, match=r"header has \d+ bytes, over the limit of 100"):
        decode(data)
    with pytest.raises(UnwritableSnapshotError, match="over the limit of 100"):
        encode(small())


COUNTS = {
    "events below 0": (np.array([-1]), np.array([0])),
    "errors below 0": (np.array([3]), np.array([-1])),
    "more errors than events": (np.array([3]), np.array([4])),
    "no numbers": (np.array([np.nan]), np.array([np.nan])),
    "numbers of another type": (np.array([3.0]), np.array([1])),
}


@looped(("events", "errors"), COUNTS.values(), ids=COUNTS)
def test_impossible_counts_are_refused(events, errors):
    data = in_bytes(small({"progress/events": events, "progress/errors": errors}))
    with pytest.raises(SnapshotError, match=r"impossible|wrong shape or type"):
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


@looped(
    "head",
    [
        b"",
        b"{",
        b"[]",
        b'{"model": "\xff"}',
        b'{"model": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    ],
)
def test_a_header_that_is_not_json_is_refused(head):
    with pytest.raises(SnapshotError):
        decode(seal(MAGIC + struct.pack("<Q", len(head)) + head))
