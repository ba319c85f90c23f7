"""A Kafka topic as a log, for either client library. It assigns partitions and keeps positions
itself.

`_next` holds, per partition, the first offset not yet delivered. A client is disposable: after any
error it is closed, and the next call makes another one. A new client is checked against the
bookmark before it reads, so no record is skipped or repeated. Only `SourceUnavailableError` and
`SourceLostError` leave this class.
"""

import gc
import logging
from collections.abc import Callable, Iterable
from typing import Literal

from service.sources.base import (
    BEGINNING,
    Bookmark,
    Gap,
    Options,
    Positions,
    Record,
    SourceLostError,
    SourceUnavailableError,
)
from service.sources.kafka.client import (
    BadBatchError,
    Bounds,
    Client,
    Message,
    PositionOutOfRangeError,
)
from service.sources.kafka.group_offsets import GroupOffsetPublisher
from service.sources.kafka.resume import (
    REMEDY,
    TopicState,
    changed_anchors,
    make_anchor,
    merge_identities,
    resolve_positions,
    same_topic,
)

_log = logging.getLogger(__name__)


class KafkaTopicSource:
    """All partitions of one topic, in order within each."""

    def __init__(
        self,
        topic: str,
        start: Literal["earliest", "latest"],
        options: Options,
        connect: Callable[[], Client],
        commits: GroupOffsetPublisher | None,
    ) -> None:
        self._topic = topic
        self._start = start
        self._options = options
        self._connect = connect
        self._commits = commits
        self._client: Client | None = None
        self._gaps: list[Gap] = []
        self._polled: list[Message] = []
        self._before: tuple[dict[int, int], dict[int, Message]] = {}, {}
        self.seek(BEGINNING)

    def seek(self, bookmark: Bookmark) -> None:
        self._drop()  # and with the client its fetched records and its paused partitions
        positions = bookmark.positions
        if not all(part.isdecimal() for part in (*positions, *positions.values())):
            raise SourceLostError(
                f"topic {self._topic}: the positions are not offsets of partitions"
            )
        self._next = {
            int(partition): int(at)
            for partition, at in positions.items()
            if self._concerns(int(partition))
        }
        self._fresh = not positions
        kept = {"", *map(str, self._next)}
        self._marks = {key: text for key, text in bookmark.marks.items() if key in kept}
        self._last: dict[int, Message] = {}
        self._end: dict[int, int] | None = None
        self._confirmed = False
        self._gaps = []
        self._open()

    def stop_at_end(self, end: Positions | None = None) -> Positions:
        client = self._open()
        bounds = self._bounds(client)
        if end is None:
            self._end = {partition: bounds[partition].last for partition in self._next}
        else:  # a partition that is younger than the end has nothing before it
            self._end = {
                partition: int(end.get(str(partition), at)) for partition, at in self._next.items()
            }
            self._end = {n: self._reachable(n, at, bounds[n]) for n, at in self._end.items()}
        self._pause_at_end(client)
        self._confirmed = self._at_end()
        return {str(partition): str(at) for partition, at in self._end.items()}

    @property
    def at_end(self) -> bool:
        return self._confirmed and self._at_end()

    def poll(self, seconds: float, most: int) -> list[Record]:
        self._polled = []  # before more is fetched: large records must not add up
        self._before = {}, {}
        if self.at_end:
            return []
        if self._at_end():
            return self._confirm_end()
        gaps = len(self._gaps)
        client = self._open()
        if len(self._gaps) > gaps:  # the caller records the gap before the records behind it
            return []
        try:
            messages, passed = client.poll(seconds, most)
            changed = self._has_changed(client)
        except PositionOutOfRangeError as error:
            self._drop()
            gaps = len(self._gaps)
            self._open()
            if len(self._gaps) == gaps:  # the offset is there after all
                raise SourceUnavailableError(f"topic {self._topic}: {error}") from error
            return []
        except BadBatchError as error:
            self._drop()
            self._skip(error)
            return []
        except BaseException:
            self._drop()
            raise
        if changed:  # the polled records may be of another topic, so they are not delivered
            self._drop()
            self._open()
            return []
        # Nothing may fail from here on: `_next` moves, so these records must reach the caller.
        self._before = self._next.copy(), self._last.copy()
        records = self._deliver(messages)
        # Pass offsets that have no record for us: transaction markers, compaction.
        for partition, at in passed.items():
            self._move(partition, at)
        self._pause_at_end(client)
        return records

    def _at_end(self) -> bool:
        ends = self._end
        return ends is not None and all(
            self._next[partition] >= end for partition, end in ends.items()
        )

    def _confirm_end(self) -> list[Record]:
        """Check at the end whether the topic that was read is still the topic of the bookmark.

        A client asks for the topic's id only every two seconds, and may have read another topic
        since.
        """
        self._drop()
        self._open()
        self._confirmed = self._at_end()
        return []

    def bookmark(self, taken: int | None = None) -> Bookmark:
        positions, last = self._next, self._last
        if taken is not None:
            positions, last = self._before[0].copy(), self._before[1].copy()
            for message in self._polled[:taken]:
                positions[message.partition] = message.offset + 1
                last[message.partition] = message
        marks = self._marks | {
            str(partition): make_anchor(message) for partition, message in last.items()
        }
        return Bookmark({str(partition): str(at) for partition, at in positions.items()}, marks)

    def gaps(self) -> list[Gap]:
        gaps, self._gaps = self._gaps, []
        return gaps

    def checkpointed(self, positions: Positions) -> None:
        if self._commits is not None:
            self._commits.offer({int(partition): int(at) for partition, at in positions.items()})

    def lag(self) -> dict[str, int]:
        client = self._open()
        if self._has_changed(client):
            self._drop()
            client = self._open()
        bounds = self._bounds(client)
        return {
            str(partition): max(0, bounds[partition].last - at)
            for partition, at in self._next.items()
        }

    def close(self) -> None:
        self._drop()
        if self._commits is not None:
            self._commits.close()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> Client:
        """Return the client. If the last one was dropped, make one, check the bookmark and seek."""
        if self._client is not None and self._client.spent:
            self._drop()
            gc.collect()  # its unpacked batches are large and in reference cycles with its errors
        if self._client is None:
            self._client = self._connect()
            try:
                self._seek_client(self._client)
            except BaseException:
                self._drop()
                raise
        return self._client

    def _seek_client(self, client: Client) -> None:
        """Check a new client against the bookmark, and let it read from `_next`."""
        numbers = {number for number in client.partitions() if self._concerns(number)}
        if not numbers and self._options.only is not None:
            raise SourceLostError(f"topic {self._topic}: it has no partition {self._options.only}")
        if not numbers:
            raise SourceUnavailableError(f"topic {self._topic} has no partitions now")
        if self._end is not None:  # a partition that came later has nothing before the end
            numbers &= self._end.keys()
        bounds = client.bounds(numbers)
        identity = client.identity()
        if self._fresh:
            self._next = {
                n: bounds[n].first if self._start == "earliest" else bounds[n].last
                for n in sorted(numbers)
            }
            self._fresh = False
        else:
            self._resume(
                numbers,
                TopicState(
                    identity, bounds, changed_anchors(self._connect, self._anchors(), bounds)
                ),
            )
        self._marks[""] = merge_identities(self._marks.get("", ""), identity)
        client.read(self._next)
        self._pause_at_end(client)

    def _bounds(self, client: Client) -> dict[int, Bounds]:
        try:
            return client.bounds(set(self._next))
        except BaseException:
            self._drop()
            raise

    def _anchors(self) -> dict[int, str]:
        return {
            int(partition): anchor
            for partition, anchor in self.bookmark().marks.items()
            if partition
        }

    def _resume(self, numbers: set[int], state: TopicState) -> None:
        known = self._marks.get("", "")
        if same_topic(known, state.identity):
            # No record of a new partition was read yet.
            self._next |= dict.fromkeys(sorted(numbers - self._next.keys()), 0)
        self._next, gaps = resolve_positions(
            self._topic, self._next, known, state, self._options.on_data_loss
        )
        for gap in gaps:
            self._gaps.append(gap)
            self._marks.pop(gap.partition, None)
            self._last.pop(int(gap.partition), None)
        if self._end is not None:
            self._end = {
                n: self._reachable(n, end, state.bounds[n])
                for n, end in self._end.items()
                if n in self._next
            }

    def _reachable(self, partition: int, end: int, bounds: Bounds) -> int:
        """Return the end that was set, or the log's own end if the log was cut off before it."""
        if end <= bounds.last:
            return end
        if self._options.on_data_loss == "fail":
            cut = f"the end was {end} and is {bounds.last} now: it was cut off"
            raise SourceLostError(f"topic {self._topic} partition {partition}: {cut}; {REMEDY}")
        self._gaps.append(
            Gap(str(partition), str(bounds.last), str(end), end - bounds.last, "truncated")
        )
        return bounds.last

    def _skip(self, error: BadBatchError) -> None:
        if error.where is None:
            raise SourceUnavailableError(f"topic {self._topic} cannot be read: {error}") from error
        partition, start, end = error.where
        if self._options.on_data_loss == "fail":
            bad = f"the batch at offset {start} cannot be read ({error})"
            raise SourceLostError(
                f"topic {self._topic} partition {partition}: {bad}; {REMEDY}"
            ) from error
        self._gaps.append(Gap(str(partition), str(start), str(end), end - start, "corrupt"))
        self._move(partition, end)

    def _has_changed(self, client: Client) -> bool:
        """Whether it is another topic now, or has a partition that is not read yet."""
        if not same_topic(self._marks[""], client.identity()):
            return True
        return self._end is None and any(
            n not in self._next and self._concerns(n) for n in client.partitions()
        )

    def _concerns(self, partition: int) -> bool:
        return self._options.only is None or str(partition) == self._options.only

    def _deliver(self, messages: Iterable[Message]) -> list[Record]:
        records = []
        self._polled = []
        for message in messages:
            partition, offset = message.partition, message.offset
            if offset < self._next.get(partition, offset + 1):
                continue
            if self._end is not None and offset >= self._end[partition]:
                self._move(partition, offset)
                continue
            self._next[partition] = offset + 1
            self._last[partition] = message
            self._polled.append(message)
            written = message.timestamp / 1000.0 if message.timestamp > 0 else None
            records.append(
                Record(str(partition), str(offset), str(offset + 1), message.value or b"", written)
            )
        return records

    def _move(self, partition: int, at: int) -> None:
        """Move on to `at`, but never back and never beyond the end that was set."""
        end = at if self._end is None else self._end.get(partition, 0)
        self._next[partition] = max(self._next[partition], min(at, end))

    def _pause_at_end(self, client: Client) -> None:
        """Fetch no more of a partition that is at the end that `stop_at_end` set."""
        if self._end is not None:
            client.pause(
                {partition for partition, end in self._end.items() if self._next[partition] >= end}
            )
