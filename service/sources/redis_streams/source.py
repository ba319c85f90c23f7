"""A Redis stream as a log of one partition, "0". A position is the id of the last delivered entry.

An entry carries the event in its field `value`, a key in `key` and headers in fields named `h:…`.
Entries are read by `XRANGE` from the position on, so the same reply shows whether the entry at the
position is still there. If it is not, nothing is delivered before `anchors.loss` has decided.
A reply is bounded in bytes: the source asks for few entries at first, and for more while they are
small.
"""

import re
import time
from collections.abc import Iterable, Iterator
from typing import Literal

from service.sources.base import (
    BEGINNING,
    Bookmark,
    Gap,
    Options,
    Positions,
    Record,
    SourceLostError,
    SourceUnavailableError,
)
from service.sources.redis_streams.anchors import (
    ASK,
    BEGIN,
    Anchors,
    Entry,
    State,
    anchors_at,
    checksum_of,
    loss,
    order,
    read_anchors,
    read_state,
    state_arguments,
    text,
)
from service.sources.redis_streams.connection import (
    NoMemoryError,
    as_unavailable,
    connect,
    describe_stream,
)

PARTITION = "0"
ID = re.compile(r"\d+-\d+")
LONGEST_BLOCK = 2.0
"""Seconds: the longest wait in the server. It is well below the socket's timeout, which treats a
server that waits longer as dead."""
POLL_BYTES = 8 << 20
"""Bytes: a poll ends when its entries have this size."""
PIECE_BYTES = 1 << 20
"""Bytes: the wanted size of one reply. It holds at least one entry, however large."""
PIECE = 512
"""Entries: the most in one reply, so that few are in memory if entries suddenly become large."""

CHUNK = 500
"""Entries that the script `COUNT_AFTER` counts at once."""
COUNT_SECONDS = 0.1
"""Seconds that one call of `lag` counts. The next call continues from there."""
# Redis 6.2 has no counter of added entries. So a script counts them in the server, and only the
# count and the last id are sent. The script copies the entries and blocks the server meanwhile, so
# it takes few at once, and fewer of large ones.
COUNT_AFTER = f"""
local count, last, bytes, piece = 0, ARGV[1], 0, 1
while count < {CHUNK} and bytes < {POLL_BYTES} do
  local asked = math.min(piece, {CHUNK} - count)
  local found = redis.call('XRANGE', KEYS[1], '(' .. last, ARGV[2], 'COUNT', asked)
  local largest = 1
  for _, entry in ipairs(found) do
    local size = 0
    for _, part in ipairs(entry[2]) do size = size + #part end
    bytes, largest, last = bytes + size, math.max(largest, size), entry[1]
  end
  count = count + #found
  if #found < asked then break end
  piece = math.max(1, math.min(2 * piece, {PIECE}, math.floor({PIECE_BYTES} / largest)))
end
return {{count, last}}
"""
NEXT = """
local found = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 1)[1]
if not found then return {'none', 0} end
local size = 0
for _, part in ipairs(found[2]) do size = size + #part end
return {found[1], size}
"""
"""KEYS: stream. ARGV: an id. Returns id and size of the entry after it."""


class RedisSource:
    """One stream, read without a consumer group."""

    _anchors: Anchors
    _polled_from: Anchors
    """The anchors before the first entry of the last poll."""
    _end: str | None

    def __init__(
        self, url: str, stream: str, start: Literal["earliest", "latest"], options: Options
    ) -> None:
        self._where = describe_stream(url, stream)
        if options.only not in (None, PARTITION):
            raise SourceLostError(f"{self._where}: it has no partition {options.only}")
        self._stream = stream
        self._start = start
        self._on_data_loss = options.on_data_loss
        self._redis = connect(url, retries=1)
        # The raw reply is faster.
        self._redis.set_response_callback("XRANGE", lambda reply, **_: reply)
        self._ask = self._redis.register_script(ASK)
        self._count_after = self._redis.register_script(COUNT_AFTER)
        self._next = self._redis.register_script(NEXT)
        self._gaps: list[Gap] = []
        self._piece = 1
        self._polled: list[Entry] = []
        try:
            self.seek(BEGINNING)
        except BaseException:
            self.close()
            raise

    def seek(self, bookmark: Bookmark) -> None:
        at = bookmark.positions.get(PARTITION)
        if at is not None and not ID.fullmatch(at):
            raise SourceLostError(f"{self._where}: {at[:40]} is not the id of an entry")
        self._end = None
        self._gaps = []
        self._idle = False
        self._anchors = read_anchors(at or BEGIN, bookmark.marks.get(PARTITION, ""))
        state = self._state()
        if at is None:
            self._start_at(self._start, state)
        elif not self._handle_loss(state):
            self._set_checksum(state)

    def stop_at_end(self, end: Positions | None = None) -> Positions:
        state = self._state()
        self._end = state.last if end is None else end.get(PARTITION, self._anchors.at)
        if not ID.fullmatch(self._end) or order(self._end) > order(state.newest):
            raise SourceLostError(
                f"{self._where}: it ended at {self._end[:40]} and ends at {state.newest} now"
            )
        return {PARTITION: self._end}

    @property
    def at_end(self) -> bool:
        return self._end is not None and order(self._anchors.at) >= order(self._end)

    def poll(self, seconds: float, most: int) -> list[Record]:
        records: list[Record] = []
        size = 0
        self._polled = []
        while len(records) < most and size < POLL_BYTES and not self.at_end:
            count = min(self._piece, most - len(records))
            found = self._read_on(count) if records else self._read_first(count, seconds)
            if found:
                sizes = [sum(map(len, fields)) for _, fields in found]
                size += sum(sizes)
                self._piece = max(1, min(2 * self._piece, PIECE, PIECE_BYTES // max(*sizes, 1)))
                if not records:
                    self._polled_from = self._anchors
                self._anchors = self._anchors.advance(found)
                self._polled += found
                records += _records(found)
            if len(found) < count:
                break
        return records

    def bookmark(self, taken: int | None = None) -> Bookmark:
        anchors = (
            self._anchors if taken is None else self._polled_from.advance(self._polled[:taken])
        )
        return Bookmark({PARTITION: anchors.at}, {PARTITION: anchors.mark()})

    def gaps(self) -> list[Gap]:
        gaps, self._gaps = self._gaps, []
        return gaps

    def checkpointed(self, positions: Positions) -> None:
        """Do nothing: Redis has no lag tool for a stream without a group."""

    def lag(self) -> dict[str, int]:
        state = self._state()
        if self._handle_loss(state):
            state = self._state()
        until = time.monotonic() + COUNT_SECONDS
        behind = order(self._anchors.counted) < order(state.last)
        while behind and time.monotonic() < until:
            more, counted = self._count_chunk(self._anchors.counted, state.last)
            ahead = self._anchors.ahead + more
            self._anchors = self._anchors._replace(counted=counted, ahead=ahead)
            behind = more > 0 and order(counted) < order(state.last)
        if behind:  # not all are counted yet: return the upper limit
            return {PARTITION: max(self._anchors.ahead, state.length)}
        self._correct_number(state)
        return {PARTITION: self._anchors.ahead}

    def close(self) -> None:
        self._redis.close()

    def _read_first(self, count: int, seconds: float) -> list[Entry]:
        """Read the next entries. At the end of the stream, wait for new ones."""
        if not self._idle or self._end is not None:
            found, intact = self._read(count)
            if not intact and (found or self._end is not None) and self._handle_loss(self._state()):
                return []
            if not found and self._end is not None:  # the entry at the end was deleted
                self._anchors = self._anchors.finish_at(self._end)
            self._idle = len(found) < count
            if found or self._end is not None:
                return found
        self._idle = not self._wait(seconds)
        return [] if self._idle else self._read_first(count, 0)

    def _read_on(self, count: int) -> list[Entry]:
        """Read more entries in the same poll. Leave any error to the next poll."""
        try:
            found, intact = self._read(count)
        except SourceUnavailableError:
            return []
        self._idle = intact and len(found) < count
        return found if intact else []

    def _read(self, count: int) -> tuple[list[Entry], bool]:
        """Read entries after the position. Return them, and whether the anchors are unchanged."""
        anchors = self._anchors
        arguments = (self._stream, anchors.at, self._end or "+", "COUNT")
        try:
            with as_unavailable(self._where):
                found = self._redis.execute_command("XRANGE", *arguments, count + 1)
        except NoMemoryError as error:
            if count == 1:
                raise SourceUnavailableError(self._explain_too_large()) from error
            self._piece = 1
            return self._read(1)
        here = bool(found) and text(found[0][0]) == anchors.at
        intact = here and checksum_of(found[0][1]) == anchors.checksum
        found = found[1:] if here else found[:count]
        if found and order(anchors.at) < order(anchors.counted) < order(text(found[-1][0])):
            intact = intact and anchors.counted in {text(name) for name, _ in found}
        return found, intact

    def _explain_too_large(self) -> str:
        with as_unavailable(self._where):
            name, size = self._next(keys=[self._stream], args=[self._anchors.at])
        remedy = f"raise the memory limit, or delete it: XDEL {self._stream} {text(name)}"
        return f"{self._where}: no memory for entry {text(name)} of {size:,} bytes; {remedy}"

    def _wait(self, seconds: float) -> bool:
        """Wait for an entry. Return whether one came. `_read` reads it and checks the anchors."""
        block = int(min(seconds, LONGEST_BLOCK) * 1000)
        if block <= 0:  # BLOCK 0 would wait without a limit
            return False
        with as_unavailable(self._where):
            at = {self._stream: self._anchors.at}
            return bool(self._redis.xread(at, count=1, block=block))

    def _count(self, after: str, until: str) -> int:
        """Count the entries after one id, up to and including another."""
        total, more = 0, 1
        while more:
            more, after = self._count_chunk(after, until)
            total += more
        return total

    def _count_chunk(self, after: str, until: str) -> tuple[int, str]:
        with as_unavailable(self._where):
            more, last = self._count_after(keys=[self._stream], args=[after, until])
        return more, text(last)

    def _state(self) -> State:
        with as_unavailable(self._where):
            arguments = state_arguments(self._anchors)
            return read_state(self._ask(keys=[self._stream], args=arguments))

    def _start_at(self, start: Literal["earliest", "latest"], state: State) -> str:
        """Go to the start or end that the stream had in `state`. Return the first id there."""
        at = BEGIN if start == "earliest" else state.newest
        self._anchors = anchors_at(at, state)
        self._set_checksum(self._state())
        return state.first if at == BEGIN else at

    def _set_checksum(self, state: State) -> None:
        """Take the entry at the position as an anchor, if this source did not read it."""
        if self._anchors.checksum is None and state.here is not None:
            self._anchors = self._anchors._replace(checksum=checksum_of(state.here))

    def _correct_number(self, state: State) -> None:
        """Correct the position's number after all entries were counted.

        If entries were removed meanwhile, leave it as it is.
        """
        now = self._state() if state.added is not None else state
        if state.added is None or now.added is None:
            self._anchors = self._anchors._replace(number=None)
        elif now.added - now.length == state.added - state.length:
            self._anchors = self._anchors._replace(number=state.added - self._anchors.ahead)

    def _handle_loss(self, state: State) -> bool:
        """Whether entries after the position are lost. If so, raise, or by policy skip the gap."""
        if state.added is None:  # Redis 6: a number would mislead a Redis 7 that takes over
            self._anchors = self._anchors._replace(number=None)
        start = self._anchors.at
        reason, events = loss(self._anchors, state, self._count)
        if reason is None:
            if not state.counted:  # the last counted entry was deleted: count again
                self._anchors = self._anchors._replace(counted=start, ahead=0)
            return False
        if self._on_data_loss == "fail":
            why = {
                "recreated": "it is another stream",
                "retention": f"{events or 'some'} entries behind it were trimmed",
                "truncated": f"{events or 'some'} entries are gone: an older dump was restored",
            }[reason]
            remedy = "set source.on_data_loss to earliest or latest to go on with the gap recorded"
            seen = f"wanted the entries after {start}, its last id is {state.newest}"
            raise SourceLostError(f"{self._where}: {seen}: {why}; {remedy}")
        if self._on_data_loss == "latest" and reason == "retention":
            events += self._count(start, state.newest)
        end = self._start_at(self._on_data_loss, state)
        self._gaps.append(Gap(PARTITION, start, end, events, reason))
        self._idle = False
        return True


def _records(found: Iterable[Entry]) -> Iterator[Record]:
    for name, fields in found:
        position = text(name)
        written = int(position.partition("-")[0]) / 1000.0
        if len(fields) == 2 and fields[0] == b"value":
            value = fields[1]
        else:
            value = dict(zip(fields[::2], fields[1::2], strict=True)).get(b"value", b"")
        yield Record(PARTITION, position, position, value, written)
