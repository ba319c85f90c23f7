"""A Redis stream as a log: one partition, "0", whose positions are the ids of the last delivered entries.

An entry carries the event in its field `value`, a key in `key` and headers in fields named `h:…`. A stream made anew is
known by a last id below the position (ids only grow), or by another entry at the position. Entries that were trimmed
before they were read are counted by Redis 7, which knows how many there ever were; of Redis 6 they are known as far as
`lag` had counted them before. Trimming is looked for when the entry at the position is gone.
"""

import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from redis.exceptions import ResponseError

from service.sources.contract import (
    BEGINNING,
    Bookmark,
    Gap,
    Loss,
    Options,
    Positions,
    Record,
    SourceLost,
)
from service.sources.redis_connection import connect, down, where_is

PARTITION = "0"
ID = re.compile(r"\d+-\d+")
MARK = re.compile(r"(\d+):(\d+):(\d+-\d+):(\d*)")
"""Checksum of the entry at the position; how many entries were counted behind it, up to which id; its own number."""
BEGIN = "0-0"
LONGEST_BLOCK = 2.0
"""Seconds; well below the socket's timeout, which would take a longer wait for a dead server."""

# Redis 6.2 has no counter of entries added: they are counted where they lie, only count and last id travel.
# A small chunk, because the script copies its entries within the server and stops it meanwhile.
CHUNK = 500
COUNT_SECONDS = 0.1
"""Of one look at a backlog; the next look counts on from there."""
COUNT_AFTER = f"""
local found = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], ARGV[2], 'COUNT', {CHUNK})
if #found == 0 then return {{0, ARGV[1]}} end
return {{#found, found[#found][1]}}
"""


class RedisSource:
    """One stream, read without a consumer group."""

    def __init__(self, url: str, stream: str, start: Literal["earliest", "latest"], options: Options) -> None:
        self._where = where_is(url, stream)
        if options.only not in (None, PARTITION):
            raise SourceLost(f"{self._where}: it has no partition {options.only}")
        self._stream = stream
        self._start = start
        self._on_lost = options.on_lost
        self._redis = connect(url, retries=1)
        self._count_after = self._redis.register_script(COUNT_AFTER)
        self._gaps: list[Gap] = []
        try:
            self.seek(BEGINNING)
        except BaseException:
            self.close()
            raise

    def seek(self, bookmark: Bookmark) -> None:
        state = self._state()
        fresh = BEGIN if self._start == "earliest" else state.newest
        self._at = bookmark.positions.get(PARTITION, fresh)
        if not ID.fullmatch(self._at):
            raise SourceLost(f"{self._where}: {self._at[:40]} is not the id of an entry")
        self._end: str | None = None
        self._gaps = []
        self._counted, self._ahead = self._at, 0
        mark = MARK.fullmatch(bookmark.marks.get(PARTITION, ""))
        self._sum = int(mark[1]) if mark else None
        self._number = int(mark[4]) if mark and mark[4] else None
        if mark:
            self._counted, self._ahead = mark[3], int(mark[2])
        self._check(state)

    def until_end(self, end: Positions | None = None) -> Positions:
        state = self._state()
        self._end = state.last if end is None else end.get(PARTITION, self._at)
        if not ID.fullmatch(self._end) or _order(self._end) > _order(state.newest):
            raise SourceLost(f"{self._where}: it ended at {self._end[:40]} and ends at {state.newest} now")
        return {PARTITION: self._end}

    @property
    def exhausted(self) -> bool:
        return self._end is not None and _order(self._at) >= _order(self._end)

    def poll(self, seconds: float, most: int) -> list[Record]:
        if self.exhausted:
            return []
        with down(self._where):
            if self._end is not None:
                found = self._redis.xrange(self._stream, f"({self._at}", self._end, count=most)
            else:
                block = int(min(seconds, LONGEST_BLOCK) * 1000) or None  # BLOCK 0 would wait for ever
                answer = self._redis.xread({self._stream: self._at}, count=most, block=block)
                found = [entry for chunks in answer.values() for chunk in chunks for entry in chunk]
        records = list(_records(found))
        if records:
            self._sum = _checksum(found[-1][1])
            self._advance(records[-1].after, len(records))
        elif self._end is not None:  # the entry that was the end has been deleted
            self._advance(self._end, 0)
        return records

    def bookmark(self) -> Bookmark:
        number = "" if self._number is None else self._number
        marks = {} if self._sum is None else {PARTITION: f"{self._sum}:{self._ahead}:{self._counted}:{number}"}
        return Bookmark({PARTITION: self._at}, marks)

    def gaps(self) -> list[Gap]:
        gaps, self._gaps = self._gaps, []
        return gaps

    def settled(self, positions: Positions) -> None:
        """Redis has no lag tool for a stream without a group."""

    def lag(self) -> dict[str, int]:
        state = self._state()
        self._check(state)
        until = time.monotonic() + COUNT_SECONDS
        while _order(self._counted) < _order(state.newest) and time.monotonic() < until:
            more, last = self._chunk(self._counted, state.newest)
            self._ahead += more
            self._counted = last if more == CHUNK else state.newest
        if _order(self._counted) < _order(state.newest):  # a long way to count: so many it is at most
            return {PARTITION: max(self._ahead, state.length)}
        self._number = None if state.added is None else state.added - self._ahead
        return {PARTITION: self._ahead}

    def close(self) -> None:
        self._redis.close()

    def _advance(self, at: str, delivered: int) -> None:
        """Go on to `at`; `_ahead` stays the number of entries after `_at` up to and with `_counted`."""
        self._at = at
        self._ahead -= delivered
        if self._number is not None:
            self._number += delivered
        if _order(at) >= _order(self._counted):
            self._counted, self._ahead = at, 0

    def _count(self, after: str, until: str) -> int:
        """Entries after one id, up to and with another."""
        total, more = 0, CHUNK
        while more == CHUNK:
            more, after = self._chunk(after, until)
            total += more
        return total

    def _chunk(self, after: str, until: str) -> tuple[int, str]:
        with down(self._where):
            more, last = self._count_after(keys=[self._stream], args=[after, until])
        return more, _text(last)

    def _state(self) -> "State":
        with down(self._where):
            try:
                info: Any = self._redis.xinfo_stream(self._stream)
            except ResponseError as error:
                if "no such key" in str(error):
                    return State(BEGIN, BEGIN, BEGIN, 0, None)
                raise
        first, last = (_text(entry[0]) if entry else BEGIN for entry in (info["first-entry"], info["last-entry"]))
        return State(first, last, _text(info["last-generated-id"]), info["length"], info.get("entries-added"))

    def _check(self, state: "State") -> None:
        """Whether the stream still has what follows the position; if not, stop, or by policy go on elsewhere."""
        reason, events = self._loss(state)
        if reason is None:
            return
        if self._on_lost == "fail":
            why = (
                "it is another stream"
                if reason == "recreated"
                else f"{events or 'some'} entries behind it were trimmed"
            )
            remedy = "set source.on_lost to earliest or latest to go on with the gap recorded"
            raise SourceLost(
                f"{self._where}: wanted what follows {self._at}, its last id is {state.newest}: {why}; {remedy}"
            )
        start, self._at = self._at, BEGIN if self._on_lost == "earliest" else state.newest
        if self._on_lost == "latest" and reason == "retention":
            events += self._count(start, state.newest)
        self._gaps.append(Gap(PARTITION, start, state.first if self._at == BEGIN else self._at, events, reason))
        self._counted, self._ahead, self._sum, self._number = self._at, 0, None, None

    def _loss(self, state: "State") -> tuple[Loss | None, int]:
        """Why the stream no longer fits, and how many entries are known to be gone."""
        at = _order(self._at)
        fewer = self._number is not None and state.added is not None and state.added < self._number
        if at > _order(state.newest) or fewer:
            return "recreated", 0
        with down(self._where):
            here = self._redis.xrange(self._stream, self._at, self._at) if self._sum is not None else []
        if here:
            return ("recreated", 0) if _checksum(here[0][1]) != self._sum else (None, 0)
        if self._at == BEGIN or (state.first != BEGIN and _order(state.first) <= at):
            return None, 0  # older entries are there still: this one alone was deleted
        gone = self._ahead and self._ahead - self._count(self._at, self._counted)
        if self._number is not None and state.added is not None:
            gone = state.added - self._number - state.length
        return ("retention", gone) if gone > 0 else (None, 0)


class State(NamedTuple):
    """A stream; an id is 0-0 where there is none."""

    first: str
    last: str
    newest: str
    """The largest that was ever given out."""
    length: int
    added: int | None
    """Entries that there ever were; Redis 6 does not tell."""


def _records(found: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> Iterator[Record]:
    for name, fields in found:
        position = _text(name)
        written = int(position.partition("-")[0]) / 1000.0
        yield Record(PARTITION, position, position, fields.get(b"value", b""), written)


def _checksum(fields: Mapping[bytes, bytes]) -> int:
    checksum = 0
    for name, value in sorted(fields.items()):
        checksum = zlib.crc32(value, zlib.crc32(name, checksum))
    return checksum


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _order(name: str) -> tuple[int, int]:
    milliseconds, _, serial = name.partition("-")
    return int(milliseconds), int(serial or 0)
