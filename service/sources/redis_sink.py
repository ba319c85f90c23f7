"""Appending to a Redis stream; an entry has the form that `redis_streams` reads."""

from collections.abc import Sequence
from typing import Any

from service.sources.contract import Entry, Options, Place, SourceDown
from service.sources.redis_connection import connect, down, where_is

PARTITION = "0"


class RedisSink:
    """Appends to one stream."""

    def __init__(self, url: str, stream: str, _: Options) -> None:
        self._where = where_is(url, stream)
        self._stream = stream
        self._redis = connect(url, retries=0)  # a blind repeat of XADD would append twice

    def append(self, entries: Sequence[Entry]) -> list[Place]:
        with down(self._where), self._redis.pipeline(transaction=False) as pipe:
            for entry in entries:
                pipe.xadd(self._stream, _fields(entry))
            answers = pipe.execute(raise_on_error=False)  # what it raises would repeat the command, events and all
        for answer in answers:
            if isinstance(answer, Exception):
                raise SourceDown(f"{self._where}: {answer}")
        return [Place(PARTITION, answer.decode()) for answer in answers]

    def close(self) -> None:
        self._redis.close()


def _fields(entry: Entry) -> dict[Any, Any]:
    fields = {"value": entry.value} | {f"h:{name}": value for name, value in entry.headers}
    return fields | ({"key": entry.key} if entry.key else {})
