"""Publish durable positions as offsets of a consumer group, for lag tools, in a separate thread.

The clients that read do not use this group. With it kafka-python would not read without the group's
coordinator, and librdkafka would wait at its close for commits that fail. A log must be readable
also where the group is not allowed or not available. Errors here are only logged.
"""

import logging
import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue

from kafka import KafkaAdminClient, TopicPartition  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from service.config.settings import Security
from service.sources.base import Options
from service.sources.kafka.auth import for_kafka_python

RETRY_SECONDS = 10.0
"""Seconds to wait after an error, because each try makes a new connection."""

_log = logging.getLogger(__name__)


def commits_of(bootstrap: str, topic: str, options: Options) -> "GroupOffsetPublisher | None":
    return (
        None
        if options.group is None
        else GroupOffsetPublisher(bootstrap, options.security, topic, options.group)
    )


class GroupOffsetPublisher:
    """Commits the newest positions. It skips older ones that were offered during a commit.

    The thread starts with the first offer.
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
                self._commit_until_error(positions)
            except Exception as error:  # noqa: BLE001 - only lag tools read it
                _log.debug("offsets of group %s are not committed: %s", self._group, error)
                time.sleep(RETRY_SECONDS)

    def _commit_until_error(self, positions: Mapping[int, int] | None) -> None:
        servers = {"bootstrap_servers": self._bootstrap.split(","), "bootstrap_timeout_ms": 3_000}
        with KafkaAdminClient(**servers, **for_kafka_python(self._security)) as admin:
            while positions is not None:
                offsets = {
                    TopicPartition(self._topic, number): OffsetAndMetadata(at, "", -1)
                    for number, at in positions.items()
                }
                admin.alter_group_offsets(self._group, offsets)
                positions = self._newest()
        self.close()  # ends the loop in `_run`

    def _newest(self) -> Mapping[int, int] | None:
        newest = self._offers.get()
        while newest is not None and not self._offers.empty():
            newest = self._offers.get()
        return newest
