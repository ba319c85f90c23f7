"""Shows positions to lag tools as the offsets of a consumer group, from a thread of its own, whatever client reads.

The clients that read have no group of ours: kafka-python would not read without the group's coordinator, librdkafka
waits at its close for commits that cannot be made, and a log that can be read must be read also where the group is not
allowed or not available. Whatever goes wrong here is only logged.
"""

import logging
import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue

from kafka import KafkaAdminClient, TopicPartition  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from service.log_settings import Security
from service.sources.contract import Options
from service.sources.kafka_security import for_kafka_python

REST_SECONDS = 10.0
"""After a trouble: each try makes a new connection."""

_log = logging.getLogger(__name__)


def commits_of(bootstrap: str, topic: str, options: Options) -> "Commits | None":
    return None if options.group is None else Commits(bootstrap, options.security, topic, options.group)


class Commits:
    """The newest positions win: those that were offered while others were on their way are left out.

    The thread begins with the first offer.
    """

    def __init__(self, bootstrap: str, security: Security | None, topic: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._topic = topic
        self._group = group
        self._offers: SimpleQueue[Mapping[int, int] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="kafka commits", daemon=True)

    def offer(self, positions: Mapping[int, int]) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._offers.put(positions)

    def close(self) -> None:
        self._offers.put(None)

    def _run(self) -> None:
        while (positions := self._newest()) is not None:
            try:
                self._commit_until_trouble(positions)
            except Exception as error:  # noqa: BLE001 - only lag tools read it
                _log.debug("offsets of group %s are not committed: %s", self._group, error)
                time.sleep(REST_SECONDS)

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
