"""Cut a snapshot's bytes into chunks of at most 1 MiB, and read them back.

A longer value would block Redis, and with it the renewal of every lease.
"""

from collections.abc import Callable, Iterable, Iterator

from service.checkpoint.snapshot import Snapshot, SnapshotError, decode, merge
from service.checkpoint.store import Part

CHUNK_BYTES = 1024 * 1024
MAX_CHUNKS = 65_536
"""Chunks of one part. No snapshot has more, so a larger size in a manifest means damage."""


def cut(buffers: Iterable[memoryview]) -> Iterator[bytes | memoryview]:
    """Yield chunks of exactly `CHUNK_BYTES` bytes, the last one shorter.

    A chunk is copied only if it spans two buffers.
    """
    pieces: list[memoryview] = []
    missing = CHUNK_BYTES
    for buffer in buffers:
        rest = buffer
        while len(rest):
            pieces.append(rest[:missing])
            rest = rest[missing:]
            missing -= len(pieces[-1])
            if not missing:
                yield _join(pieces)
                pieces, missing = [], CHUNK_BYTES
    if pieces:
        yield _join(pieces)


def chunk_keys(part: Part) -> list[str]:
    """Name the chunks of a part. A part of an impossible size has no chunks."""
    chunks = -(-part.size // CHUNK_BYTES)
    return [f"{part.blob}:{number}" for number in range(chunks)] if 0 < chunks <= MAX_CHUNKS else []


def chunk_sizes(part: Part) -> list[int]:
    """Bytes of each chunk of a part, in the order of `chunk_keys`."""
    chunks = len(chunk_keys(part))
    last = part.size - CHUNK_BYTES * (chunks - 1)
    return [CHUNK_BYTES] * (chunks - 1) + [last] if chunks else []


class SnapshotReader:
    """Reads snapshots from their parts. It reads only the new deltas of a chain that it knows.

    Invariant: an array that the reader returned never changes. It is read-only, so `merge` copies
    it.
    """

    def __init__(self, fetch: Callable[[Part], bytes]) -> None:
        self._fetch = fetch
        self._last: tuple[tuple[Part, ...], Snapshot] | None = None

    def read(self, parts: tuple[Part, ...]) -> Snapshot:
        snapshot: Snapshot | None = None
        rest = parts
        if self._last is not None and parts[: len(self._last[0])] == self._last[0]:
            snapshot, rest = self._last[1], parts[len(self._last[0]) :]
        for part in rest:
            piece = self._fetch_part(part)
            snapshot = piece if snapshot is None else merge(snapshot, piece)
        if snapshot is None or not snapshot.whole:
            raise SnapshotError("its chain does not begin with a whole snapshot")
        for array in snapshot.arrays.values():
            array.flags.writeable = False
        self._last = parts, snapshot
        return snapshot

    def _fetch_part(self, part: Part) -> Snapshot:
        data = self._fetch(part)
        if len(data) != part.size:
            raise SnapshotError(f"{part.blob} has {len(data)} bytes instead of {part.size}")
        piece = decode(data)
        if data[-32:].hex() != part.sha256:  # `decode` has checked that the bytes have this hash
            raise SnapshotError(f"{part.blob} is not the snapshot that its manifest names")
        return piece


def _join(pieces: list[memoryview]) -> bytes | memoryview:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
