"""What was applied, in which order: the part of a checkpoint from which the model can be built again from the log.

Several partitions interleave by the timing of fetches, so two honest runs differ; the order taken is written down as
runs of consecutive records. Work after the last checkpoint is lost in a crash, so the runs are exactly the surviving
history. The newest entries travel in the checkpoint itself; older ones are sealed into segments, named by their
SHA-256 and linked backwards, which are written once and shared by every later generation.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated

import msgspec

from service.sources.contract import Gap, Record

SEALED_AFTER = 4096
"""Entries that travel in the checkpoint at most."""
LONGEST_SEGMENT = 64 * 1024 * 1024
LONGEST_TEXT = 1000
NONE: Mapping[str, bytes] = {}

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
"""A position, a mark or a name, as far as anybody reads it."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
SegmentName = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
"""Empty where there is none."""


class Run(msgspec.Struct, frozen=True, array_like=True, tag="run"):
    """Consecutive records of one partition, rejected ones included."""

    partition: Text
    start: Text
    """Where to seek to read them."""
    end: Text
    records: Count


class Lost(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """A stretch that was passed over, by policy or by an operator's word."""

    partition: Text
    start: Text
    end: Text
    events: Count
    reason: Text


class Frozen(msgspec.Struct, frozen=True, array_like=True, tag="frozen"):
    """Learning was held after this generation."""

    generation: Count
    since: float
    until: float


class Rolled(msgspec.Struct, frozen=True, array_like=True, tag="rolled"):
    """An operator went back: what follows was learned on the state of an earlier generation."""

    back_to: Count
    newest: Count
    """The generation left behind."""
    at: float


Entry = Run | Lost | Frozen | Rolled


class Lineage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """History up to one checkpoint."""

    sealed: SegmentName = ""
    """The newest sealed segment."""
    checksum: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] = 0
    """CRC-32 over the bytes of every applied record, in order."""
    entries: tuple[Entry, ...] = ()


class Broken(ValueError):
    """A segment of the history that is not what its name says, or is not there."""


class Recorder:
    """The history as it is made, between two events always complete."""

    def __init__(self, lineage: Lineage, segments: Mapping[str, bytes] = NONE) -> None:
        self._sealed = lineage.sealed
        self._checksum = lineage.checksum
        self._entries: list[Entry] = list(lineage.entries)
        self._ends: dict[str, str] = {}
        self._segments = dict(segments)

    def starts(self, positions: Mapping[str, str]) -> None:
        """Partitions that are seen for the first time begin here."""
        self._ends = {**positions, **self._ends}

    def applied(self, records: Iterable[Record]) -> None:
        checksum, partition, after, count = self._checksum, "", "", 0
        for record in records:
            checksum = zlib.crc32(record.value, checksum)
            if record.partition != partition:
                self._ran(partition, after, count)
                partition, count = record.partition, 0
                self._ends.setdefault(partition, record.position)
            after = record.after
            count += 1
        self._ran(partition, after, count)
        self._checksum = checksum

    def _ran(self, partition: str, end: str, records: int) -> None:
        if not records:
            return
        start, self._ends[partition] = self._ends[partition], end
        last = self._entries[-1] if self._entries else None
        if isinstance(last, Run) and (last.partition, last.end) == (partition, start):
            self._entries[-1] = Run(partition, last.start, end, last.records + records)
        else:
            self._entries.append(Run(partition, start, end, records))

    def lost(self, gap: Gap) -> None:
        self._ends[gap.partition] = gap.end
        self._entries.append(Lost(gap.partition, gap.start, gap.end, gap.events, gap.reason))

    def note(self, entry: Frozen | Rolled | Lost) -> None:
        """An operator's word; it moves no position of ours."""
        self._entries.append(entry)

    def lineage(self) -> tuple[Lineage, dict[str, bytes]]:
        """The history now, and the segments that no checkpoint has brought to the store yet."""
        while len(self._entries) > SEALED_AFTER:
            sealed = zlib.compress(msgspec.json.encode([self._sealed, self._entries[:SEALED_AFTER]]))
            self._sealed = hashlib.sha256(sealed).hexdigest()
            self._segments[self._sealed] = sealed
            self._entries = self._entries[SEALED_AFTER:]
        return Lineage(self._sealed, self._checksum, tuple(self._entries)), dict(self._segments)

    def owes(self, segments: Mapping[str, bytes]) -> None:
        """The store has lost these: the next checkpoint brings them again."""
        self._segments = {**segments, **self._segments}

    def stored(self, segments: Iterable[str]) -> None:
        """These segments are in the store."""
        for name in segments:
            self._segments.pop(name, None)


def history(lineage: Lineage, fetch: Callable[[str], bytes | None]) -> Iterator[Entry]:
    """Every entry from the first on; `fetch` brings a sealed segment by its name."""
    for name, segment in reversed(list(_backwards(lineage, fetch))):
        yield from _opened(name, segment)[1]
    yield from lineage.entries


def segments_of(
    lineage: Lineage, fetch: Callable[[str], bytes | None], known: Callable[[str], bool] = lambda _: False
) -> dict[str, bytes]:
    """The sealed segments, newest first, back to one that is known or as far as they can be had.

    An old one that is gone keeps nobody from learning on.
    """
    return gathered(lineage, lambda name: None if known(name) else fetch(name))[0]


def gathered(lineage: Lineage, fetch: Callable[[str], bytes | None]) -> tuple[dict[str, bytes], str]:
    """The sealed segments, newest first, and why they do not reach back to the first event; empty if they do."""
    segments: dict[str, bytes] = {}
    try:
        segments.update(_backwards(lineage, fetch))
    except Broken as error:
        return segments, str(error)
    return segments, ""


def _backwards(lineage: Lineage, fetch: Callable[[str], bytes | None]) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the sealed segments, newest first."""
    name = lineage.sealed
    while name:
        segment = fetch(name)
        if segment is None:
            raise Broken(f"segment {name[:12]} of the history is not there")
        earlier, _ = _opened(name, segment)
        yield name, segment
        name = earlier


def _opened(name: str, segment: bytes) -> tuple[str, list[Entry]]:
    if hashlib.sha256(segment).hexdigest() != name:
        raise Broken(f"segment {name[:12]} of the history is damaged")
    try:
        plain = zlib.decompressobj().decompress(segment, LONGEST_SEGMENT)
        return msgspec.json.decode(plain, type=tuple[SegmentName, list[Entry]])
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Broken(f"segment {name[:12]} of the history is not one: {error}") from error
