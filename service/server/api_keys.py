"""API keys: who sends a request, what it may do, and how often. Only a key's SHA-256 is stored.

Invariant: the time of a lookup does not depend on which key is presented, or on how much of it is
right.
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
from service.config.loader import read_yaml
from service.config.settings import SettingsModel
from service.errors import SettingsError

log = logging.getLogger("onepass")

Scope = Literal["predict", "events", "metrics", "admin"]

MOST_KEYS = 64
CHECK_SECONDS = 1.0
"""Seconds: the least time between two checks whether the file has changed."""
REFUSE_SECONDS = 300.0
"""Seconds after which an unusable file invalidates every key, because a key that was removed
meanwhile must not stay valid.
"""
LARGEST_FILE = 262_144
"""Bytes: more than `MOST_KEYS` keys take. A longer file is not read, since requests wait meanwhile.
"""
ADDRESSES = 1024
"""Addresses that sent no valid key and are remembered. The one silent for longest is forgotten
first.
"""
FAILURES = 10
"""Failures that one address may have at once. One more is allowed each second."""


class Key(SettingsModel):
    """A key as the file has it."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    scopes: tuple[Scope, ...] = Field(min_length=1)
    rate: float | None = Field(default=None, ge=0.001, le=1e9)
    """Requests per second; None: no limit."""
    burst: PositiveInt | None = None
    """Requests at once; None: as many as in a second."""
    expires: datetime | date | None = None
    """The key is refused from this moment on, in UTC unless it names a time zone."""

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
        moment = (
            day if isinstance(day, datetime) else datetime(day.year, day.month, day.day, tzinfo=UTC)
        )
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


Keys = TypeAdapter(Annotated[tuple[Key, ...], Field(max_length=MOST_KEYS)])


def new_key() -> str:
    """Make a key of 256 random bits. Nobody can guess it, so one round of SHA-256 protects it."""
    return f"op_{secrets.token_urlsafe(32)}"


def digest_of(key: str | bytes) -> str:
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).hexdigest()


def read_keys(path: Path) -> tuple[Key, ...]:
    """Read every key of a file. An error names a key's number and field, never its value."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FILE:
            raise SettingsError(f"{path}: not a file of at most {LARGEST_FILE // 1024} KiB")
        values = read_yaml(path.read_text(encoding="utf-8"), str(path))
        if values is None:
            raise SettingsError(f"{path}: empty; for a file without keys write []")
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read ({error.strerror}); make it with `onepass keys new`"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text") from error
    try:
        keys = Keys.validate_python(values)
    except (ValidationError, RecursionError) as error:
        raise SettingsError(f"{path}: {_describe_fault(error)}") from error
    names = [key.name for key in keys]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError(f"{path}: two keys are named {twice[0]}")
    return keys


class Bucket:
    """A token bucket: `rate` in a second, `burst` at once."""

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate, self.burst = rate, burst
        self._tokens, self._at = burst, now

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if tokens >= 1.0:
            self._tokens = tokens - 1.0
            return 0.0
        self._tokens = tokens
        return (1.0 - tokens) / self.rate


class ApiKey:
    """A key as the middleware knows it."""

    __slots__ = ("bucket", "digest", "ends", "name", "scopes")

    def __init__(
        self, name: str, digest: bytes, scopes: frozenset[str], ends: float, bucket: Bucket | None
    ) -> None:
        self.name, self.digest, self.scopes, self.ends, self.bucket = (
            name,
            digest,
            scopes,
            ends,
            bucket,
        )


ANYONE = ApiKey("", b"", frozenset(get_args(Scope)), math.inf, None)
"""The key of every request where no keys are configured."""


class KeyFile:
    """The keys of a file, which is read again when it changes. For one thread.

    Invariants: a file that cannot be used changes nothing for `REFUSE_SECONDS`, then every key is
    refused until it can be used again. The bucket of a key whose rate stays is not refilled.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._now = now
        self._read_stamp = self._stamp()
        self._fault = ""
        self._unusable_since: float | None = None
        self._refusing = False
        self._checked_at = now()
        self._holders = self._make_holders(read_keys(path), {})
        self._warn_if_empty()
        self._failed: OrderedDict[str, Bucket] = OrderedDict()

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of all keys."""
        return frozenset(scope for holder in self._holders for scope in holder.scopes)

    @property
    def usable(self) -> bool:
        """Whether the file could be used at the last check."""
        return self._unusable_since is None

    def find(self, presented: bytes) -> ApiKey | None:
        """Find the key that was presented. Return None if it is unknown or expired."""
        now = self._now()
        if now - self._checked_at >= CHECK_SECONDS:
            self._checked_at = now
            self._reload_if_changed()
        if self._refusing:
            return None
        digest = hashlib.sha256(presented).digest()
        found = None
        equal = hmac.compare_digest
        for holder in self._holders:
            if equal(holder.digest, digest):
                found = holder
        return found if found is not None and time.time() < found.ends else None

    def wait(self, holder: ApiKey) -> float:
        """Count a request of this key and return 0, or return the seconds until one is allowed."""
        return 0.0 if holder.bucket is None else holder.bucket.take(self._now())

    def failed(self, address: str) -> float:
        """Count a request without a valid key. Return 0, or the seconds to wait after too many."""
        bucket = self._failed.get(address)
        if bucket is None:
            bucket = self._failed[address] = Bucket(1.0, FAILURES, self._now())
            if len(self._failed) > ADDRESSES:
                self._failed.popitem(last=False)
        self._failed.move_to_end(address)
        return bucket.take(self._now())

    def _reload_if_changed(self) -> None:
        stamp = self._stamp()
        if stamp == self._read_stamp:
            return
        try:
            self._holders = self._make_holders(
                read_keys(self._path), {holder.digest: holder for holder in self._holders}
            )
        except SettingsError as error:
            self._note_unusable(str(error))
        else:
            self._read_stamp, self._fault = stamp, ""
            self._unusable_since, self._refusing = None, False
            log.info("keys reloaded: %s", len(self._holders))
            self._warn_if_empty()

    def _note_unusable(self, fault: str) -> None:
        """Log the fault, and refuse every key if it lasts. The file is tried again each second,
        because only its permissions may be wrong.
        """
        if fault != self._fault:
            log.error("%s; the previous keys stay valid for at most %g s", fault, REFUSE_SECONDS)
        self._fault = fault
        if self._unusable_since is None:
            self._unusable_since = self._checked_at
        if not self._refusing and self._checked_at - self._unusable_since >= REFUSE_SECONDS:
            self._refusing = True
            log.error(
                "%s, for %g s now: every key is refused until the file can be used",
                fault,
                REFUSE_SECONDS,
            )

    def _warn_if_empty(self) -> None:
        if not self._holders:
            log.warning(
                "%s has no key: every request that needs one is refused; add a key with"
                " `onepass keys new`",
                self._path,
            )

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - a request waits for it
        except OSError:
            return ()
        # The change time shows at once that permissions were withdrawn.
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def _make_holders(
        self, keys: tuple[Key, ...], before: dict[bytes, ApiKey]
    ) -> tuple[ApiKey, ...]:
        holders = []
        for key in keys:
            digest = bytes.fromhex(key.sha256)
            bucket = None
            if key.rate is not None:
                bucket = Bucket(key.rate, key.burst or max(1, math.ceil(key.rate)), self._now())
                old = before[digest].bucket if digest in before else None
                if old is not None and (old.rate, old.burst) == (bucket.rate, bucket.burst):
                    bucket = old
            holders.append(ApiKey(key.name, digest, frozenset(key.scopes), key.ends, bucket))
        return tuple(holders)


def _describe_fault(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    faults = error.errors(include_url=False, include_input=False)
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    index, *names = fault["loc"] or ("",)
    where = f"key {index + 1}" if isinstance(index, int) else "the list of keys"
    name = ".".join(map(str, names[:2]))
    if fault["type"] == "extra_forbidden":
        return f"{where}: unknown key '{name}'{nearest(name, list(Key.model_fields))}"
    return f"{where}{', ' if name else ''}{name}: {fault['msg']}"
