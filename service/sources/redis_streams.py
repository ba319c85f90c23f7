"""A Redis stream as a log: one partition, "0", whose positions are the ids of the last delivered entries.

An entry carries the event in its field `value`, a key in `key` and headers in fields named `h:…`. A position
holds only while the stream's last id is not below it: ids only grow, so a smaller last id is another stream.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from service.sources.contract import Entry, Positions, Record, SourceDown, SourceLost

PARTITION = "0"
ID = re.compile(r"\d+-\d+")
BEGIN = "0-0"
SOCKET_SECONDS = 3.0
LONGEST_BLOCK = 2.0
"""Seconds; well below the socket's timeout, which would take a longer wait for a dead server."""

# Redis 6.2 has no counter of entries added: they are counted where they lie, only count and last id travel.
# A small chunk, because the script copies its entries within the server and stops it meanwhile.
CHUNK = 500
COUNT_AFTER = f"""
local found = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', {CHUNK})
if #found == 0 then return {{0, ARGV[1]}} end
return {{#found, found[#found][1]}}
"""


class RedisSource:
    """One stream, read without a consumer group."""

    def __init__(self, url: str, stream: str, start: Literal["earliest", "latest"]) -> None:
        self._where = _where(url, stream)
        self._stream = stream
        self._start = start
        self._redis = _connect(url, retries=1)
        self._count_after = self._redis.register_script(COUNT_AFTER)
        self._end: str | None = None
        self._at = self._counted = BEGIN
        self._ahead = 0
        try:
            self.seek({})
        except BaseException:
            self.close()
            raise

    def seek(self, positions: Mapping[str, str]) -> None:
        latest, _ = self._last()
        fresh = BEGIN if self._start == "earliest" else latest
        self._at = positions.get(PARTITION, fresh)
        if not ID.fullmatch(self._at):
            raise SourceLost(f"{self._where}: {self._at[:40]} is not the id of an entry")
        self._end = None
        self._counted, self._ahead = self._at, 0
        self._check(latest)

    def until_end(self) -> None:
        _, self._end = self._last()

    @property
    def exhausted(self) -> bool:
        return self._end is not None and _order(self._at) >= _order(self._end)

    def poll(self, seconds: float, most: int) -> list[Record]:
        if self.exhausted:
            return []
        with _down(self._where):
            if self._end is not None:
                found = self._redis.xrange(self._stream, f"({self._at}", self._end, count=most)
            else:
                block = int(min(seconds, LONGEST_BLOCK) * 1000) or None  # BLOCK 0 would wait for ever
                answer = self._redis.xread({self._stream: self._at}, count=most, block=block)
                found = [entry for chunks in answer.values() for chunk in chunks for entry in chunk]
        records = list(_records(found))
        if records:
            self._advance(records[-1].after, len(records))
        elif self._end is not None:  # the entry that was the end has been deleted
            self._advance(self._end, 0)
        return records

    def positions(self) -> Positions:
        return {PARTITION: self._at}

    def lag(self) -> dict[str, int]:
        latest, _ = self._last()
        self._check(latest)
        more = CHUNK
        while more == CHUNK:
            with _down(self._where):
                more, last = self._count_after(keys=[self._stream], args=[self._counted])
            self._ahead += more
            self._counted = _text(last)
        return {PARTITION: self._ahead}

    def close(self) -> None:
        self._redis.close()

    def _advance(self, at: str, delivered: int) -> None:
        """Go on to `at`; `_ahead` stays the number of entries after `_at` up to and with `_counted`."""
        self._at = at
        self._ahead -= delivered
        if _order(at) >= _order(self._counted):
            self._counted, self._ahead = at, 0

    def _last(self) -> tuple[str, str]:
        """The largest id ever given out, and the id of the last entry still there."""
        with _down(self._where):
            try:
                info: Any = self._redis.xinfo_stream(self._stream)
            except ResponseError as error:
                if "no such key" in str(error):
                    return BEGIN, BEGIN
                raise
        entry = info["last-entry"]
        return _text(info["last-generated-id"]), _text(entry[0]) if entry else BEGIN

    def _check(self, latest: str) -> None:
        if _order(self._at) > _order(latest):
            raise SourceLost(f"{self._where}: wanted what follows {self._at}, but its last id is {latest}")


class RedisSink:
    """Appends to one stream."""

    def __init__(self, url: str, stream: str) -> None:
        self._where = _where(url, stream)
        self._stream = stream
        self._redis = _connect(url, retries=0)  # a blind repeat of XADD would append twice

    def append(self, entries: Sequence[Entry]) -> None:
        with _down(self._where), self._redis.pipeline(transaction=False) as pipe:
            for entry in entries:
                pipe.xadd(self._stream, _fields(entry))
            answers = pipe.execute(raise_on_error=False)  # what it raises would repeat the command, events and all
        for answer in answers:
            if isinstance(answer, Exception):
                raise SourceDown(f"{self._where}: {answer}")

    def close(self) -> None:
        self._redis.close()


def _connect(url: str, retries: int) -> Any:
    return Redis.from_url(
        url,
        protocol=3,
        socket_timeout=SOCKET_SECONDS,
        socket_connect_timeout=SOCKET_SECONDS,
        health_check_interval=15,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries),
    )


@contextmanager
def _down(where: str) -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError, UnicodeError) as error:
        raise SourceDown(f"{where}: {' '.join(str(error).split())[:200]}") from error


def _where(url: str, stream: str) -> str:
    address = urlsplit(url)
    return f"Redis stream {stream} at {address.hostname}:{address.port}"


def _fields(entry: Entry) -> dict[Any, Any]:
    fields = {"value": entry.value} | {f"h:{name}": value for name, value in entry.headers}
    return fields | ({"key": entry.key} if entry.key else {})


def _records(found: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> Iterator[Record]:
    for name, fields in found:
        position = _text(name)
        yield Record(PARTITION, position, position, fields.get(b"value", b""))


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _order(name: str) -> tuple[int, int]:
    milliseconds, _, serial = name.partition("-")
    return int(milliseconds), int(serial or 0)
