"""Kafka through kafka-python, the default client library: source, sink and `create_topic`.

After any exception from its poll() the consumer must be closed: it keeps the batch that it could
not read, and every later poll fails on it, even after a seek to the same offset. Topics are created
for dead letters and the demo, never for a source.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from kafka import (  # type: ignore[import-untyped]
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.errors import (  # type: ignore[import-untyped]
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    RetriableError,
    TopicAlreadyExistsError,
)
from kafka.net.compat import KafkaNetClient  # type: ignore[import-untyped]

from service.config.settings import Security
from service.sources.base import Entry, Options, Position, SourceUnavailableError
from service.sources.kafka.auth import diagnose, for_kafka_python, probe_brokers
from service.sources.kafka.bad_batches import find_unreadable
from service.sources.kafka.client import BadBatchError, Bounds, Message, PositionOutOfRangeError
from service.sources.kafka.codecs import MOST, allowance
from service.sources.kafka.group_offsets import commits_of
from service.sources.kafka.topic import KafkaTopicSource

BOOTSTRAP_MS = 3_000

PROBE_MS = 2_000

DELIVERY_MS = 10_000

PORTION = 500
"""Records per poll of the library. `codecs` bounds what one such poll unpacks."""

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


class KafkaSource(KafkaTopicSource):
    def __init__(
        self, bootstrap: str, topic: str, start: Literal["earliest", "latest"], options: Options
    ) -> None:
        commits = commits_of(bootstrap, topic, options)
        super().__init__(
            topic, start, options, lambda: KafkaPythonClient(bootstrap, topic, options), commits
        )


class KafkaPythonClient:
    """A consumer. Its background thread asks for the topic's id and partitions every 2 s."""

    def __init__(self, bootstrap: str, topic: str, options: Options) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._security = options.security
        self.spent = False
        self._pending_error: Exception | None = None
        self._consumer, self._cluster = _connect(
            KafkaConsumer, bootstrap, options.security, CONSUMER
        )
        try:
            known = self._request(self._consumer.partitions_for_topic, topic)
            if not known:
                raise SourceUnavailableError(
                    f"topic {topic} does not exist at {bootstrap}: create it"
                )
            # From now on the background thread asks for this topic.
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
        first = self._request(self._consumer.beginning_offsets, wanted, timeout_ms=PROBE_MS)
        last = self._request(self._consumer.end_offsets, wanted, timeout_ms=PROBE_MS)
        return {tp.partition: Bounds(first[tp], last[tp]) for tp in wanted}

    def read(self, positions: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(self._topic, number) for number in positions])
        for number, at in positions.items():
            self._consumer.seek(TopicPartition(self._topic, number), at)

    def pause(self, partitions: set[int]) -> None:
        self._consumer.pause(*(TopicPartition(self._topic, number) for number in partitions))

    def poll(self, seconds: float, most: int) -> tuple[list[Message], dict[int, int]]:
        if self._pending_error is not None:
            raise self._pending_error
        assigned = self._consumer.assignment()
        messages: list[Message] = []
        size, wait = 0, int(seconds * 1000)
        try:
            while not self.spent and len(messages) < most and size < MOST:
                count = min(PORTION, most - len(messages))
                portion = self._poll_portion(wait, count)
                messages += portion
                size += sum(len(message.value or b"") for message in portion)
                if len(portion) < count:
                    break
                wait = 0
            passed = {tp.partition: self._consumer.position(tp, timeout_ms=0) for tp in assigned}
        except Exception as error:
            self._pending_error = self._diagnose(error)
            if not messages:
                raise self._pending_error from error
            passed = {}  # first return the messages before the error
        return messages, passed

    def _poll_portion(self, wait_ms: int, most: int) -> list[Message]:
        with allowance() as allowed:
            batches = self._consumer.poll(timeout_ms=wait_ms, max_records=most)
        self.spent = allowed.refused
        return [
            Message(number, record.offset, record.timestamp, record.key, record.value)
            for (_, number), batch in sorted(batches.items())
            for record in batch
        ]

    def close(self) -> None:
        with contextlib.suppress(KafkaError):
            self._consumer.close(autocommit=False, timeout_ms=1_000)

    def _diagnose(self, error: Exception) -> Exception:
        """Find what the error means. A bad batch raises whatever its codec raises."""
        if isinstance(error, (LogTruncationError, OffsetOutOfRangeError)):
            return PositionOutOfRangeError(str(error))
        if isinstance(error, RetriableError):
            return SourceUnavailableError(f"topic {self._topic} cannot be read: {error}")
        at = {
            tp.partition: self._consumer.position(tp, timeout_ms=0)
            for tp in self._consumer.assignment()
        }
        where = find_unreadable(self._bootstrap, self._security, self._topic, at, blamed=False)
        return BadBatchError(where, str(error) or type(error).__name__)

    def _request(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except Exception as error:
            raise SourceUnavailableError(
                f"Kafka at {self._bootstrap} does not answer for {self._topic}: {error}"
            ) from error


class KafkaSink:
    """Appends to one topic; `append` returns when every in-sync replica has the entries."""

    def __init__(self, bootstrap: str, topic: str, options: Options) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._producer, _ = _connect(KafkaProducer, bootstrap, options.security, PRODUCER)

    def append(self, entries: Sequence[Entry]) -> list[Position]:
        try:
            self._producer.partitions_for(self._topic)
        except KafkaError as error:
            unknown = f"topic {self._topic} is not known at {self._bootstrap}: create it ({error})"
            raise SourceUnavailableError(unknown) from error
        try:
            futures = [
                self._producer.send(
                    self._topic, entry.value, entry.key or None, list(entry.headers)
                )
                for entry in entries
            ]
            self._producer.flush(timeout=DELIVERY_MS / 1000 + 5)
            metadata = [future.get(timeout=0) for future in futures]
        except KafkaError as error:
            raise SourceUnavailableError(
                f"cannot append to topic {self._topic}: {error}"
            ) from error
        return [Position(str(one.partition), str(one.offset)) for one in metadata]

    def close(self) -> None:
        with contextlib.suppress(KafkaError):
            self._producer.close(timeout=DELIVERY_MS / 1000)


def create_topic(
    bootstrap: str, topic: str, security: Security | None = None, partitions: int = 1
) -> bool:
    """Create the topic with `partitions` if it does not exist. Return whether it was created."""
    probe_brokers(bootstrap, security)
    servers = {"bootstrap_servers": bootstrap.split(","), "bootstrap_timeout_ms": 3_000}
    try:
        with KafkaAdminClient(**servers, **for_kafka_python(security)) as admin:
            if topic in admin.list_topics():
                return False
            admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)
    except TopicAlreadyExistsError:
        return False
    except KafkaTimeoutError as error:
        raise diagnose(bootstrap, security, error) from error
    except (KafkaError, OSError) as error:
        raise SourceUnavailableError(
            f"topic {topic} does not exist and cannot be created at {bootstrap}: {error}"
        ) from error
    return True


def _connect(
    make: Callable[..., Any],
    bootstrap: str,
    security: Security | None,
    config: Mapping[str, object],
) -> tuple[Any, Any]:
    """Make a consumer or producer. Return it with its view of the cluster.

    If no broker answers, close what the constructor left running.
    """
    clients: list[Any] = []

    def client(**configs: Any) -> Any:
        clients.append(KafkaNetClient(**configs))
        return clients[-1]

    probe_brokers(bootstrap, security)
    login = for_kafka_python(security)
    servers = {"bootstrap_servers": bootstrap.split(","), "bootstrap_timeout_ms": BOOTSTRAP_MS}
    try:
        connected = make(kafka_client=client, metrics_enabled=False, **servers, **login, **config)
    except Exception as error:
        for leftover in clients:  # a constructor that fails leaves its I/O thread behind
            leftover.close()
        raise diagnose(bootstrap, security, error) from error
    return connected, clients[0].cluster
