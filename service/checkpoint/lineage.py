"""Lineage: which records were applied, in which order. With it the log rebuilds the same model.

The timing of fetches decides how partitions interleave, so two correct runs differ. The lineage
records the actual order as runs of consecutive records. A crash loses all records applied after the
last checkpoint, so the lineage in a checkpoint is exactly the history of its state. The checkpoint
itself holds the newest entries. Older entries are sealed into segments. A segment has its SHA-256
as its name and refers to the segment before it. It is written once, and all later generations
share it.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated

import msgspec

from service.sources.base import Gap, Record

SEALED_AFTER = 4096
"""Maximum number of entries that a checkpoint itself holds."""
LONGEST_SEGMENT = 64 * 1024 * 1024
"""Bytes of a segment after decompression."""
LONGEST_TEXT = 1000
"""Characters of a position, a mark or a name."""
NONE: Mapping[str, bytes] = {}

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
"""A position, a mark or a name."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
SegmentName = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
"""SHA-256 in hexadecimal, or empty if there is no segment."""


class Run(msgspec.Struct, frozen=True, array_like=True, tag="run"):
    """Consecutive records of one partition, rejected ones included."""

    partition: Text
    start: Text
    """The position from which to read them."""
    end: Text
    records: Count


class Lost(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """Events that were skipped by policy or by an operator."""

    partition: Text
    start: Text
    end: Text
    events: Count
    reason: Text


class Frozen(msgspec.Struct, frozen=True, array_like=True, tag="frozen"):
    """An operator had frozen learning after this generation."""

    generation: Count
    since: float
    until: float


class Rolled(msgspec.Struct, frozen=True, array_like=True, tag="rolled"):
    """An operator rolled back. Later entries were learned on the state of an earlier generation."""

    back_to: Count
    newest: Count
    """The newest generation before the rollback."""
    at: float


Entry = Run | Lost | Frozen | Rolled


class Lineage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lineage of one checkpoint."""

    sealed: SegmentName = ""
    """Name of the newest segment."""
    checksum: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] = 0
    """CRC-32 over the bytes of every applied record, in order."""
    entries: tuple[Entry, ...] = ()


class LineageError(ValueError):
    """A segment of the lineage is missing or damaged."""


class Recorder:
    """Records the lineage while events are applied. Between two events it is always complete."""

    def __init__(self, lineage: Lineage, segments: Mapping[str, bytes] = NONE) -> None:
        self._sealed = lineage.sealed
        self._checksum = lineage.checksum
        self._entries: list[Entry] = list(lineage.entries)
        self._ends: dict[str, str] = {}
        self._segments = dict(segments)

    def set_starts(self, positions: Mapping[str, str]) -> None:
        """Set where partitions begin that the recorder has not seen before."""
        self._ends = {**positions, **self._ends}

    def record_applied(self, records: Iterable[Record]) -> None:
        """Add applied records in order."""
        checksum, partition, after, count = self._checksum, "", "", 0
        for record in records:
            checksum = zlib.crc32(record.value, checksum)
            if record.partition != partition:
                self._append_run(partition, after, count)
                partition, count = record.partition, 0
                self._ends.setdefault(partition, record.position)
            after = record.after
            count += 1
        self._append_run(partition, after, count)
        self._checksum = checksum

    def _append_run(self, partition: str, end: str, records: int) -> None:
        if not records:
            return
        start, self._ends[partition] = self._ends[partition], end
        last = self._entries[-1] if self._entries else None
        if isinstance(last, Run) and (last.partition, last.end) == (partition, start):
            self._entries[-1] = Run(partition, last.start, end, last.records + records)
        else:
            self._entries.append(Run(partition, start, end, records))

    def record_lost(self, gap: Gap) -> None:
        """Add a gap of the log. The next run of the partition begins at its end."""
        self._ends[gap.partition] = gap.end
        self._entries.append(Lost(gap.partition, gap.start, gap.end, gap.events, gap.reason))

    def note(self, entry: Frozen | Rolled | Lost) -> None:
        """Add an operator's action. It moves no position of this learner."""
        self._entries.append(entry)

    def lineage(self) -> tuple[Lineage, dict[str, bytes]]:
        """Return the lineage, and the segments that are not in the store yet."""
        while len(self._entries) > SEALED_AFTER:
            sealed = zlib.compress(
                msgspec.json.encode([self._sealed, self._entries[:SEALED_AFTER]])
            )
            self._sealed = hashlib.sha256(sealed).hexdigest()
            self._segments[self._sealed] = sealed
            self._entries = self._entries[SEALED_AFTER:]
        return Lineage(self._sealed, self._checksum, tuple(self._entries)), dict(self._segments)

    def add_segments(self, segments: Mapping[str, bytes]) -> None:
        """Add segments that the store has lost. The next checkpoint writes them again."""
        self._segments = {**segments, **self._segments}

    def mark_stored(self, segments: Iterable[str]) -> None:
        """Record that the store has these segments."""
        for name in segments:
            self._segments.pop(name, None)


def history(lineage: Lineage, fetch: Callable[[str], bytes | None]) -> Iterator[Entry]:
    """Yield all entries, oldest first. `fetch` reads a segment by its name."""
    for name, segment in reversed(list(_walk_back(lineage, fetch))):
        yield from _open_segment(name, segment)[1]
    yield from lineage.entries


def segments_of(
    lineage: Lineage,
    fetch: Callable[[str], bytes | None],
    known: Callable[[str], bool] = lambda _: False,
) -> dict[str, bytes]:
    """Collect segments, newest first, back to the first that is known or cannot be read.

    A missing old segment does not stop learning.
    """
    return gather_segments(lineage, lambda name: None if known(name) else fetch(name))[0]


def gather_segments(
    lineage: Lineage, fetch: Callable[[str], bytes | None]
) -> tuple[dict[str, bytes], str]:
    """Collect segments, newest first, and say why they do not reach the first event.

    The reason is empty if they do.
    """
    segments: dict[str, bytes] = {}
    try:
        segments.update(_walk_back(lineage, fetch))
    except LineageError as error:
        return segments, str(error)
    return segments, ""


def _walk_back(
    lineage: Lineage, fetch: Callable[[str], bytes | None]
) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of the segments, newest first."""
    name = lineage.sealed
    while name:
        segment = fetch(name)
        if segment is None:
            raise LineageError(f"segment {name[:12]} of the lineage is missing")
        earlier, _ = _open_segment(name, segment)
        yield name, segment
        name = earlier


def _open_segment(name: str, segment: bytes) -> tuple[str, list[Entry]]:
    if hashlib.sha256(segment).hexdigest() != name:
        raise LineageError(f"segment {name[:12]} of the lineage is damaged")
    try:
        plain = zlib.decompressobj().decompress(segment, LONGEST_SEGMENT)
        return msgspec.json.decode(plain, type=tuple[SegmentName, list[Entry]])
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LineageError(f"segment {name[:12]} of the lineage is invalid: {error}") from error
