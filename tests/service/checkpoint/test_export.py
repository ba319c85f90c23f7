"""An export file stands alone: its parts come back unchanged, and no other file is accepted."""

import hashlib
import struct
from pathlib import Path

import pytest

from service.checkpoint.export import MAGIC, pack, unpack
from service.checkpoint.snapshot import Encoded, SnapshotError, decode
from tests.looped import looped

GOLDEN = Path(__file__).parents[1] / "golden"
BUNDLE = GOLDEN / "bundle-1.bin"
SNAPSHOT = (GOLDEN / "snapshot-2.bin").read_bytes()
SEGMENTS = [b"newest", b"", b"older"]


def in_bytes(segments, snapshot=SNAPSHOT):
    encoded = pack(
        Encoded([memoryview(snapshot[:10]), memoryview(snapshot[10:])], len(snapshot), ""), segments
    )
    data = b"".join(encoded.buffers)
    assert len(data) == encoded.size
    assert data[-32:].hex() == encoded.sha256 == hashlib.sha256(data[:-32]).hexdigest()
    return data


def seal(body):
    return body + hashlib.sha256(body).digest()


def test_the_format_matches_the_golden_file():
    """The golden file is never regenerated: a change of the format needs another version, with its
    own file.
    """
    assert in_bytes(SEGMENTS) == BUNDLE.read_bytes()


@looped("segments", [[], SEGMENTS, [b"x" * 100_000]])
def test_packed_parts_come_back_unchanged(segments):
    snapshot, found = unpack(in_bytes(segments))
    assert snapshot._replace(arrays={}) == decode(SNAPSHOT)._replace(arrays={})
    assert found == {hashlib.sha256(segment).hexdigest(): segment for segment in segments}


@looped("name", ["snapshot-1.bin", "snapshot-2.bin", "delta-2.bin"])
def test_a_bare_snapshot_has_no_history(name):
    data = (GOLDEN / name).read_bytes()
    snapshot, segments = unpack(data)
    assert snapshot._replace(arrays={}) == decode(data)._replace(arrays={})
    assert segments == {}


def test_every_changed_byte_and_every_truncation_is_noticed():
    data = BUNDLE.read_bytes()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        for bad in (bytes(damaged), data[:place]):
            with pytest.raises(SnapshotError):
                unpack(bad)


def test_another_version_is_named():
    with pytest.raises(SnapshotError, match="export format 2 is not known"):
        unpack(seal(MAGIC + struct.pack("<QQ", 2, 0)))


SHAPES = {
    "no part": (0, []),
    "more parts than bytes": (2**61, []),
    "parts beyond the end": (3, [1]),
    "a part beyond the end": (2, [len(SNAPSHOT), 1]),
    "lengths that wrap around": (2, [2**64 - 1, len(SNAPSHOT) + 1]),
    "bytes left over": (1, [len(SNAPSHOT) - 1]),
}


@looped(("count", "lengths"), SHAPES.values(), ids=SHAPES)
def test_wrong_lengths_are_refused_without_allocating(count, lengths):
    body = SNAPSHOT if lengths != [1] else b""
    with pytest.raises(SnapshotError, match="of its parts do"):
        unpack(seal(MAGIC + struct.pack(f"<{2 + len(lengths)}Q", 1, count, *lengths) + body))


def test_the_snapshot_inside_is_checked():
    with pytest.raises(SnapshotError, match="not a onepass snapshot"):
        unpack(in_bytes(SEGMENTS, b"something else"))
    with pytest.raises(SnapshotError, match="checksum"):
        unpack(in_bytes(SEGMENTS, SNAPSHOT[:-1] + b"x"))
