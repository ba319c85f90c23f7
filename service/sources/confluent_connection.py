"""How librdkafka is told to connect, and what it says when it cannot."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError

from service.log_settings import Security
from service.sources.contract import SourceDown
from service.sources.kafka_security import authentication_failed, for_confluent, knock

ASK_SECONDS = 3.0
HEAR_SECONDS = 0.05


class Connection:
    """The words for a connection, and whether a broker has refused it."""

    def __init__(self, bootstrap: str, security: Security | None) -> None:
        knock(bootstrap, security)
        self.bootstrap = bootstrap
        self.security = security
        self._refused = False
        self.words: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "error_cb": self._hear,
            "log_level": 0,  # every error is raised to the caller
            "socket.connection.setup.timeout.ms": 3_000,
            **for_confluent(security),
        }

    def down(self, error: object) -> SourceDown:
        if self._refused:
            return authentication_failed(self.bootstrap, self.security)
        return SourceDown(f"Kafka at {self.bootstrap} does not answer: {error}")

    def wait(self, future: "Future[Any]", hear: Callable[[float], object]) -> Any:
        """The future's result; a refused login is not waited for, since the library tries it again and again."""
        deadline = time.monotonic() + ASK_SECONDS
        while True:
            try:
                return future.result(HEAR_SECONDS)
            except TimeoutError as error:
                hear(0)  # calls `_hear` back
                if self._refused or time.monotonic() > deadline:
                    raise self.down("no answer in time") from error

    def _hear(self, error: Any) -> None:
        self._refused |= error.code() == KafkaError._AUTHENTICATION  # noqa: SLF001
