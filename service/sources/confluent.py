"""Kafka by librdkafka, several times as fast as kafka-python: how it reads.

Records that it has fetched wait in a queue of its own threads, so a message may come before the error of the batch in
front of it is asked for; hence the messages up to an error are handed over first, and the error at the next call.
"""

import contextlib
import importlib
import time
import uuid
from collections.abc import Mapping
from typing import Any, Literal

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka import TopicCollection as Topics

from service.sources.confluent_connection import Connection
from service.sources.contract import Options, SourceDown
from service.sources.kafka_batches import find_unreadable
from service.sources.kafka_client import BadBatch, OutOfRange
from service.sources.kafka_commits import commits_of
from service.sources.kafka_log import KafkaLog
from service.sources.kafka_place import Bounds, Message

LOOK_SECONDS = 2.0
"""How old the topic's id and partitions may be."""

admin: Any = importlib.import_module("confluent_kafka.admin")  # typed in parts, and not in those that are used here

CONSUMER = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "fetch.error.backoff.ms": 100,
    "fetch.max.bytes": 16 << 20,
    "group.id": "onepass",  # a must for this library; without a commit it is nothing to the broker
    "isolation.level": "read_committed",
    "max.partition.fetch.bytes": 1 << 20,
    "queued.max.messages.kbytes": 16 << 10,
    # Bounds what zstd may unpack to; gzip and lz4 have no bound in librdkafka.
    "receive.message.max.bytes": 64 << 20,
    "reconnect.backoff.max.ms": 5_000,
}
SPOILT = {
    KafkaError._BAD_MSG,  # noqa: SLF001 - so the library spells its own codes
    KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001
    KafkaError._UNDERFLOW,  # noqa: SLF001
}
LOST = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}  # noqa: SLF001


class ConfluentSource(KafkaLog):
    def __init__(self, bootstrap: str, topic: str, start: Literal["earliest", "latest"], options: Options) -> None:
        commits = commits_of(bootstrap, topic, options)
        super().__init__(topic, start, options, lambda: ConfluentClient(bootstrap, topic, options), commits)


class ConfluentClient:
    """A consumer, and beside it an admin client, which alone can ask for the topic's id and for stable offsets."""

    def __init__(self, bootstrap: str, topic: str, options: Options) -> None:
        self._connection = Connection(bootstrap, options.security)
        self._topic = topic
        self._trouble: Exception | None = None
        self._at: dict[int, int] = {}
        self._admin: Any = admin.AdminClient(self._connection.words)
        self._looked = 0.0
        self._look()
        if not self._partitions:
            raise SourceDown(f"topic {topic} does not exist at {bootstrap}: create it")
        self._consumer: Any = Consumer({**self._connection.words, **CONSUMER})

    def partitions(self) -> set[int]:
        self._look()
        return self._partitions

    def identity(self) -> str:
        self._look()
        return self._identity

    def bounds(self, partitions: set[int]) -> dict[int, Bounds]:
        first = self._offsets(partitions, admin.OffsetSpec.earliest())
        last = self._offsets(partitions, admin.OffsetSpec.latest())
        return {number: Bounds(first[number], last[number]) for number in partitions}

    def read(self, positions: Mapping[int, int]) -> None:
        self._at = dict(positions)
        self._consumer.assign([TopicPartition(self._topic, number, at) for number, at in positions.items()])

    def rest(self, partitions: set[int]) -> None:
        self._consumer.pause([TopicPartition(self._topic, number) for number in partitions])

    def poll(self, seconds: float, most: int) -> tuple[list[Message], dict[int, int]]:
        if self._trouble is not None:
            raise self._trouble
        try:
            # Two steps, since `consume` waits for all that it was asked for.
            found = self._consumer.consume(1, seconds)
            if found and most > 1:
                found += self._consumer.consume(most - 1, 0)
        except (KafkaException, RuntimeError) as error:
            raise self._connection.down(error) from error
        messages: list[Message] = []
        passed: dict[int, int] = {}
        for item in found:
            said = item.error()
            if said is None:
                message = Message(item.partition(), item.offset(), item.timestamp()[1], item.key(), item.value())
                self._at[message.partition] = message.offset + 1
                messages.append(message)
            elif said.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                passed[item.partition()] = item.offset()
            elif item.topic() is not None:  # else of the group, which is not needed to read, or of a broker
                self._trouble = self._diagnosis(item.partition(), said)
                break
        if self._trouble is not None and not messages:
            raise self._trouble
        return messages, passed

    def close(self) -> None:
        with contextlib.suppress(RuntimeError, KafkaException):
            self._consumer.close()

    def _diagnosis(self, partition: int, error: Any) -> Exception:
        if error.code() in LOST:
            return OutOfRange(error.str())
        if error.code() in SPOILT:
            at = {partition: self._at[partition]}
            connection = self._connection
            where = find_unreadable(connection.bootstrap, connection.security, self._topic, at, blamed=True)
            return BadBatch(where, error.str())
        return SourceDown(f"topic {self._topic} cannot be read: {error.str()}")

    def _look(self) -> None:
        """Ask for the topic's id and partitions, unless they are fresh; one that is being deleted has none."""
        if self._looked and time.monotonic() - self._looked < LOOK_SECONDS:
            return
        told = self._describe()
        self._partitions = set() if told is None else {part.id for part in told.partitions}
        if told is not None:
            cluster = self._wait(self._admin.describe_cluster())
            bits = [told.topic_id.get_most_significant_bits(), told.topic_id.get_least_significant_bits()]
            topic = uuid.UUID(bytes=b"".join((half % (1 << 64)).to_bytes(8, "big") for half in bits))
            self._identity = f"{cluster.cluster_id or ''}/{topic if topic.int else ''}"
        self._looked = time.monotonic()

    def _describe(self) -> Any:
        """None when there is no such topic."""
        future = self._admin.describe_topics(Topics([self._topic]))[self._topic]
        try:
            return self._connection.wait(future, self._admin.poll)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._connection.down(error) from error

    def _offsets(self, partitions: set[int], which: Any) -> dict[int, int]:
        wanted = {TopicPartition(self._topic, number): which for number in partitions}
        found = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        return {tp.partition: self._wait(future).offset for tp, future in found.items()}

    def _wait(self, future: Any) -> Any:
        try:
            return self._connection.wait(future, self._admin.poll)
        except KafkaException as error:
            raise self._connection.down(error) from error
