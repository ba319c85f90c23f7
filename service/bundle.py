"""One generation in a file that stands alone: the whole snapshot, then the sealed segments of its history.

Layout, little-endian: magic (8 bytes), version (8), number of parts (8), the length of each part (8 each), the parts,
SHA-256 of all that (32). The first part is the snapshot as `encode` writes it, each other one a segment; a segment's
name is the SHA-256 of its bytes, so it needs no other. The snapshot keeps naming its newest segment.
"""

import hashlib
import struct
from collections.abc import Iterable

from service.snapshot import BadSnapshot, Encoded, Snapshot, decode

MAGIC = b"ONEPASSB"
VERSION = 1
FIXED = 24
"""Bytes before the lengths."""


def pack(snapshot: Encoded, segments: Iterable[bytes]) -> Encoded:
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
    """The snapshot, and segments by their names; a bare snapshot has none. Anything else is `BadSnapshot`."""
    if data[:8] != MAGIC:
        return decode(data), {}
    if len(data) >= FIXED and data[8:16] != struct.pack("<Q", VERSION):
        raise BadSnapshot(f"export format {int.from_bytes(data[8:16], 'little')} is not known to this version")
    if len(data) < FIXED + 32 or hashlib.sha256(memoryview(data)[:-32]).digest() != data[-32:]:
        raise BadSnapshot("damaged: the checksum does not fit")
    first, *segments = _parts(data)
    return decode(first), {hashlib.sha256(segment).hexdigest(): segment for segment in segments}


def _parts(data: bytes) -> list[bytes]:
    (count,) = struct.unpack_from("<Q", data, 16)
    start, end = FIXED + 8 * count, len(data) - 32
    if count < 1 or start > end:
        raise BadSnapshot("damaged: the number of its parts does not fit")
    lengths = struct.unpack_from(f"<{count}Q", data, FIXED)
    if start + sum(lengths) != end:
        raise BadSnapshot("damaged: the lengths of its parts do not fit")
    parts = []
    for length in lengths:
        parts.append(data[start : start + length])
        start += length
    return parts
