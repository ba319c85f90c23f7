"""`Snapshot` ⇄ bytes: everything a learner needs to go on, in a versioned format that runs no code on loading.

Layout, little-endian: magic with the version (8 bytes), length of the header (8), header (canonical JSON), the raw
arrays in the header's order, SHA-256 of all that (32). Names of arrays are part of the format. A snapshot is whole, or
a delta: then the arrays named by `sliced` hold only the values at `slots`, to be set in the snapshot before it, and
`names` what is to be appended to those before.
"""

import hashlib
import math
import struct
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from learners.state import arrays_digest
from service.errors import Protective
from service.lineage import Count, Lineage, Text
from service.sources.contract import Bookmark

MAGIC = b"ONEPASS2"
OLDER = b"ONEPASS1"
"""Without marks, lineage and deltas; what it has is read as it is."""
DTYPES = {"<f8", "<i8", "|u1"}
LONGEST_HEADER = 64 * 1024 * 1024
SLOTS = "slots"
NAMES = "names"
"""Names of slots, as lines; a delta has those that came since the snapshot before it."""
ALARMS = "alarms"
"""The newest alarms, as JSON."""
COUNTS = ("progress/events", "progress/errors")
"""Arrays that every snapshot has, of one number each: never below 0, nor more errors than events."""


class BadSnapshot(ValueError):
    """Bytes that are not a whole snapshot of a version we know."""


class Unwritable(Protective):
    """A snapshot that could be written but never read again; no checkpoint at all is better."""


class Snapshot(NamedTuple):
    """A model at one moment of the log."""

    model: dict[str, Any]
    """What it was made with: learner, features, label."""
    classes: list[str]
    bookmark: Bookmark
    """Next position per partition: exactly the records before these have been applied."""
    lineage: Lineage
    rejects: dict[str, int]
    state_digest: str | None
    """Of the learner's state; None in a delta, which does not have it all."""
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
        """Of those, predicted wrongly before they were learned."""
        return int(self.arrays["progress/errors"][0])

    def digested(self) -> "Snapshot":
        """With the digest of its state, where it has the whole state and no digest yet."""
        if not self.whole or self.state_digest is not None:
            return self
        state = {name.removeprefix("state/"): array for name, array in self.arrays.items() if name.startswith("state/")}
        return self._replace(state_digest=arrays_digest(state))


class Encoded(NamedTuple):
    """A snapshot as bytes, still in the memory that its arrays have."""

    buffers: list[memoryview]
    size: int
    sha256: str


def encode(snapshot: Snapshot) -> Encoded:
    """Refuses a header that `decode` would refuse."""
    fields = snapshot._asdict() | {
        "bookmark": snapshot.bookmark._asdict(),
        "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in snapshot.arrays.items()],
    }
    head = msgspec.json.encode(fields, order="deterministic")
    try:
        _header(head, older=False)
    except BadSnapshot as error:
        raise Unwritable(f"a checkpoint that nobody could read is not written: {error}") from error
    buffers = [memoryview(MAGIC + struct.pack("<Q", len(head)) + head)]
    buffers += [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in snapshot.arrays.values()]
    digest = hashlib.sha256()
    for buffer in buffers:
        digest.update(buffer)
    buffers.append(memoryview(digest.digest()))
    return Encoded(buffers, sum(map(len, buffers)), digest.hexdigest())


def decode(data: bytes) -> Snapshot:
    """Refuses anything but a whole, unchanged snapshot; lengths are checked before memory is taken."""
    if data[:7] != MAGIC[:7]:
        raise BadSnapshot("not a onepass snapshot")
    if data[:8] not in {MAGIC, OLDER}:
        raise BadSnapshot(f"snapshot format {data[7:8]!r} is not known to this version")
    if len(data) < 48 or hashlib.sha256(memoryview(data)[:-32]).digest() != data[-32:]:
        raise BadSnapshot("damaged: the checksum does not fit")
    (length,) = struct.unpack("<Q", data[8:16])
    if length > len(data) - 48:
        raise BadSnapshot("damaged: the header is longer than the snapshot")
    header = _header(data[16 : 16 + length], older=data[:8] == OLDER)
    arrays = _arrays(header.arrays, data, 16 + length)
    missing = {*COUNTS, *header.sliced} - arrays.keys()
    if missing or SLOTS in header.sliced or (header.sliced and SLOTS not in arrays):
        raise BadSnapshot("header: an array is missing")
    if any(arrays[name].shape != (1,) or arrays[name].dtype != np.int64 for name in COUNTS):
        raise BadSnapshot("header: a count is of another shape or type")
    events, errors = (int(arrays[name][0]) for name in COUNTS)
    if not 0 <= errors <= events:
        raise BadSnapshot(f"{errors:,} errors in {events:,} events cannot be")
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
    """What `delta` says on top of `earlier`, whose writable arrays are used up."""
    if delta.whole or not earlier.whole:
        raise BadSnapshot("a delta follows a whole snapshot")
    slots = delta.arrays[SLOTS]
    arrays = {name: array for name, array in delta.arrays.items() if name != SLOTS}
    if earlier.arrays.keys() != arrays.keys():
        raise BadSnapshot("a delta has other arrays than what it builds on")
    for name in delta.sliced:
        kept = earlier.arrays[name]
        if kept.dtype != arrays[name].dtype:
            raise BadSnapshot(f"array {name} of a delta is of another type than what it builds on")
        target = kept if kept.flags.writeable else kept.copy()
        try:
            target[..., slots] = arrays[name]
        except (IndexError, ValueError) as error:
            raise BadSnapshot(f"array {name} of a delta does not fit: {error}") from error
        arrays[name] = target
    if NAMES in arrays:
        both = earlier.arrays[NAMES], arrays[NAMES]
        if any(names.dtype != np.uint8 or names.ndim != 1 for names in both):
            raise BadSnapshot("names are of another type or shape")
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


def _header(head: bytes, *, older: bool) -> _Header:
    if len(head) > LONGEST_HEADER:
        raise BadSnapshot(f"a header of {len(head):,} bytes; no more than {LONGEST_HEADER:,} are read")
    try:
        if not older:
            return msgspec.json.decode(head, type=_Header)
        old = msgspec.json.decode(head, type=_OlderHeader)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSnapshot(f"header: {error}") from error
    bookmark = _Bookmark(old.positions, {})
    return _Header(old.model, old.classes, bookmark, Lineage(), old.rejects, old.state_digest, old.arrays, ())


def _arrays(table: list[tuple[str, str, list[int]]], data: bytes, start: int) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype, shape in table:
        if dtype not in DTYPES or any(extent < 0 for extent in shape) or name in arrays:
            raise BadSnapshot(f"array {name[:80]!r} is there twice or of a type that is not allowed")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if start + size > len(data) - 32:
            raise BadSnapshot("damaged: arrays are longer than the snapshot")
        try:
            arrays[name] = np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
        except ValueError as error:  # more dimensions or larger ones than numpy has
            raise BadSnapshot(f"array {name[:80]!r}: {error}") from error
        start += size
    if start != len(data) - 32:
        raise BadSnapshot("damaged: bytes are left over")
    return arrays
