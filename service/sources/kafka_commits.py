"""Shows positions to lag tools as the offsets of a consumer group, from a thread of its own.

The consumer itself has no group: kafka-python would not read without the group's coordinator, and a log that can be
read must be read, also where the group is not allowed or not available. Whatever goes wrong here is only logged.
"""

import logging
import threading
from collections.abc import Mapping
from queue import SimpleQueue

from kafka import KafkaAdminClient, TopicPartition  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from service.settings import Security
from service.sources.kafka_security import for_kafka_python

_log = logging.getLogger(__name__)


class Commits:
    """The newest positions win: those that were offered while others were on their way are left out."""

    def __init__(self, bootstrap: str, security: Security | None, topic: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._topic = topic
        self._group = group
        self._offers: SimpleQueue[Mapping[int, int] | None] = SimpleQueue()
        threading.Thread(target=self._run, name="kafka commits", daemon=True).start()

    def offer(self, positions: Mapping[int, int]) -> None:
        self._offers.put(positions)

    def close(self) -> None:
        self._offers.put(None)

    def _run(self) -> None:
        while (positions := self._newest()) is not None:
            try:
                self._commit_until_trouble(positions)
            except Exception as error:  # noqa: BLE001 - only lag tools read it
                _log.debug("offsets of group %s are not committed: %s", self._group, error)

    def _commit_until_trouble(self, positions: Mapping[int, int] | None) -> None:
        servers = {"bootstrap_servers": self._bootstrap.split(","), "bootstrap_timeout_ms": 3_000}
        with KafkaAdminClient(**servers, **for_kafka_python(self._security)) as admin:
            while positions is not None:
                offsets = {
                    TopicPartition(self._topic, number): OffsetAndMetadata(at, "", -1)
                    for number, at in positions.items()
                }
                admin.alter_group_offsets(self._group, offsets)
                positions = self._newest()
        self.close()  # for the loop outside

    def _newest(self) -> Mapping[int, int] | None:
        newest = self._offers.get()
        while newest is not None and not self._offers.empty():
            newest = self._offers.get()
        return newest
