"""A Kafka topic as a log, whichever client library reads it: partitions assigned by hand, positions kept by us.

`_next` holds, per partition, the first offset not yet delivered; a client is disposable. Whatever goes wrong in it, it
is thrown away and the next call makes another one, which is checked against the bookmark before it reads, so no record
is skipped or repeated. No error leaves here but `SourceDown` and `SourceLost`.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Literal

from service.sources.contract import BEGINNING, Bookmark, Gap, Options, Positions, Record, SourceDown, SourceLost
from service.sources.kafka_anchors import strangers
from service.sources.kafka_client import BadBatch, Client, OutOfRange
from service.sources.kafka_commits import Commits
from service.sources.kafka_place import REMEDY, Bounds, Message, Seen, known_of, mark, place, same_topic

_log = logging.getLogger(__name__)


class KafkaLog:
    """All partitions of one topic, in order within each."""

    def __init__(
        self,
        topic: str,
        start: Literal["earliest", "latest"],
        options: Options,
        connect: Callable[[], Client],
        commits: Commits | None,
    ) -> None:
        self._topic = topic
        self._start = start
        self._options = options
        self._connect = connect
        self._commits = commits
        self._client: Client | None = None
        self._gaps: list[Gap] = []
        self.seek(BEGINNING)

    def seek(self, bookmark: Bookmark) -> None:
        self._drop()  # and with it what it has fetched and which partitions rest
        positions = bookmark.positions
        if not all(part.isdecimal() for part in (*positions, *positions.values())):
            raise SourceLost(f"topic {self._topic}: the positions are not offsets of partitions")
        self._next = {int(partition): int(at) for partition, at in positions.items() if self._concerns(int(partition))}
        self._fresh = not positions
        kept = {"", *map(str, self._next)}
        self._marks = {key: text for key, text in bookmark.marks.items() if key in kept}
        self._last: dict[int, Message] = {}
        self._end: dict[int, int] | None = None
        self._gaps = []
        self._open()

    def until_end(self, end: Positions | None = None) -> Positions:
        client = self._open()
        bounds = self._bounds(client)
        if end is None:
            self._end = {partition: bounds[partition].last for partition in self._next}
        else:  # a partition that is younger than the end has nothing before it
            self._end = {partition: int(end.get(str(partition), at)) for partition, at in self._next.items()}
            self._end = {n: self._reachable(n, at, bounds[n]) for n, at in self._end.items()}
        self._rest_at_end(client)
        return {str(partition): str(at) for partition, at in self._end.items()}

    @property
    def exhausted(self) -> bool:
        return self._end is not None and all(self._next[partition] >= end for partition, end in self._end.items())

    def poll(self, seconds: float, most: int) -> list[Record]:
        if self.exhausted:
            return []
        client = self._open()
        try:
            messages, passed = client.poll(seconds, most)
            changed = self._changed(client)
        except OutOfRange as error:
            self._drop()
            told = len(self._gaps)
            self._open()
            if len(self._gaps) == told:  # the offset is there after all
                raise SourceDown(f"topic {self._topic}: {error}") from error
            return []
        except BadBatch as error:
            self._drop()
            self._pass_over(error)
            return []
        except BaseException:
            self._drop()
            raise
        if changed:  # what was polled may be of another topic and is not delivered
            self._drop()
            self._open()
            return []
        # Nothing may fail from here on: `_next` moves, so these records must reach the caller.
        records = self._deliver(messages)
        for partition, at in passed.items():  # over offsets without a record for us: transaction marks, compaction
            self._move(partition, at)
        self._rest_at_end(client)
        return records

    def bookmark(self) -> Bookmark:
        marks = self._marks | {str(partition): mark(message) for partition, message in self._last.items()}
        return Bookmark({str(partition): str(at) for partition, at in self._next.items()}, marks)

    def gaps(self) -> list[Gap]:
        gaps, self._gaps = self._gaps, []
        return gaps

    def settled(self, positions: Positions) -> None:
        if self._commits is not None:
            self._commits.offer({int(partition): int(at) for partition, at in positions.items()})

    def lag(self) -> dict[str, int]:
        client = self._open()
        if self._changed(client):
            self._drop()
            client = self._open()
        bounds = self._bounds(client)
        return {str(partition): max(0, bounds[partition].last - at) for partition, at in self._next.items()}

    def close(self) -> None:
        self._drop()
        if self._commits is not None:
            self._commits.close()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> Client:
        """The client, checked against the bookmark and standing at `_next`; a new one when the last was dropped."""
        if self._client is None:
            self._client = self._connect()
            try:
                self._place(self._client)
            except BaseException:
                self._drop()
                raise
        return self._client

    def _place(self, client: Client) -> None:
        numbers = {number for number in client.partitions() if self._concerns(number)}
        if not numbers and self._options.only is not None:
            raise SourceLost(f"topic {self._topic}: it has no partition {self._options.only}")
        if not numbers:
            raise SourceDown(f"topic {self._topic} has no partitions now")
        if self._end is not None:  # a partition that came later has nothing before the end
            numbers &= self._end.keys()
        bounds = client.bounds(numbers)
        identity = client.identity()
        if self._fresh:
            self._next = {n: bounds[n].first if self._start == "earliest" else bounds[n].last for n in sorted(numbers)}
            self._fresh = False
        else:
            self._go_on(numbers, Seen(identity, bounds, strangers(self._connect, self._anchors(), bounds)))
        self._marks[""] = known_of(self._marks.get("", ""), identity)
        client.read(self._next)
        self._rest_at_end(client)

    def _bounds(self, client: Client) -> dict[int, Bounds]:
        try:
            return client.bounds(set(self._next))
        except BaseException:
            self._drop()
            raise

    def _anchors(self) -> dict[int, str]:
        return {int(partition): anchor for partition, anchor in self.bookmark().marks.items() if partition}

    def _go_on(self, numbers: set[int], seen: Seen) -> None:
        known = self._marks.get("", "")
        if same_topic(known, seen.identity):
            self._next |= dict.fromkeys(sorted(numbers - self._next.keys()), 0)  # all of a new one is unseen
        self._next, gaps = place(self._topic, self._next, known, seen, self._options.on_lost)
        for gap in gaps:
            self._record(gap)
            self._marks.pop(gap.partition, None)
            self._last.pop(int(gap.partition), None)
        if self._end is not None:
            self._end = {n: self._reachable(n, end, seen.bounds[n]) for n, end in self._end.items() if n in self._next}

    def _reachable(self, partition: int, end: int, bounds: Bounds) -> int:
        """The end that was set, which a log that was cut back since has no longer."""
        if end <= bounds.last:
            return end
        if self._options.on_lost == "fail":
            cut = f"the end was {end} and is {bounds.last} now: it was cut off"
            raise SourceLost(f"topic {self._topic} partition {partition}: {cut}; {REMEDY}")
        self._record(Gap(str(partition), str(bounds.last), str(end), end - bounds.last, "truncated"))
        return bounds.last

    def _pass_over(self, error: BadBatch) -> None:
        if error.where is None:
            raise SourceDown(f"topic {self._topic} cannot be read: {error}") from error
        partition, start, end = error.where
        if self._options.on_lost == "fail":
            bad = f"the batch at offset {start} cannot be read ({error})"
            raise SourceLost(f"topic {self._topic} partition {partition}: {bad}; {REMEDY}") from error
        self._record(Gap(str(partition), str(start), str(end), end - start, "corrupt"))
        self._move(partition, end)

    def _record(self, gap: Gap) -> None:
        self._gaps.append(gap)

    def _changed(self, client: Client) -> bool:
        """Whether the topic is another one, or has a partition that is not read yet."""
        if not same_topic(self._marks[""], client.identity()):
            return True
        return self._end is None and any(n not in self._next and self._concerns(n) for n in client.partitions())

    def _concerns(self, partition: int) -> bool:
        return self._options.only is None or str(partition) == self._options.only

    def _deliver(self, messages: Iterable[Message]) -> list[Record]:
        records = []
        for message in messages:
            partition, offset = message.partition, message.offset
            if offset < self._next.get(partition, offset + 1):
                continue
            if self._end is not None and offset >= self._end[partition]:
                self._move(partition, offset)
                continue
            self._next[partition] = offset + 1
            self._last[partition] = message
            written = message.timestamp / 1000.0 if message.timestamp > 0 else None
            records.append(Record(str(partition), str(offset), str(offset + 1), message.value or b"", written))
        return records

    def _move(self, partition: int, at: int) -> None:
        """On to `at`, never back and never beyond the end that was set."""
        end = at if self._end is None else self._end.get(partition, 0)
        self._next[partition] = max(self._next[partition], min(at, end))

    def _rest_at_end(self, client: Client) -> None:
        """Fetch no more of a partition that is at the end set by `until_end`."""
        if self._end is not None:
            client.rest({partition for partition, end in self._end.items() if self._next[partition] >= end})
