"""A Kafka topic as a log: all partitions assigned by hand, positions kept by us and not by a consumer group.

`_next` holds, per partition, the first offset not yet delivered; the consumer's own state is disposable.
Whatever goes wrong inside the client, the consumer is thrown away and the next call builds another one at
`_next`, so no record is skipped or repeated. No error leaves this module but `SourceDown` and `SourceLost`.
"""

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.errors import (  # type: ignore[import-untyped]
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
)
from kafka.net.compat import KafkaNetClient  # type: ignore[import-untyped]

from service.sources.contract import Entry, Positions, Record, SourceDown, SourceLost

CONNECT_SECONDS = 1.0
BOOTSTRAP_MS = 3_000
PROBE_MS = 2_000
DELIVERY_MS = 10_000

CONSUMER = {
    "allow_auto_create_topics": False,
    "auto_offset_reset": "none",
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "fetch_max_bytes": 16 << 20,
    "max_partition_fetch_bytes": 1 << 20,
    "metadata_max_age_ms": 30_000,
    "reconnect_backoff_max_ms": 5_000,
    "request_timeout_ms": 15_000,
}
PRODUCER = {
    "acks": "all",
    "compression_type": None,
    "delivery_timeout_ms": DELIVERY_MS,
    "max_block_ms": DELIVERY_MS // 2,
    "reconnect_backoff_max_ms": 5_000,
    "request_timeout_ms": DELIVERY_MS // 2,
}


class KafkaSource:
    """All partitions of one topic, in order within each."""

    def __init__(self, bootstrap: str, topic: str, start: Literal["earliest", "latest"]) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._start = start
        self._consumer: Any = None
        self._next: dict[TopicPartition, int] = {}
        self._end: dict[TopicPartition, int] = {}
        self.seek({})

    def seek(self, positions: Mapping[str, str]) -> None:
        self._drop()  # and with it what it has fetched and which partitions rest
        self._end = {}
        if not all(part.isdecimal() for part in (*positions, *positions.values())):
            raise SourceLost(f"topic {self._topic}: the positions are not offsets of partitions")
        self._next = {TopicPartition(self._topic, int(p)): int(at) for p, at in positions.items()}
        self._open()

    def until_end(self) -> None:
        consumer = self._open()
        self._end = self._offsets(consumer.end_offsets)
        self._rest_at_end(consumer)

    @property
    def exhausted(self) -> bool:
        return bool(self._end) and all(self._next[tp] >= end for tp, end in self._end.items())

    def poll(self, seconds: float, most: int) -> list[Record]:
        if self.exhausted:
            return []
        consumer = self._open()
        try:
            batches = consumer.poll(timeout_ms=int(seconds * 1000), max_records=most)
            passed = {tp: consumer.position(tp, timeout_ms=0) for tp in self._next}
        except LogTruncationError as error:
            self._drop()
            raise SourceLost(f"topic {self._topic}: the log was cut back below our position: {error}") from error
        except OffsetOutOfRangeError as error:
            self._drop()
            self._open()  # raises SourceLost with the range that is left
            raise SourceDown(f"topic {self._topic}: {error}") from error
        except Exception as error:
            # Not only KafkaError: a bad batch raises what its codec raises. The consumer must go: it keeps
            # the batch and would spin on it for ever, even after a seek to the same offset.
            self._drop()
            raise SourceDown(f"topic {self._topic} cannot be read: {error}") from error
        # Nothing may fail from here on: `_next` moves, so these records must reach the caller.
        records = [record for tp in sorted(batches) for record in self._deliver(tp, batches[tp])]
        for tp, at in passed.items():  # over offsets without a record for us: transaction marks, compaction
            self._next[tp] = max(self._next[tp], min(at, self._end.get(tp, at)))
        self._rest_at_end(consumer)
        return records

    def positions(self) -> Positions:
        return {str(tp.partition): str(at) for tp, at in self._next.items()}

    def lag(self) -> dict[str, int]:
        consumer = self._open()
        added = set(self._numbers(consumer)) - {tp.partition for tp in self._next}
        if added and not self._end:
            self._next |= {TopicPartition(self._topic, number): 0 for number in added}  # all of it is unseen
            self._drop()
            consumer = self._open()
        ends = self._offsets(consumer.end_offsets)
        return {str(tp.partition): max(0, ends[tp] - at) for tp, at in self._next.items()}

    def close(self) -> None:
        self._drop()

    def _open(self) -> Any:
        """The consumer, standing at `_next`; built anew when the last one was dropped."""
        if self._consumer is None:
            self._consumer = _connect(KafkaConsumer, self._bootstrap, CONSUMER)
            try:
                self._assign(self._consumer)
            except BaseException:
                self._drop()
                raise
        return self._consumer

    def _assign(self, consumer: Any) -> None:
        partitions = [TopicPartition(self._topic, number) for number in self._numbers(consumer)]
        consumer.assign(partitions)
        first = self._offsets(consumer.beginning_offsets, partitions)
        last = self._offsets(consumer.end_offsets, partitions)
        for tp, at in self._next.items():
            if not first.get(tp, 0) <= at <= last.get(tp, -1):
                held = f"{first[tp]} to {last[tp]}" if tp in first else "no such partition"
                raise SourceLost(f"topic {self._topic} partition {tp.partition}: wanted {at}, it holds {held}")
        fresh = first if self._start == "earliest" else last
        self._next = {tp: self._next.get(tp, fresh[tp]) for tp in partitions}
        for tp, at in self._next.items():
            consumer.seek(tp, at)
        self._rest_at_end(consumer)

    def _numbers(self, consumer: Any) -> list[int]:
        """The topic's partitions as the client knows them; it asks anew every 30 s."""
        try:
            numbers = sorted(consumer.partitions_for_topic(self._topic))
        except Exception as error:
            self._drop()
            raise SourceDown(f"Kafka at {self._bootstrap} does not list its topics: {error}") from error
        if not numbers:
            raise SourceDown(f"topic {self._topic} does not exist at {self._bootstrap}: create it")
        return numbers

    def _offsets(
        self,
        ask: Callable[..., dict[TopicPartition, int]],
        partitions: list[TopicPartition] | None = None,
    ) -> dict[TopicPartition, int]:
        try:
            return ask(partitions or list(self._next), timeout_ms=PROBE_MS)
        except Exception as error:
            self._drop()
            raise SourceDown(f"Kafka at {self._bootstrap} does not tell offsets: {error}") from error

    def _deliver(self, tp: TopicPartition, batch: Sequence[Any]) -> Iterator[Record]:
        for message in batch:
            if self._next[tp] <= message.offset < self._end.get(tp, message.offset + 1):
                self._next[tp] = message.offset + 1
                after = str(message.offset + 1)
                yield Record(str(tp.partition), str(message.offset), after, message.value or b"")

    def _rest_at_end(self, consumer: Any) -> None:
        """Fetch no more of a partition that is at the end set by `until_end`."""
        for tp, end in self._end.items():
            if self._next[tp] >= end:
                consumer.pause(tp)

    def _drop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(KafkaError):
                consumer.close(autocommit=False, timeout_ms=1_000)


class KafkaSink:
    """Appends to one topic; `append` returns when every in-sync replica has the entries."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._producer = _connect(KafkaProducer, bootstrap, PRODUCER)

    def append(self, entries: Sequence[Entry]) -> None:
        try:
            self._producer.partitions_for(self._topic)
        except KafkaError as error:
            unknown = f"topic {self._topic} is not known at {self._bootstrap}: create it ({error})"
            raise SourceDown(unknown) from error
        try:
            sent = [
                self._producer.send(self._topic, entry.value, entry.key or None, list(entry.headers))
                for entry in entries
            ]
            self._producer.flush(timeout=DELIVERY_MS / 1000 + 5)
            for future in sent:
                future.get(timeout=0)
        except KafkaError as error:
            raise SourceDown(f"cannot append to topic {self._topic}: {error}") from error

    def close(self) -> None:
        with contextlib.suppress(KafkaError):
            self._producer.close(timeout=DELIVERY_MS / 1000)


def _connect(make: Callable[..., Any], bootstrap: str, config: Mapping[str, object]) -> Any:
    """A consumer or producer; when no broker answers, SourceDown and nothing left running."""
    clients: list[Any] = []

    def client(**configs: Any) -> Any:
        clients.append(KafkaNetClient(**configs))
        return clients[-1]

    try:
        _knock(bootstrap)
        servers = {"bootstrap_servers": bootstrap.split(","), "bootstrap_timeout_ms": BOOTSTRAP_MS}
        return make(kafka_client=client, metrics_enabled=False, **servers, **config)
    except (KafkaError, OSError, UnicodeError) as error:
        for left in clients:  # a constructor that fails leaves its I/O thread behind
            left.close()
        raise SourceDown(f"no Kafka broker answers at {bootstrap}: {error}") from error


def _knock(bootstrap: str) -> None:
    """Fail at once, quietly, when nobody listens: the client logs each refused try and leaks its socket."""
    refusal: OSError | None = None
    for server in bootstrap.split(","):
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except OSError as error:
            refusal = error
        else:
            return
    if refusal:
        raise refusal
