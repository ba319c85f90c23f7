"""Decides where to go on in each partition of a Kafka topic: at the bookmark, or elsewhere with the gap told.

Pure: what the broker says comes in, positions and gaps come out, so both clients lose and go on in the same way.
"""

import zlib
from collections.abc import Mapping
from typing import Literal, NamedTuple

from service.sources.contract import Gap, Loss, SourceLost

REMEDY = "set source.on_lost to earliest or latest to go on with the gap recorded"


class Message(NamedTuple):
    """One record as a client hands it over."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Bounds(NamedTuple):
    """Offsets that a partition holds: from `first` up to, and not with, `last`."""

    first: int
    last: int


class Seen(NamedTuple):
    """What the broker says of the topic now."""

    identity: str
    bounds: Mapping[int, Bounds]
    """Per partition that is to be read."""
    strange: frozenset[int]
    """Partitions where another record lies at the anchor's offset."""


def mark(message: Message) -> str:
    """An anchor: the record before a position, as far as it can be recognised."""
    return f"{message.offset}:{message.timestamp}:{zlib.crc32(message.value or b'', zlib.crc32(message.key or b''))}"


def marked_offset(anchor: str) -> int | None:
    offset = anchor.partition(":")[0]
    return int(offset) if offset.isdecimal() else None


def same_topic(mine: str, theirs: str) -> bool:
    """Whether two marks of the form cluster/topic-id may be the same topic; what is not known differs from nothing."""
    pairs = zip(mine.split("/"), theirs.split("/"), strict=False)
    return all(one == other or not one or not other for one, other in pairs)


def known_of(mine: str, theirs: str) -> str:
    """The newer mark; what it does not tell of the same topic stays as it was known."""
    if not mine or not same_topic(mine, theirs):
        return theirs
    return "/".join(new or old for old, new in zip(mine.split("/"), theirs.split("/"), strict=False))


def place(
    topic: str,
    wanted: Mapping[int, int],
    identity: str,
    seen: Seen,
    on_lost: Literal["fail", "earliest", "latest"],
) -> tuple[dict[int, int], list[Gap]]:
    """Where to go on in each partition of `seen`, and what is passed over; `fail` raises instead of passing over."""
    recreated = not same_topic(identity, seen.identity)
    positions: dict[int, int] = {}
    gaps: list[Gap] = []
    for partition, at in sorted(wanted.items()):
        bounds = seen.bounds.get(partition)
        lost = _loss(at, bounds, recreated=recreated, known=bool(identity), strange=partition in seen.strange)
        if lost is None:
            positions[partition] = at
            continue
        if on_lost == "fail":
            raise SourceLost(_message(topic, partition, at, bounds, lost))
        if bounds is None:  # of a topic made anew with fewer partitions
            gaps.append(Gap(str(partition), str(at), str(at), 0, lost))
            continue
        positions[partition] = bounds.first if on_lost == "earliest" else bounds.last
        passed = 0 if lost == "recreated" else max(0, positions[partition] - at)
        gaps.append(Gap(str(partition), str(at), str(positions[partition]), passed, lost))
    for partition, bounds in seen.bounds.items():
        positions.setdefault(partition, bounds.last if on_lost == "latest" else bounds.first)
    return positions, gaps


def _loss(at: int, bounds: Bounds | None, *, recreated: bool, known: bool, strange: bool) -> Loss | None:
    if recreated or bounds is None:
        return "recreated"
    if at > bounds.last:
        return "truncated"
    if at < bounds.first:
        return "retention"
    if strange:  # the same topic with another past: its end was cut off and has grown again
        return "truncated" if known else "recreated"
    return None


def _message(topic: str, partition: int, at: int, bounds: Bounds | None, lost: Loss) -> str:
    held = "no such partition" if bounds is None else f"{bounds.first} to {bounds.last}"
    why = {
        "retention": "what follows the checkpoint was deleted",
        "truncated": "its end was cut off",
        "recreated": "it is another topic than the one that was read",
        "corrupt": "",
    }[lost]
    return f"topic {topic} partition {partition}: wanted {at}, it holds {held}: {why}; {REMEDY}"
