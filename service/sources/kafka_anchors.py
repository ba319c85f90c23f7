"""Reads the records before the positions again, to see whether the log still has the past that was learned.

A client of its own: what it fetches is for the comparison alone.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import closing

from service.sources.contract import SourceDown
from service.sources.kafka_client import BadBatch, Client, OutOfRange
from service.sources.kafka_place import Bounds, mark, marked_offset

SECONDS = 10.0


def strangers(
    connect: Callable[[], Client], anchors: Mapping[int, str], bounds: Mapping[int, Bounds]
) -> frozenset[int]:
    """Partitions where another record lies at the anchor's offset; a record that is gone tells nothing."""
    waiting: dict[int, int] = {}
    for partition, anchor in anchors.items():
        offset = marked_offset(anchor)
        held = bounds.get(partition)
        if offset is not None and held is not None and held.first <= offset < held.last:
            waiting[partition] = offset
    if not waiting:
        return frozenset()
    with closing(connect()) as client:
        try:
            return _compare(client, anchors, waiting)
        except (BadBatch, OutOfRange):
            return frozenset()  # deleted or spoilt meanwhile: as good as gone


def _compare(client: Client, anchors: Mapping[int, str], waiting: dict[int, int]) -> frozenset[int]:
    strange: set[int] = set()
    deadline = time.monotonic() + SECONDS
    client.read(waiting)
    while waiting:
        if time.monotonic() > deadline:
            raise SourceDown("the record before the checkpoint cannot be read again")
        messages, passed = client.poll(0.2, 1)  # one: what lies behind it may be unreadable
        for message in messages:
            if message.offset == waiting.get(message.partition) and mark(message) != anchors[message.partition]:
                strange.add(message.partition)
        done = {message.partition for message in messages}
        done |= {partition for partition, at in passed.items() if at > waiting.get(partition, at)}
        client.rest(done)
        waiting = {partition: offset for partition, offset in waiting.items() if partition not in done}
    return frozenset(strange)
