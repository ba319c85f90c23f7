"""`Snapshot` ⇄ bytes: everything a learner needs to go on, in a versioned format that runs no code on loading.

Layout, little-endian: magic with the version (8 bytes), length of the header (8), header (canonical JSON), the raw
arrays in the header's order, SHA-256 of all that (32). Names of arrays are part of the format.
"""

import hashlib
import math
import struct
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

MAGIC = b"ONEPASS1"
DTYPES = {"<f8", "<i8", "|u1"}
LONGEST_HEADER = 64 * 1024 * 1024


class BadSnapshot(ValueError):
    """Bytes that are not a whole snapshot of a version we know."""


class Snapshot(NamedTuple):
    """A model at one moment of the log."""

    model: dict[str, Any]
    """What it was made with: learner, features, label."""
    classes: list[str]
    positions: dict[str, str]
    """Next position per partition: exactly the records before these have been applied."""
    rejects: dict[str, int]
    state_digest: str
    arrays: dict[str, NDArray[Any]]

    @property
    def events(self) -> int:
        """Events learned."""
        return int(self.arrays["progress/events"][0])


def encode(snapshot: Snapshot) -> bytes:
    header = snapshot._asdict() | {
        "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in snapshot.arrays.items()]
    }
    head = msgspec.json.encode(header, order="deterministic")
    parts = [MAGIC, struct.pack("<Q", len(head)), head]
    parts += [np.ascontiguousarray(array).tobytes() for array in snapshot.arrays.values()]
    body = b"".join(parts)
    return body + hashlib.sha256(body).digest()


def decode(data: bytes) -> Snapshot:
    """Refuses anything but a whole, unchanged snapshot; lengths are checked before memory is taken."""
    if data[:7] != MAGIC[:7]:
        raise BadSnapshot("not a onepass snapshot")
    if data[:8] != MAGIC:
        raise BadSnapshot(f"snapshot format {data[7:8]!r} is not known to this version")
    if len(data) < 48 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise BadSnapshot("damaged: the checksum does not fit")
    (length,) = struct.unpack("<Q", data[8:16])
    if length > min(LONGEST_HEADER, len(data) - 48):
        raise BadSnapshot("damaged: the header is longer than the snapshot")
    try:
        header = msgspec.json.decode(data[16 : 16 + length], type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSnapshot(f"header: {error}") from error
    arrays = _arrays(header.arrays, data, 16 + length)
    return Snapshot(header.model, header.classes, header.positions, header.rejects, header.state_digest, arrays)


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    model: dict[str, Any]
    classes: list[str]
    positions: dict[str, str]
    rejects: dict[str, int]
    state_digest: str
    arrays: list[tuple[str, str, list[int]]]


def _arrays(table: list[tuple[str, str, list[int]]], data: bytes, start: int) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype, shape in table:
        if dtype not in DTYPES or any(extent < 0 for extent in shape):
            raise BadSnapshot(f"array {name} is of a type that is not allowed")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if start + size > len(data) - 32:
            raise BadSnapshot("damaged: arrays are longer than the snapshot")
        try:
            arrays[name] = np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
        except ValueError as error:  # more dimensions or larger ones than numpy has
            raise BadSnapshot(f"array {name}: {error}") from error
        start += size
    if start != len(data) - 32:
        raise BadSnapshot("damaged: bytes are left over")
    return arrays
