"""Finds the batch that a client cannot read, and where the log goes on after it, from the batches' own headers.

Headers are walked as they lie in the log, so the stretch that is passed over is exactly the unreadable batch, and the
readable ones right behind it are not lost with it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka.net.manager import KafkaConnectionManager  # type: ignore[import-untyped]
from kafka.net.selector import NetworkSelector  # type: ignore[import-untyped]
from kafka.protocol.consumer import FetchRequest  # type: ignore[import-untyped]
from kafka.record import MemoryRecords  # type: ignore[import-untyped]
from kafka.structs import TopicPartition  # type: ignore[import-untyped]

from service.log_settings import Security
from service.sources import kafka_codecs
from service.sources.contract import SourceDown
from service.sources.kafka_security import for_kafka_python

FETCH_BYTES = 8 << 20
TIMEOUT_MS = 5_000
READ_COMMITTED = 1
BY_NAME = 12
"""The last version of a fetch that names its topic and not the topic's id."""

kafka_codecs.bound()


class Unreadable(NamedTuple):
    partition: int
    start: int
    end: int
    """The first offset after it."""


def find_unreadable(
    bootstrap: str, security: Security | None, topic: str, at: Mapping[int, int], *, blamed: bool
) -> Unreadable | None:
    """The first unreadable batch at or after these offsets, within one fetch.

    With `blamed` another client has found it so, and if none looks bad here the batch at the offset is meant.
    """
    with _connected(bootstrap, security, topic) as manager:
        for partition, offset in sorted(at.items()):
            answer = _fetch(manager, TopicPartition(topic, partition), offset)
            found = _first_unreadable(answer.records, blamed=blamed)
            if found is not None:
                start = max(offset, found.base)
                # A header that tells nonsense is no better than its batch: then all up to the end is lost.
                sane = start < found.after <= answer.last_stable_offset
                return Unreadable(partition, start, found.after if sane else answer.last_stable_offset)
    return None


@contextlib.contextmanager
def _connected(bootstrap: str, security: Security | None, topic: str) -> Iterator[Any]:
    """A connection driven by this thread alone."""
    settings = {"bootstrap_servers": bootstrap.split(","), **for_kafka_python(security)}
    net = NetworkSelector(**settings)
    manager = KafkaConnectionManager(net, allow_auto_create_topics=False, **settings)
    try:
        manager.bootstrap(TIMEOUT_MS)
        manager.run(manager.wait_for, manager.cluster.set_topics([topic]), TIMEOUT_MS)
        yield manager
    except SourceDown:
        raise
    except Exception as error:
        raise SourceDown(f"topic {topic} cannot be read at {bootstrap}: {error}") from error
    finally:
        manager.close()
        net.close()


def _fetch(manager: Any, tp: TopicPartition, offset: int) -> Any:
    of_topic = FetchRequest.FetchTopic
    of_partition = of_topic.FetchPartition(
        partition=tp.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        partition_max_bytes=FETCH_BYTES,
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        isolation_level=READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[of_topic(topic=tp.topic, partitions=[of_partition])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        max_version=BY_NAME,
    )
    response = manager.run(manager.send, request, manager.cluster.leader_for_partition(tp))
    answer = response.responses[0].partitions[0]
    if answer.error_code:
        raise SourceDown(f"topic {tp.topic} partition {tp.partition}: Kafka's error {answer.error_code}")
    return answer


class _Batch(NamedTuple):
    base: int
    after: int


def _first_unreadable(fetched: bytes | None, *, blamed: bool) -> _Batch | None:
    """One batch is unpacked at a time, since each may be large; the next one's header tells where this one ends."""
    records = MemoryRecords(fetched or b"")
    first: _Batch | None = None
    bad: _Batch | None = None
    while records.has_next():
        batch = records.next_batch()
        if bad is not None:
            return bad._replace(after=batch.base_offset)
        here = _Batch(batch.base_offset, batch.next_offset)
        first = first or here
        if not _readable(batch):
            bad = here
    return bad or (first if blamed else None)


def _readable(batch: Any) -> bool:
    try:
        if not batch.validate_crc():
            return False
        for record in batch:
            if not record.validate_crc():
                return False
    except Exception:  # noqa: BLE001 - a bad batch raises whatever its codec raises
        return False
    return True
