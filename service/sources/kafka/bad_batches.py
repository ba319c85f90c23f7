"""Find the batch that a client cannot read, and the first offset after it.

The search reads the headers of the batches in the order of the log. So the gap is exactly the
unreadable batch, and the readable batches behind it are not lost with it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka.net.manager import KafkaConnectionManager  # type: ignore[import-untyped]
from kafka.net.selector import NetworkSelector  # type: ignore[import-untyped]
from kafka.protocol.consumer import FetchRequest  # type: ignore[import-untyped]
from kafka.record import MemoryRecords  # type: ignore[import-untyped]
from kafka.structs import TopicPartition  # type: ignore[import-untyped]

from service.config.settings import Security
from service.sources.base import SourceUnavailableError
from service.sources.kafka.auth import for_kafka_python
from service.sources.kafka.codecs import install

FETCH_BYTES = 8 << 20
TIMEOUT_MS = 5_000
READ_COMMITTED = 1
BY_NAME = 12
"""The last version of a fetch request with the topic's name. Later versions have the topic's id."""

install()


class Unreadable(NamedTuple):
    """Offsets of an unreadable batch."""

    partition: int
    start: int
    end: int
    """The first offset after the batch."""


def find_unreadable(
    bootstrap: str, security: Security | None, topic: str, at: Mapping[int, int], *, blamed: bool
) -> Unreadable | None:
    """Find the first unreadable batch at or after these offsets, within one fetch.

    `blamed` means that another client could not read the batch at the offset. That batch is the
    result if no batch looks bad here.
    """
    with _connect(bootstrap, security, topic) as manager:
        for partition, offset in sorted(at.items()):
            fetched = _fetch(manager, TopicPartition(topic, partition), offset)
            found = _first_unreadable(fetched.records, blamed=blamed)
            if found is not None:
                start = max(offset, found.base)
                # The header can be damaged too. Then all batches up to the end are lost.
                sane = start < found.after <= fetched.last_stable_offset
                return Unreadable(
                    partition, start, found.after if sane else fetched.last_stable_offset
                )
    return None


@contextlib.contextmanager
def _connect(bootstrap: str, security: Security | None, topic: str) -> Iterator[Any]:
    """Make a connection that only this thread drives."""
    settings = {"bootstrap_servers": bootstrap.split(","), **for_kafka_python(security)}
    net = NetworkSelector(**settings)
    manager = KafkaConnectionManager(net, allow_auto_create_topics=False, **settings)
    try:
        manager.bootstrap(TIMEOUT_MS)
        manager.run(manager.wait_for, manager.cluster.set_topics([topic]), TIMEOUT_MS)
        yield manager
    except SourceUnavailableError:
        raise
    except Exception as error:
        raise SourceUnavailableError(
            f"topic {topic} cannot be read at {bootstrap}: {error}"
        ) from error
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
    fetched = response.responses[0].partitions[0]
    if fetched.error_code:
        raise SourceUnavailableError(
            f"topic {tp.topic} partition {tp.partition}: Kafka error code {fetched.error_code}"
        )
    return fetched


class _Batch(NamedTuple):
    base: int
    after: int


def _first_unreadable(fetched: bytes | None, *, blamed: bool) -> _Batch | None:
    """Find the first unreadable batch of a fetch.

    It unpacks one batch at a time, because each may be large. The header of the next batch shows
    where a bad batch ends.
    """
    records = MemoryRecords(fetched or b"")
    first: _Batch | None = None
    bad: _Batch | None = None
    while records.has_next():
        batch = records.next_batch()
        if bad is not None:
            return bad._replace(after=batch.base_offset)
        here = _Batch(batch.base_offset, batch.next_offset)
        first = first or here
        if not _is_readable(batch):
            bad = here
    return bad or (first if blamed else None)


def _is_readable(batch: Any) -> bool:
    try:
        if not batch.validate_crc():
            return False
        for record in batch:
            if not record.validate_crc():
                return False
    except Exception:  # noqa: BLE001 - a bad batch raises whatever its codec raises
        return False
    return True
