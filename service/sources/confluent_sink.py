"""Appending to Kafka by librdkafka."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from service.sources.confluent_connection import ASK_SECONDS, Connection
from service.sources.contract import Entry, Options, Place, SourceDown

DELIVERY_SECONDS = 10.0

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


class ConfluentSink:
    """Appends to one topic; `append` returns when every in-sync replica has the entries."""

    def __init__(self, bootstrap: str, topic: str, options: Options) -> None:
        self._connection = Connection(bootstrap, options.security)
        self._topic = topic
        self._producer = Producer({**self._connection.words, **PRODUCER})
        try:
            self._producer.list_topics(timeout=ASK_SECONDS)
        except KafkaException as error:
            self._producer.poll(0)
            raise self._connection.down(error) from error

    def append(self, entries: Sequence[Entry]) -> list[Place]:
        failed: list[Any] = []
        places: dict[int, Place] = {}

        def delivered(number: int, error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                places[number] = Place(str(message.partition()), str(message.offset()))

        try:
            for number, entry in enumerate(entries):
                while True:
                    try:
                        self._producer.produce(
                            self._topic,
                            entry.value,
                            entry.key or None,
                            headers=list(entry.headers),
                            on_delivery=partial(delivered, number),
                        )
                        break
                    except BufferError:  # the queue is full: let some go
                        self._producer.poll(0.1)
            left = self._producer.flush(DELIVERY_SECONDS + 5)
        except KafkaException as error:
            raise SourceDown(f"cannot append to topic {self._topic}: {error}") from error
        if failed or left:
            raise SourceDown(f"cannot append to topic {self._topic}: {failed[0].str() if failed else 'no answer'}")
        return [places[number] for number in range(len(entries))]

    def close(self) -> None:
        self._producer.flush(DELIVERY_SECONDS)
