"""Append entries to a Redis stream, in the form that `RedisSource` reads."""

from collections.abc import Sequence
from typing import Any

from service.sources.base import Entry, Options, Position, SourceUnavailableError
from service.sources.redis_streams.connection import as_unavailable, connect, describe_stream

PARTITION = "0"


class RedisSink:
    """Appends to one stream."""

    def __init__(self, url: str, stream: str, _: Options) -> None:
        self._where = describe_stream(url, stream)
        self._stream = stream
        self._redis = connect(url, retries=0)  # a blind repeat of XADD would append twice

    def append(self, entries: Sequence[Entry]) -> list[Position]:
        with as_unavailable(self._where), self._redis.pipeline(transaction=False) as pipe:
            for entry in entries:
                pipe.xadd(self._stream, _fields(entry))
            # With raise_on_error the exception would hold the whole command, with its events.
            replies = pipe.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception):
                raise SourceUnavailableError(f"{self._where}: {reply}")
        return [Position(PARTITION, reply.decode()) for reply in replies]

    def close(self) -> None:
        self._redis.close()


def _fields(entry: Entry) -> dict[Any, Any]:
    fields = {"value": entry.value} | {f"h:{name}": value for name, value in entry.headers}
    return fields | ({"key": entry.key} if entry.key else {})
