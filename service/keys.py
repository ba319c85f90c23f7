"""Keys of the HTTP side: who asks, what for, and how often. Only the SHA-256 of a key is kept anywhere.

Invariant: how long a lookup takes does not depend on which key is presented, or on how much of one is right.
"""

import hashlib
import hmac
import logging
import math
import os
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, PositiveInt, TypeAdapter, ValidationError, model_validator

from learners.registry import nearest
from service.configuration import read_yaml
from service.errors import BadSettings
from service.groups import Group

log = logging.getLogger("onepass")

Scope = Literal["predict", "events", "metrics", "admin"]

MOST_KEYS = 64
LOOK_SECONDS = 1.0
"""How often the file is looked at, at most."""
LARGEST_FILE = 262_144
"""More than the most keys take: nothing longer is read, since requests wait meanwhile."""
ADDRESSES = 1024
"""Of those who failed to show a key; the one that was silent longest is forgotten first."""
FAILURES = 10
"""That one address may have at once, and one more each second."""


class Key(Group):
    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    scopes: tuple[Scope, ...] = Field(min_length=1)
    rate: float | None = Field(default=None, ge=0.001, le=1e9)
    """Requests per second; without it as many as come."""
    burst: PositiveInt | None = None
    """Requests at once; without it as many as in a second."""
    expires: datetime | date | None = None
    """The first moment it is good no more, in UTC unless it says otherwise."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.burst is not None and self.rate is None:
            raise ValueError("burst needs rate")
        return self

    @property
    def ends(self) -> float:
        """`expires` as seconds since 1970."""
        if self.expires is None:
            return math.inf
        day = self.expires
        moment = day if isinstance(day, datetime) else datetime(day.year, day.month, day.day, tzinfo=UTC)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


Keys = TypeAdapter(Annotated[tuple[Key, ...], Field(max_length=MOST_KEYS)])


def new_key() -> str:
    """256 bits that nobody can guess, which is why one round of SHA-256 is enough to keep them by."""
    return f"op_{secrets.token_urlsafe(32)}"


def digest_of(key: str | bytes) -> str:
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).hexdigest()


def read_keys(path: Path) -> tuple[Key, ...]:
    """Every key of a file; a wrong one is told by its place in the list and the name of the field, never its value."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FILE:
            raise BadSettings(f"{path}: not a file of at most {LARGEST_FILE // 1024} KiB")
        values = read_yaml(path.read_text(encoding="utf-8"), str(path))
        if values is None:
            raise BadSettings(f"{path}: empty; no keys at all are written as []")
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read ({error.strerror}); make it with `onepass keys new`") from error
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path}: not UTF-8 text") from error
    try:
        keys = Keys.validate_python(values)
    except (ValidationError, RecursionError) as error:
        raise BadSettings(f"{path}: {_told(error)}") from error
    names = [key.name for key in keys]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadSettings(f"{path}: two keys are named {twice[0]}")
    return keys


def _told(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    faults = error.errors(include_url=False, include_input=False)
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    place, *names = fault["loc"] or ("",)
    where = f"key {place + 1}" if isinstance(place, int) else "the list of keys"
    name = ".".join(map(str, names[:2]))
    if fault["type"] == "extra_forbidden":
        return f"{where}: unknown key '{name}'{nearest(name, list(Key.model_fields))}"
    return f"{where}{', ' if name else ''}{name}: {fault['msg']}"


class Bucket:
    """A token bucket: `rate` in a second, `burst` at once."""

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate, self.burst = rate, burst
        self._tokens, self._at = burst, now

    def take(self, now: float) -> float:
        """0 if there was one to take, else the seconds until there is."""
        tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if tokens >= 1.0:
            self._tokens = tokens - 1.0
            return 0.0
        self._tokens = tokens
        return (1.0 - tokens) / self.rate


class Holder:
    """A key as the guard knows it."""

    __slots__ = ("bucket", "digest", "ends", "name", "scopes")

    def __init__(self, name: str, digest: bytes, scopes: frozenset[str], ends: float, bucket: Bucket | None) -> None:
        self.name, self.digest, self.scopes, self.ends, self.bucket = name, digest, scopes, ends, bucket


ANYONE = Holder("", b"", frozenset(get_args(Scope)), math.inf, None)
"""Who asks where no keys are configured."""


class Keyring:
    """The keys of a file, read anew when it changes; for one thread.

    Invariant: a file that cannot be used changes nothing, and the bucket of a key whose rate stays is not refilled.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._now = now
        self._seen = self._stamp()
        self._trouble = ""
        self._looked = now()
        self._holders = self._held(read_keys(path), {})
        self._warn_of_none()
        self._failed: OrderedDict[str, Bucket] = OrderedDict()

    @property
    def scopes(self) -> frozenset[str]:
        """What there is a key for."""
        return frozenset(scope for holder in self._holders for scope in holder.scopes)

    def find(self, presented: bytes) -> Holder | None:
        """Whose key this is; None if it is nobody's, or good no more."""
        now = self._now()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._look()
        digest = hashlib.sha256(presented).digest()
        found = None
        equal = hmac.compare_digest
        for holder in self._holders:
            if equal(holder.digest, digest):
                found = holder
        return found if found is not None and time.time() < found.ends else None

    def wait(self, holder: Holder) -> float:
        """0 if the key may be used now, else the seconds until it may."""
        return 0.0 if holder.bucket is None else holder.bucket.take(self._now())

    def failed(self, address: str) -> float:
        """Note that an address showed no key, or a wrong one; above 0 once it does so too often."""
        bucket = self._failed.get(address)
        if bucket is None:
            bucket = self._failed[address] = Bucket(1.0, FAILURES, self._now())
            if len(self._failed) > ADDRESSES:
                self._failed.popitem(last=False)
        self._failed.move_to_end(address)
        return bucket.take(self._now())

    def _look(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        try:
            self._holders = self._held(read_keys(self._path), {holder.digest: holder for holder in self._holders})
        except BadSettings as error:
            if str(error) != self._trouble:  # it is tried again each second: what was wrong may be the rights alone
                log.error("%s; the keys read before stay in use", error)  # noqa: TRY400 - the reason is in the line
            self._trouble = str(error)
        else:
            self._seen, self._trouble = stamp, ""
            log.info("keys read anew: %s", len(self._holders))
            self._warn_of_none()

    def _warn_of_none(self) -> None:
        if not self._holders:
            log.warning("%s has no key: every request for one is refused; `onepass keys new` makes one", self._path)

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - on the way of every second's first request
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _held(self, keys: tuple[Key, ...], before: dict[bytes, Holder]) -> tuple[Holder, ...]:
        holders = []
        for key in keys:
            digest = bytes.fromhex(key.sha256)
            bucket = None
            if key.rate is not None:
                bucket = Bucket(key.rate, key.burst or max(1, math.ceil(key.rate)), self._now())
                kept = before[digest].bucket if digest in before else None
                if kept is not None and (kept.rate, kept.burst) == (bucket.rate, bucket.burst):
                    bucket = kept
            holders.append(Holder(key.name, digest, frozenset(key.scopes), key.ends, bucket))
        return tuple(holders)
