"""Kafka by kafka-python, the client that is always there: how it reads, and a sink.

After any exception out of its poll() the consumer must go: it keeps the batch that it could not read and would spin on
it for ever, even after a seek to the same offset.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.errors import (  # type: ignore[import-untyped]
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    RetriableError,
)
from kafka.net.compat import KafkaNetClient  # type: ignore[import-untyped]

from service.log_settings import Security
from service.sources.contract import Entry, Options, Place, SourceDown
from service.sources.kafka_batches import find_unreadable
from service.sources.kafka_client import BadBatch, OutOfRange
from service.sources.kafka_commits import commits_of
from service.sources.kafka_log import KafkaLog
from service.sources.kafka_login import why_down
from service.sources.kafka_place import Bounds, Message
from service.sources.kafka_security import for_kafka_python, knock

BOOTSTRAP_MS = 3_000
PROBE_MS = 2_000
DELIVERY_MS = 10_000

CONSUMER = {
    "allow_auto_create_topics": False,
    "auto_offset_reset": "none",
    "enable_auto_commit": False,
    "group_id": None,
    "isolation_level": "read_committed",
    "fetch_max_bytes": 16 << 20,
    "max_partition_fetch_bytes": 1 << 20,
    "metadata_max_age_ms": 2_000,
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


class KafkaSource(KafkaLog):
    def __init__(self, bootstrap: str, topic: str, start: Literal["earliest", "latest"], options: Options) -> None:
        commits = commits_of(bootstrap, topic, options)
        super().__init__(topic, start, options, lambda: KafkaPythonClient(bootstrap, topic, options), commits)


class KafkaPythonClient:
    """A consumer; its background thread asks for the topic's id and partitions anew every 2 s."""

    def __init__(self, bootstrap: str, topic: str, options: Options) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._security = options.security
        self._consumer, self._cluster = _connect(KafkaConsumer, bootstrap, options.security, CONSUMER)
        try:
            known = self._ask(self._consumer.partitions_for_topic, topic)
            if not known:
                raise SourceDown(f"topic {topic} does not exist at {bootstrap}: create it")
            # Only now the topic is among those that the background thread asks for.
            self._consumer.assign([TopicPartition(topic, number) for number in known])
        except BaseException:
            self.close()
            raise

    def partitions(self) -> set[int]:
        return self._cluster.partitions_for_topic(self._topic) or set()

    def identity(self) -> str:
        return f"{self._cluster.cluster_id or ''}/{self._cluster.topic_id(self._topic) or ''}"

    def bounds(self, partitions: set[int]) -> dict[int, Bounds]:
        wanted = [TopicPartition(self._topic, number) for number in partitions]
        first = self._ask(self._consumer.beginning_offsets, wanted, timeout_ms=PROBE_MS)
        last = self._ask(self._consumer.end_offsets, wanted, timeout_ms=PROBE_MS)
        return {tp.partition: Bounds(first[tp], last[tp]) for tp in wanted}

    def read(self, positions: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(self._topic, number) for number in positions])
        for number, at in positions.items():
            self._consumer.seek(TopicPartition(self._topic, number), at)

    def rest(self, partitions: set[int]) -> None:
        self._consumer.pause(*(TopicPartition(self._topic, number) for number in partitions))

    def poll(self, seconds: float, most: int) -> tuple[list[Message], dict[int, int]]:
        assigned = self._consumer.assignment()
        try:
            batches = self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=most)
            passed = {tp.partition: self._consumer.position(tp, timeout_ms=0) for tp in assigned}
        except (LogTruncationError, OffsetOutOfRangeError) as error:
            raise OutOfRange(str(error)) from error
        except Exception as error:  # a bad batch raises whatever its codec raises
            raise self._diagnosis(error) from error
        messages = [
            Message(number, record.offset, record.timestamp, record.key, record.value)
            for (_, number), batch in sorted(batches.items())
            for record in batch
        ]
        return messages, passed

    def close(self) -> None:
        with contextlib.suppress(KafkaError):
            self._consumer.close(autocommit=False, timeout_ms=1_000)

    def _diagnosis(self, error: Exception) -> Exception:
        if isinstance(error, RetriableError):
            return SourceDown(f"topic {self._topic} cannot be read: {error}")
        at = {tp.partition: self._consumer.position(tp, timeout_ms=0) for tp in self._consumer.assignment()}
        where = find_unreadable(self._bootstrap, self._security, self._topic, at, blamed=False)
        return BadBatch(where, str(error) or type(error).__name__)

    def _ask(self, question: Callable[..., Any], *details: Any, **limits: Any) -> Any:
        try:
            return question(*details, **limits)
        except Exception as error:
            raise SourceDown(f"Kafka at {self._bootstrap} does not answer for {self._topic}: {error}") from error


class KafkaSink:
    """Appends to one topic; `append` returns when every in-sync replica has the entries."""

    def __init__(self, bootstrap: str, topic: str, options: Options) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._producer, _ = _connect(KafkaProducer, bootstrap, options.security, PRODUCER)

    def append(self, entries: Sequence[Entry]) -> list[Place]:
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
            found = [future.get(timeout=0) for future in sent]
        except KafkaError as error:
            raise SourceDown(f"cannot append to topic {self._topic}: {error}") from error
        return [Place(str(one.partition), str(one.offset)) for one in found]

    def close(self) -> None:
        with contextlib.suppress(KafkaError):
            self._producer.close(timeout=DELIVERY_MS / 1000)


def _connect(
    make: Callable[..., Any], bootstrap: str, security: Security | None, config: Mapping[str, object]
) -> tuple[Any, Any]:
    """A consumer or producer and what it knows of the cluster; when no broker answers, nothing is left running."""
    made: list[Any] = []

    def client(**configs: Any) -> Any:
        made.append(KafkaNetClient(**configs))
        return made[-1]

    knock(bootstrap, security)
    words = for_kafka_python(security)
    servers = {"bootstrap_servers": bootstrap.split(","), "bootstrap_timeout_ms": BOOTSTRAP_MS}
    try:
        connected = make(kafka_client=client, metrics_enabled=False, **servers, **words, **config)
    except Exception as error:
        for left in made:  # a constructor that fails leaves its I/O thread behind
            left.close()
        raise why_down(bootstrap, security, error) from error
    return connected, made[0].cluster
