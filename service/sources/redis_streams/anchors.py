"""Decide whether a Redis stream still has every entry that follows a reader's position.

Redis trims a stream at its old end. So no unread entry was trimmed while the entry at the position
is still there, and `XRANGE` from the position on shows both in one atomic step. If that entry is
missing or has another content, the stream's state decides:

- The last id is below the position, or another entry is at the position: the stream was recreated.
- No older entry is left: the position was trimmed. Redis 7 counts all entries that were ever added,
  so the number of lost entries is exact. Redis 6 has no such counter: entries that `lag` counted
  before are counted again, and without such a count the trim is a loss of unknown size.
- Older entries are left: the entry at the position was deleted on purpose (`XDEL`), or an older
  dump was restored. The second anchor, the entry before the position, shows which: only after a
  restore it is gone too. Redis 7 also remembers the largest id that was deleted.
- The entry at the position is there, but entries counted behind it are gone: a dump was restored.

`XDEL` of single entries is no loss while the entry at the position, or the one before it, is there.
Once the position is trimmed, deleted entries look the same as trimmed ones: both count as lost.
Redis 6 cannot show a trim of a stream that had no entry when the reader first looked at it.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from service.sources.base import Loss

BEGIN = "0-0"
MARK = re.compile(r"(\d*):(\d+):(\d+-\d+):(\d*)(?::(\d+-\d+):(\d+))?")
"""Checksum at the position, `ahead`, `counted`, `number`, id and checksum of the entry before. An
old mark has only the first four."""

Entry = tuple[bytes, list[bytes]]
"""An id, and the names and values of the entry's fields in alternation."""
Verdict = tuple[Loss | None, int]
"""Why entries are lost, and how many are known to be lost."""


class Anchors(NamedTuple):
    """A reader's position, and what must still be true of the stream there."""

    at: str
    """Id of the last entry that was delivered."""
    counted: str
    """Id of the last entry that was counted; the position if none was counted behind it."""
    ahead: int = 0
    """Number of entries after the position up to and including `counted`."""
    checksum: int | None = None
    """Checksum of the entry at the position; None if it was never seen."""
    before: tuple[str, int] | None = None
    """Id and checksum of the entry that was read before the one at the position."""
    number: int | None = None
    """Number of entries ever added up to the position; None if unknown, as in Redis 6."""

    def mark(self) -> str:
        checksum, number = ("" if n is None else n for n in (self.checksum, self.number))
        before = f":{self.before[0]}:{self.before[1]}" if self.before else ""
        return f"{checksum}:{self.ahead}:{self.counted}:{number}{before}"

    def advance(self, delivered: Sequence[Entry]) -> "Anchors":
        """Return the anchors after these entries were delivered. There is at least one."""
        name, fields = delivered[-1]
        before = (self.at, self.checksum) if self.checksum is not None else None
        if len(delivered) > 1:
            before = (text(delivered[-2][0]), checksum_of(delivered[-2][1]))
        number = None if self.number is None else self.number + len(delivered)
        return self._move_to(text(name), len(delivered))._replace(
            checksum=checksum_of(fields), before=before, number=number
        )

    def finish_at(self, at: str) -> "Anchors":
        """Return the anchors at the end up to which to read, if the entry there was deleted."""
        before = (self.at, self.checksum) if self.checksum is not None else self.before
        return self._move_to(at, 0)._replace(checksum=None, before=before)

    def _move_to(self, at: str, delivered: int) -> "Anchors":
        passed = order(at) >= order(self.counted)
        counted, ahead = (at, 0) if passed else (self.counted, self.ahead - delivered)
        return self._replace(at=at, counted=counted, ahead=ahead)


class State(NamedTuple):
    """What the server says of a stream in one atomic step. A missing id is 0-0."""

    first: str = BEGIN
    last: str = BEGIN
    newest: str = BEGIN
    """The largest id that was ever given out."""
    length: int = 0
    added: int | None = 0
    """Number of entries ever added; None in Redis 6."""
    deleted: str | None = None
    """The largest id that `XDEL` removed; None in Redis 6."""
    here: list[bytes] | None = None
    """Fields of the entry at the position."""
    before: list[bytes] | None = None
    """Fields of the entry before it."""
    counted: bool = False
    """Whether the last entry that was counted is there."""


# One script, so that all replies describe the same moment. It returns only what is compared.
ASK = """
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local info, reply = {}, redis.call('XINFO', 'STREAM', KEYS[1])
for index = 1, #reply, 2 do info[reply[index]] = reply[index + 1] end
local function id(entry) return entry and entry[1] or '0-0' end
local function fields(name)
  local found = redis.call('XRANGE', KEYS[1], name, name)
  return found[1] and found[1][2] or false
end
local here = fields(ARGV[1])
return {
  id(info['first-entry']), id(info['last-entry']), info['last-generated-id'], info['length'],
  info['entries-added'] or false, info['max-deleted-entry-id'] or false,
  here, not here and fields(ARGV[2]), fields(ARGV[3]) and 1 or 0}
"""
"""KEYS: stream. ARGV: ids of the entry at the position, of the one before, of the last counted."""


def read_state(reply: Sequence[Any]) -> State:
    """Read the reply of the script `ASK`. It is empty if there is no stream."""
    if not reply:
        return State()
    first, last, newest, length, added, deleted, here, before, counted = reply
    return State(
        text(first),
        text(last),
        text(newest),
        length,
        added,
        deleted=None if deleted is None else text(deleted),
        here=here,
        before=before,
        counted=counted == 1,
    )


def state_arguments(anchors: Anchors) -> list[str]:
    """Return the arguments of the script `ASK`."""
    return [anchors.at, anchors.before[0] if anchors.before else BEGIN, anchors.counted]


def anchors_at(at: str, state: State) -> Anchors:
    """Return the anchors of a reader that begins at the start or at the newest id of `state`."""
    if at != BEGIN:
        return Anchors(at, at, number=state.added)
    number = None if state.added is None else state.added - state.length
    # The entries that are there now are the only anchors of a reader that has read nothing.
    return Anchors(at, state.last, state.length, number=number)


def read_anchors(at: str, mark: str) -> Anchors:
    """Read the anchors of a bookmark.

    An old bookmark has no entry before the position, or no mark at all.
    """
    match = MARK.fullmatch(mark)
    if match is None:
        return Anchors(at, at)
    checksum, ahead, counted, number, name, total = match.groups()
    return Anchors(
        *(at, counted, int(ahead), int(checksum) if checksum else None),
        before=(name, int(total)) if name else None,
        number=int(number) if number else None,
    )


def loss(anchors: Anchors, state: State, count: Callable[[str, str], int]) -> Verdict:
    """Return why the stream no longer fits the anchors, and how many entries are lost.

    `count` counts the entries after one id up to another.
    """
    at = order(anchors.at)
    if at > order(state.newest) or _has_fewer(anchors, state):
        return "recreated", 0
    if state.here is not None and anchors.checksum not in (None, checksum_of(state.here)):
        return "recreated", 0
    if state.here is not None:
        return _check_counted(anchors, state, count)
    if state.first != BEGIN and order(state.first) <= at:
        return _check_restored(anchors, state) or _check_counted(anchors, state, count)
    return _check_trimmed(anchors, state, count)


def _has_fewer(anchors: Anchors, state: State) -> bool:
    """Whether fewer entries were ever added than were added up to the position."""
    if state.added is None or anchors.number is None:
        return False
    return state.added < anchors.number


def _check_counted(anchors: Anchors, state: State, count: Callable[[str, str], int]) -> Verdict:
    """Check the entries that were counted but not read. A single one may be deleted on purpose."""
    if state.counted or anchors.counted == anchors.at:
        return None, 0
    if state.deleted is not None and order(state.deleted) >= order(anchors.counted):
        return None, 0  # Redis 7 knows that it was deleted
    gone = anchors.ahead - count(anchors.at, anchors.counted)
    return ("truncated", gone) if gone > 1 else (None, 0)


def _check_restored(anchors: Anchors, state: State) -> Verdict | None:
    """Check entries that were read and are gone while older ones are there.

    Nobody deletes just the two entries at and before the position, so an older dump was restored.
    """
    if state.deleted is not None and order(state.deleted) < order(anchors.at):
        return ("truncated", 0) if anchors.checksum is not None else None
    if anchors.before is None:
        return None
    same = state.before is not None and checksum_of(state.before) == anchors.before[1]
    return None if same else ("truncated", 0)


def _check_trimmed(anchors: Anchors, state: State, count: Callable[[str, str], int]) -> Verdict:
    """Check whether unread entries were trimmed too. No entry up to the position is left."""
    if state.newest == anchors.at:
        return None, 0  # none was added after it
    gone = anchors.ahead and anchors.ahead - count(anchors.at, anchors.counted)
    if state.added is not None and anchors.number is not None:
        gone = state.added - anchors.number - state.length
        if gone < 0:  # fewer were removed than were read
            return "recreated", 0
    elif not anchors.ahead and (anchors.checksum, anchors.before) != (None, None):
        return "retention", 0
    return ("retention", gone) if gone > 0 else (None, 0)


def checksum_of(fields: Sequence[bytes]) -> int:
    checksum = 0
    for name, value in sorted(zip(fields[::2], fields[1::2], strict=True)):
        checksum = zlib.crc32(value, zlib.crc32(name, checksum))
    return checksum


def text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


def order(name: str) -> tuple[int, int]:
    """Return the pair of numbers by which ids are ordered."""
    milliseconds, _, serial = name.partition("-")
    return int(milliseconds), int(serial or 0)
