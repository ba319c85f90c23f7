"""Kafka through librdkafka (the package confluent-kafka): source and sink.

The library's threads put fetched messages and errors into one queue. So one call can return
messages and, behind them, the error of a batch. `poll` then returns the messages up to the error,
and raises the error at the next call.
"""

import contextlib
import importlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import TopicCollection as Topics

from service.config.settings import Security
from service.sources.base import Entry, Options, Position, SourceUnavailableError
from service.sources.kafka.auth import authentication_failed, for_confluent, probe_brokers
from service.sources.kafka.bad_batches import find_unreadable
from service.sources.kafka.client import BadBatchError, Bounds, Message, PositionOutOfRangeError
from service.sources.kafka.group_offsets import commits_of
from service.sources.kafka.listener import other_protocol
from service.sources.kafka.topic import KafkaTopicSource

REQUEST_SECONDS = 3.0
CALLBACK_SECONDS = 0.05
"""Seconds between two calls of the library's callbacks while a request is waited for."""
METADATA_SECONDS = 2.0
"""Seconds after which the topic's id and partitions are asked for again."""
DELIVERY_SECONDS = 10.0

CONSUMER = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "fetch.error.backoff.ms": 100,
    "fetch.max.bytes": 16 << 20,
    "group.id": "onepass",  # the library requires one; without a commit the broker never sees it
    "isolation.level": "read_committed",
    "max.partition.fetch.bytes": 1 << 20,
    "queued.max.messages.kbytes": 16 << 10,
    # Bounds what zstd may unpack to; gzip and lz4 have no bound in librdkafka.
    "receive.message.max.bytes": 64 << 20,
    "reconnect.backoff.max.ms": 5_000,
}

PRODUCER = {
    "acks": "all",
    "allow.auto.create.topics": False,
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.max.bytes": 16 << 20,
    "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
    "reconnect.backoff.max.ms": 5_000,
    "topic.metadata.propagation.max.ms": 3_000,
}

BAD_BATCH = {
    KafkaError._BAD_MSG,  # noqa: SLF001 - the library's own error codes begin so
    KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001
    KafkaError._UNDERFLOW,  # noqa: SLF001
}

OUT_OF_RANGE = {
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError._LOG_TRUNCATION,  # noqa: SLF001
}

# Any, because its type hints lack the names that are used here.
admin: Any = importlib.import_module("confluent_kafka.admin")


class ConfluentSource(KafkaTopicSource):
    def __init__(
        self, bootstrap: str, topic: str, start: Literal["earliest", "latest"], options: Options
    ) -> None:
        commits = commits_of(bootstrap, topic, options)
        super().__init__(
            topic, start, options, lambda: ConfluentClient(bootstrap, topic, options), commits
        )


class ConfluentClient:
    """A consumer and an admin client.

    Only the admin client can ask for the topic's id and for stable offsets.
    """

    spent = False

    def __init__(self, bootstrap: str, topic: str, options: Options) -> None:
        self._connection = Connection(bootstrap, options.security)
        self._topic = topic
        self._pending_error: Exception | None = None
        self._at: dict[int, int] = {}
        self._admin: Any = admin.AdminClient(self._connection.options)
        self._refreshed = 0.0
        self._refresh()
        if not self._partitions:
            raise SourceUnavailableError(f"topic {topic} does not exist at {bootstrap}: create it")
        self._consumer: Any = Consumer({**self._connection.options, **CONSUMER})

    def partitions(self) -> set[int]:
        self._refresh()
        return self._partitions

    def identity(self) -> str:
        self._refresh()
        return self._identity

    def bounds(self, partitions: set[int]) -> dict[int, Bounds]:
        first = self._offsets(partitions, admin.OffsetSpec.earliest())
        last = self._offsets(partitions, admin.OffsetSpec.latest())
        return {number: Bounds(first[number], last[number]) for number in partitions}

    def read(self, positions: Mapping[int, int]) -> None:
        self._at = dict(positions)
        self._consumer.assign(
            [TopicPartition(self._topic, number, at) for number, at in positions.items()]
        )

    def pause(self, partitions: set[int]) -> None:
        self._consumer.pause([TopicPartition(self._topic, number) for number in partitions])

    def poll(self, seconds: float, most: int) -> tuple[list[Message], dict[int, int]]:
        if self._pending_error is not None:
            raise self._pending_error
        try:
            # Two steps, because `consume` waits until it has all messages or the time is over.
            found = self._consumer.consume(1, seconds)
            if found and most > 1:
                found += self._consumer.consume(most - 1, 0)
        except (KafkaException, RuntimeError) as failure:
            raise self._connection.unavailable(failure) from failure
        messages: list[Message] = []
        passed: dict[int, int] = {}
        for item in found:
            error = item.error()
            if error is None:
                message = Message(
                    item.partition(), item.offset(), item.timestamp()[1], item.key(), item.value()
                )
                self._at[message.partition] = message.offset + 1
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                passed[item.partition()] = item.offset()
            # An error without a topic is of the group, which reading does not need, or of a broker.
            elif item.topic() is not None:
                self._pending_error = self._diagnose(item.partition(), error)
                break
        if self._pending_error is not None and not messages:
            raise self._pending_error
        return messages, passed

    def close(self) -> None:
        with contextlib.suppress(RuntimeError, KafkaException):
            self._consumer.close()

    def _diagnose(self, partition: int, error: Any) -> Exception:
        if error.code() in OUT_OF_RANGE:
            return PositionOutOfRangeError(error.str())
        if error.code() in BAD_BATCH:
            at = {partition: self._at[partition]}
            connection = self._connection
            where = find_unreadable(
                connection.bootstrap, connection.security, self._topic, at, blamed=True
            )
            return BadBatchError(where, error.str())
        return SourceUnavailableError(f"topic {self._topic} cannot be read: {error.str()}")

    def _refresh(self) -> None:
        """Ask for the topic's id and partitions, unless they are fresh.

        A topic that is being deleted has no partitions.
        """
        if self._refreshed and time.monotonic() - self._refreshed < METADATA_SECONDS:
            return
        topic = self._describe()
        self._partitions = set() if topic is None else {part.id for part in topic.partitions}
        if topic is not None:
            cluster = self._wait(self._admin.describe_cluster())
            bits = [
                topic.topic_id.get_most_significant_bits(),
                topic.topic_id.get_least_significant_bits(),
            ]
            topic_id = uuid.UUID(
                bytes=b"".join((half % (1 << 64)).to_bytes(8, "big") for half in bits)
            )
            self._identity = f"{cluster.cluster_id or ''}/{topic_id if topic_id.int else ''}"
        self._refreshed = time.monotonic()

    def _describe(self) -> Any:
        """Describe the topic. Return None if there is no such topic."""
        future = self._admin.describe_topics(Topics([self._topic]))[self._topic]
        try:
            return self._connection.wait(future, self._admin.poll)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._connection.unavailable(error) from error

    def _offsets(self, partitions: set[int], which: Any) -> dict[int, int]:
        wanted = {TopicPartition(self._topic, number): which for number in partitions}
        found = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        return {tp.partition: self._wait(future).offset for tp, future in found.items()}

    def _wait(self, future: Any) -> Any:
        try:
            return self._connection.wait(future, self._admin.poll)
        except KafkaException as error:
            raise self._connection.unavailable(error) from error


class ConfluentSink:
    """Appends to one topic; `append` returns when every in-sync replica has the entries."""

    def __init__(self, bootstrap: str, topic: str, options: Options) -> None:
        self._connection = Connection(bootstrap, options.security)
        self._topic = topic
        self._producer = Producer({**self._connection.options, **PRODUCER})
        try:
            self._producer.list_topics(timeout=REQUEST_SECONDS)
        except KafkaException as error:
            self._producer.poll(0)
            raise self._connection.unavailable(error) from error

    def append(self, entries: Sequence[Entry]) -> list[Position]:
        failed: list[Any] = []
        positions: dict[int, Position] = {}

        def on_delivery(number: int, error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                positions[number] = Position(str(message.partition()), str(message.offset()))

        try:
            for number, entry in enumerate(entries):
                while True:
                    try:
                        self._producer.produce(
                            self._topic,
                            entry.value,
                            entry.key or None,
                            headers=list(entry.headers),
                            on_delivery=partial(on_delivery, number),
                        )
                        break
                    except BufferError:  # the queue is full: let the library send some
                        self._producer.poll(0.1)
            unsent = self._producer.flush(DELIVERY_SECONDS + 5)
        except KafkaException as error:
            raise SourceUnavailableError(
                f"cannot append to topic {self._topic}: {error}"
            ) from error
        if failed or unsent:
            reason = failed[0].str() if failed else "no answer"
            raise SourceUnavailableError(f"cannot append to topic {self._topic}: {reason}")
        return [positions[number] for number in range(len(entries))]

    def close(self) -> None:
        self._producer.flush(DELIVERY_SECONDS)


class Connection:
    """The options of a connection, and whether a broker has refused its login."""

    def __init__(self, bootstrap: str, security: Security | None) -> None:
        probe_brokers(bootstrap, security)
        self.bootstrap = bootstrap
        self.security = security
        self._refused = False
        self.options: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "error_cb": self._on_error,
            "log_level": 0,  # errors are raised to the caller, not logged
            "socket.connection.setup.timeout.ms": 3_000,
            **for_confluent(security),
        }

    def unavailable(self, error: object) -> SourceUnavailableError:
        """Make the exception that names the most likely cause."""
        if (other := other_protocol(self.bootstrap, self.security)) is not None:
            return other
        if self._refused:
            return authentication_failed(self.bootstrap, self.security)
        return SourceUnavailableError(f"Kafka at {self.bootstrap} does not answer: {error}")

    def wait(self, future: "Future[Any]", poll: Callable[[float], object]) -> Any:
        """Wait for the future's result, but not after a refused login.

        The library would retry that until the timeout.
        """
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                return future.result(CALLBACK_SECONDS)
            except TimeoutError as error:
                poll(0)  # calls `_on_error`
                if self._refused or time.monotonic() > deadline:
                    raise self.unavailable("no answer in time") from error

    def _on_error(self, error: Any) -> None:
        self._refused |= error.code() == KafkaError._AUTHENTICATION  # noqa: SLF001
