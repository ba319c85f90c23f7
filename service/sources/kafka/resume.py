"""Decide where to resume in each partition of a Kafka topic: at the bookmark, or elsewhere with a
recorded gap.

`resolve_positions` is a pure function of the bookmark and of what the broker says, so both clients
decide alike. An anchor describes the record before a position. `changed_anchors` reads these
records again with a separate client, to see whether the log still has the past that was learned.
"""

import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Literal, NamedTuple

from service.sources.base import Gap, Loss, SourceLostError, SourceUnavailableError
from service.sources.kafka.client import (
    BadBatchError,
    Bounds,
    Client,
    Message,
    PositionOutOfRangeError,
)

ANCHOR_SECONDS = 10.0
"""Seconds to read the anchors' records again."""

REMEDY = "set source.on_data_loss to earliest or latest to go on with the gap recorded"


class TopicState(NamedTuple):
    """What the broker says of the topic now."""

    identity: str
    bounds: Mapping[int, Bounds]
    """Offsets of each partition to read."""
    changed: frozenset[int]
    """Partitions with another record at the anchor's offset."""


def resolve_positions(
    topic: str,
    wanted: Mapping[int, int],
    identity: str,
    state: TopicState,
    on_data_loss: Literal["fail", "earliest", "latest"],
) -> tuple[dict[int, int], list[Gap]]:
    """Return the position to resume at in each partition of `state`, and the gaps.

    `wanted` and `identity` are the bookmark's. With `fail` a gap raises `SourceLostError`.
    """
    recreated = not same_topic(identity, state.identity)
    positions: dict[int, int] = {}
    gaps: list[Gap] = []
    for partition, at in sorted(wanted.items()):
        bounds = state.bounds.get(partition)
        changed = partition in state.changed
        reason = _loss(at, bounds, recreated=recreated, known=bool(identity), changed=changed)
        if reason is None:
            positions[partition] = at
            continue
        if on_data_loss == "fail":
            raise SourceLostError(_message(topic, partition, at, bounds, reason))
        if bounds is None:  # the topic was recreated with fewer partitions
            gaps.append(Gap(str(partition), str(at), str(at), 0, reason))
            continue
        positions[partition] = bounds.first if on_data_loss == "earliest" else bounds.last
        skipped = 0 if reason == "recreated" else max(0, positions[partition] - at)
        gaps.append(Gap(str(partition), str(at), str(positions[partition]), skipped, reason))
    for partition, bounds in state.bounds.items():
        positions.setdefault(partition, bounds.last if on_data_loss == "latest" else bounds.first)
    return positions, gaps


def changed_anchors(
    connect: Callable[[], Client], anchors: Mapping[int, str], bounds: Mapping[int, Bounds]
) -> frozenset[int]:
    """Return the partitions with another record at the anchor's offset.

    A record that is no longer there shows nothing.
    """
    waiting: dict[int, int] = {}
    for partition, anchor in anchors.items():
        offset = anchor_offset(anchor)
        held = bounds.get(partition)
        if offset is not None and held is not None and held.first <= offset < held.last:
            waiting[partition] = offset
    if not waiting:
        return frozenset()
    with closing(connect()) as client:
        try:
            return _compare(client, anchors, waiting)
        except (BadBatchError, PositionOutOfRangeError):
            return frozenset()  # deleted or unreadable by now: treated as gone


def make_anchor(message: Message) -> str:
    """Describe the record before a position by its offset, time and checksum."""
    checksum = zlib.crc32(message.value or b"", zlib.crc32(message.key or b""))
    return f"{message.offset}:{message.timestamp}:{checksum}"


def anchor_offset(anchor: str) -> int | None:
    offset = anchor.partition(":")[0]
    return int(offset) if offset.isdecimal() else None


def same_topic(mine: str, theirs: str) -> bool:
    """Whether two identities of the form cluster/topic-id may be of the same topic.

    An unknown part is empty and matches anything.
    """
    pairs = zip(mine.split("/"), theirs.split("/"), strict=False)
    return all(one == other or not one or not other for one, other in pairs)


def merge_identities(mine: str, theirs: str) -> str:
    """Return the newer identity, with parts that it lacks from the older one of the same topic."""
    if not mine or not same_topic(mine, theirs):
        return theirs
    return "/".join(
        new or old for old, new in zip(mine.split("/"), theirs.split("/"), strict=False)
    )


def _loss(
    at: int, bounds: Bounds | None, *, recreated: bool, known: bool, changed: bool
) -> Loss | None:
    if recreated or bounds is None:
        return "recreated"
    if at > bounds.last:
        return "truncated"
    if at < bounds.first:
        return "retention"
    if changed:  # the same topic with another past: its end was cut off and it has grown again
        return "truncated" if known else "recreated"
    return None


def _message(topic: str, partition: int, at: int, bounds: Bounds | None, reason: Loss) -> str:
    held = "no such partition" if bounds is None else f"{bounds.first} to {bounds.last}"
    why = {
        "retention": "what follows the checkpoint was deleted",
        "truncated": "its end was cut off",
        "recreated": "it is another topic than the one that was read",
        "corrupt": "",
    }[reason]
    return f"topic {topic} partition {partition}: wanted {at}, it holds {held}: {why}; {REMEDY}"


def _compare(client: Client, anchors: Mapping[int, str], waiting: dict[int, int]) -> frozenset[int]:
    changed: set[int] = set()
    deadline = time.monotonic() + ANCHOR_SECONDS
    client.read(waiting)
    while waiting:
        if time.monotonic() > deadline:
            raise SourceUnavailableError("the record before the checkpoint cannot be read again")
        messages, passed = client.poll(0.2, 1)  # only one: the next may be unreadable
        for message in messages:
            if (
                message.offset == waiting.get(message.partition)
                and make_anchor(message) != anchors[message.partition]
            ):
                changed.add(message.partition)
        done = {message.partition for message in messages}
        done |= {partition for partition, at in passed.items() if at > waiting.get(partition, at)}
        client.pause(done)
        waiting = {
            partition: offset for partition, offset in waiting.items() if partition not in done
        }
    return frozenset(changed)
