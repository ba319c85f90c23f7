"""Export of one generation to one file: the whole snapshot and the segments of its lineage.

Layout, little-endian: magic (8 bytes), version (8), number of parts (8), length of each part (8
each), the parts, SHA-256 of all that (32). The first part is the snapshot as `encode` writes it.
Every other part is a segment. Its name is the SHA-256 of its bytes, so the file does not store it.
The snapshot names its newest segment.
"""

import hashlib
import struct
from collections.abc import Iterable

from service.checkpoint.snapshot import Encoded, Snapshot, SnapshotError, decode

MAGIC = b"ONEPASSB"
VERSION = 1
FIXED = 24
"""Bytes before the lengths of the parts."""


def pack(snapshot: Encoded, segments: Iterable[bytes]) -> Encoded:
    """Write the snapshot and its segments as the bytes of one file."""
    history = [memoryview(segment) for segment in segments]
    lengths = [snapshot.size, *map(len, history)]
    head = MAGIC + struct.pack(f"<{2 + len(lengths)}Q", VERSION, len(lengths), *lengths)
    buffers = [memoryview(head), *snapshot.buffers, *history]
    digest = hashlib.sha256()
    for buffer in buffers:
        digest.update(buffer)
    buffers.append(memoryview(digest.digest()))
    return Encoded(buffers, sum(map(len, buffers)), digest.hexdigest())


def unpack(data: bytes) -> tuple[Snapshot, dict[str, bytes]]:
    """Read the snapshot and its segments by name. A plain snapshot file has no segments.

    Any other data raises `SnapshotError`.
    """
    if data[:8] != MAGIC:
        return decode(data), {}
    if len(data) >= FIXED and data[8:16] != struct.pack("<Q", VERSION):
        raise SnapshotError(
            f"export format {int.from_bytes(data[8:16], 'little')} is not known to this version"
        )
    if len(data) < FIXED + 32 or hashlib.sha256(memoryview(data)[:-32]).digest() != data[-32:]:
        raise SnapshotError("damaged: the checksum does not match")
    first, *segments = _split_parts(data)
    return decode(first), {hashlib.sha256(segment).hexdigest(): segment for segment in segments}


def _split_parts(data: bytes) -> list[bytes]:
    (count,) = struct.unpack_from("<Q", data, 16)
    start, end = FIXED + 8 * count, len(data) - 32
    if count < 1 or start > end:
        raise SnapshotError("damaged: the number of its parts does not match its size")
    lengths = struct.unpack_from(f"<{count}Q", data, FIXED)
    if start + sum(lengths) != end:
        raise SnapshotError("damaged: the lengths of its parts do not match its size")
    parts = []
    for length in lengths:
        parts.append(data[start : start + length])
        start += length
    return parts
