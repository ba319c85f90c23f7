"""Parts put together to a snapshot, remembering the last one: whoever follows a chain of deltas reads only the new."""

from collections.abc import Callable

from service.checkpoints import Part
from service.snapshot import BadSnapshot, Snapshot, decode, merge


class Reader:
    """Invariant: an array that was handed out never changes; it is read-only, so `merge` copies it."""

    def __init__(self, fetch: Callable[[Part], bytes]) -> None:
        self._fetch = fetch
        self._last: tuple[tuple[Part, ...], Snapshot] | None = None

    def read(self, parts: tuple[Part, ...]) -> Snapshot:
        snapshot: Snapshot | None = None
        rest = parts
        if self._last is not None and parts[: len(self._last[0])] == self._last[0]:
            snapshot, rest = self._last[1], parts[len(self._last[0]) :]
        for part in rest:
            piece = self._checked(part)
            snapshot = piece if snapshot is None else merge(snapshot, piece)
        if snapshot is None or not snapshot.whole:
            raise BadSnapshot("there is no whole snapshot at its base")
        for array in snapshot.arrays.values():
            array.flags.writeable = False
        self._last = parts, snapshot
        return snapshot

    def _checked(self, part: Part) -> Snapshot:
        data = self._fetch(part)
        if len(data) != part.size:
            raise BadSnapshot(f"{part.blob} has {len(data)} bytes instead of {part.size}")
        piece = decode(data)
        if data[-32:].hex() != part.sha256:  # decode found that this is what the bytes hash to
            raise BadSnapshot(f"{part.blob} is a whole snapshot, but another one")
        return piece
