"""`Snapshot` and its bytes: all that a learner needs to continue. Loading it runs no code.

Layout, little-endian: magic with the version (8 bytes), length of the header (8), header (canonical
JSON), the raw arrays in the header's order, SHA-256 of all that (32). Names of arrays are part of
the format. A snapshot is whole or a delta. In a delta the arrays named by `sliced` hold only the
values at `slots`, which replace those of the snapshot before it. The array `names` of a delta is
appended to the earlier one.
"""

import hashlib
import math
import struct
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from learners.state import arrays_digest
from service.checkpoint.lineage import Count, Lineage, Text
from service.errors import ProtectiveError
from service.sources.base import Bookmark

MAGIC = b"ONEPASS2"
OLDER = b"ONEPASS1"
"""The first format, without marks, lineage and deltas. It can still be read."""
DTYPES = {"<f8", "<i8", "|u1"}
LONGEST_HEADER = 64 * 1024 * 1024
"""Bytes of a header."""
SLOTS = "slots"
NAMES = "names"
"""Array with the names of slots, as lines. A delta has the lines that are new since its base."""
ALARMS = "alarms"
"""Array with the newest alarms, as JSON."""
COUNTS = ("progress/events", "progress/errors")
"""Arrays of one number each that every snapshot has. Errors are at least 0 and at most events."""


class SnapshotError(ValueError):
    """The bytes are damaged, incomplete or of an unknown format."""


class UnwritableSnapshotError(ProtectiveError):
    """The snapshot could be written but never read. Writing no checkpoint is better."""


class Snapshot(NamedTuple):
    """The state of a model at one position of the log."""

    model: dict[str, Any]
    """The model's settings: learner, features, label, limits, drift."""
    classes: list[str]
    bookmark: Bookmark
    """Next position per partition. Exactly the records before these positions were applied."""
    lineage: Lineage
    rejects: dict[str, int]
    state_digest: str | None
    """Digest of the learner's state. None in a delta, which has only a part of the state."""
    arrays: dict[str, NDArray[Any]]
    sliced: tuple[str, ...] = ()
    """Arrays that hold only the values at `arrays["slots"]` along their last axis."""

    @property
    def whole(self) -> bool:
        return SLOTS not in self.arrays

    @property
    def events(self) -> int:
        """Events learned."""
        return int(self.arrays["progress/events"][0])

    @property
    def errors(self) -> int:
        """Events that the model predicted wrongly before it learned them."""
        return int(self.arrays["progress/errors"][0])

    def with_digest(self) -> "Snapshot":
        """Add the digest of the state, if the snapshot is whole and has none."""
        if not self.whole or self.state_digest is not None:
            return self
        state = {
            name.removeprefix("state/"): array
            for name, array in self.arrays.items()
            if name.startswith("state/")
        }
        return self._replace(state_digest=arrays_digest(state))


class Encoded(NamedTuple):
    """A snapshot as bytes. The buffers share the memory of its arrays."""

    buffers: list[memoryview]
    size: int
    sha256: str


def encode(snapshot: Snapshot) -> Encoded:
    """Encode a snapshot. Raise `UnwritableSnapshotError` if `decode` would refuse its header."""
    fields = snapshot._asdict() | {
        "bookmark": snapshot.bookmark._asdict(),
        "arrays": [
            [name, array.dtype.str, list(array.shape)] for name, array in snapshot.arrays.items()
        ],
    }
    head = msgspec.json.encode(fields, order="deterministic")
    try:
        _decode_header(head, older=False)
    except SnapshotError as error:
        raise UnwritableSnapshotError(
            f"the checkpoint is not written, because it could not be read again: {error}"
        ) from error
    buffers = [memoryview(MAGIC + struct.pack("<Q", len(head)) + head)]
    buffers += [
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for array in snapshot.arrays.values()
    ]
    digest = hashlib.sha256()
    for buffer in buffers:
        digest.update(buffer)
    buffers.append(memoryview(digest.digest()))
    return Encoded(buffers, sum(map(len, buffers)), digest.hexdigest())


def decode(data: bytes) -> Snapshot:
    """Decode a complete, unchanged snapshot. Raise `SnapshotError` for any other data.

    It checks lengths before it allocates memory.
    """
    if data[:7] != MAGIC[:7]:
        raise SnapshotError("not a onepass snapshot")
    if data[:8] not in {MAGIC, OLDER}:
        raise SnapshotError(f"snapshot format {data[7:8]!r} is not known to this version")
    if len(data) < 48 or hashlib.sha256(memoryview(data)[:-32]).digest() != data[-32:]:
        raise SnapshotError("damaged: the checksum does not match")
    (length,) = struct.unpack("<Q", data[8:16])
    if length > len(data) - 48:
        raise SnapshotError("damaged: the header is longer than the snapshot")
    header = _decode_header(data[16 : 16 + length], older=data[:8] == OLDER)
    arrays = _decode_arrays(header.arrays, data, 16 + length)
    missing = {*COUNTS, *header.sliced} - arrays.keys()
    if missing or SLOTS in header.sliced or (header.sliced and SLOTS not in arrays):
        raise SnapshotError("header: an array is missing")
    if any(arrays[name].shape != (1,) or arrays[name].dtype != np.int64 for name in COUNTS):
        raise SnapshotError("header: an array of counts has a wrong shape or type")
    events, errors = (int(arrays[name][0]) for name in COUNTS)
    if not 0 <= errors <= events:
        raise SnapshotError(f"{errors:,} errors in {events:,} events are impossible")
    return Snapshot(
        header.model,
        header.classes,
        Bookmark(header.bookmark.positions, header.bookmark.marks),
        header.lineage,
        header.rejects,
        header.state_digest,
        arrays,
        header.sliced,
    )


def merge(earlier: Snapshot, delta: Snapshot) -> Snapshot:
    """Apply `delta` to `earlier`. Writable arrays of `earlier` are changed in place."""
    if delta.whole or not earlier.whole:
        raise SnapshotError("a delta must follow a whole snapshot")
    slots = delta.arrays[SLOTS]
    arrays = {name: array for name, array in delta.arrays.items() if name != SLOTS}
    if earlier.arrays.keys() != arrays.keys():
        raise SnapshotError("a delta has other arrays than its base")
    for name in delta.sliced:
        base = earlier.arrays[name]
        if base.dtype != arrays[name].dtype:
            raise SnapshotError(f"array {name} of a delta has another type than in its base")
        target = base if base.flags.writeable else base.copy()
        try:
            target[..., slots] = arrays[name]
        except (IndexError, ValueError) as error:
            raise SnapshotError(f"array {name} of a delta does not fit: {error}") from error
        arrays[name] = target
    if NAMES in arrays:
        both = earlier.arrays[NAMES], arrays[NAMES]
        if any(names.dtype != np.uint8 or names.ndim != 1 for names in both):
            raise SnapshotError("names have a wrong type or shape")
        arrays[NAMES] = np.concatenate(both)
    return delta._replace(arrays=arrays, sliced=())


class _Bookmark(msgspec.Struct, forbid_unknown_fields=True):
    positions: dict[Text, Text]
    marks: dict[Text, Text]


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    model: dict[str, Any]
    classes: list[str]
    bookmark: _Bookmark
    lineage: Lineage
    rejects: dict[Text, Count]
    state_digest: str | None
    arrays: list[tuple[str, str, list[int]]]
    sliced: tuple[str, ...]


class _OlderHeader(msgspec.Struct, forbid_unknown_fields=True):
    model: dict[str, Any]
    classes: list[str]
    positions: dict[Text, Text]
    rejects: dict[Text, Count]
    state_digest: str
    arrays: list[tuple[str, str, list[int]]]


def _decode_header(head: bytes, *, older: bool) -> _Header:
    if len(head) > LONGEST_HEADER:
        raise SnapshotError(
            f"the header has {len(head):,} bytes, over the limit of {LONGEST_HEADER:,}"
        )
    try:
        if not older:
            return msgspec.json.decode(head, type=_Header)
        old = msgspec.json.decode(head, type=_OlderHeader)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"header: {error}") from error
    bookmark = _Bookmark(old.positions, {})
    return _Header(
        old.model, old.classes, bookmark, Lineage(), old.rejects, old.state_digest, old.arrays, ()
    )


def _decode_arrays(
    table: list[tuple[str, str, list[int]]], data: bytes, start: int
) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype, shape in table:
        if dtype not in DTYPES or any(extent < 0 for extent in shape) or name in arrays:
            raise SnapshotError(
                f"array {name[:80]!r} occurs twice or has a type that is not allowed"
            )
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if start + size > len(data) - 32:
            raise SnapshotError("damaged: arrays are longer than the snapshot")
        try:
            arrays[name] = np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
        except ValueError as error:  # more or larger dimensions than numpy allows
            raise SnapshotError(f"array {name[:80]!r}: {error}") from error
        start += size
    if start != len(data) - 32:
        raise SnapshotError("damaged: bytes are left over")
    return arrays
