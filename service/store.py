"""Checkpoints in Redis: written aside, then switched in by one Lua call that refuses anyone but the newest learner.

Only whole checkpoints become visible. A commit may be sent twice (the client repeats it after a lost reply), so it
knows its own id. Keys share a hash tag and thus a cluster slot:

    {m:NAME}:token          <counter>:<nonce>, the fencing number: who took it last may write
    {m:NAME}:head           list of manifests (JSON), newest first
    {m:NAME}:g:GEN:COMMIT   the snapshot of one generation; its name is never used again, so never overwritten
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from service.checkpoints import Corrupt, Fenced, Manifest, StoreDown
from service.errors import BadSettings
from service.settings import StoreSettings, without_password
from service.snapshot import BadSnapshot, Snapshot, decode, encode

ASIDE_MS = 600_000
"""A snapshot that was never switched in is forgotten after this time."""

ACQUIRE = """
-- KEYS token  ARGV nonce
local counter = tonumber(string.match(redis.call('GET', KEYS[1]) or '0:', '^(%d+):')) + 1
local token = counter .. ':' .. ARGV[1]
redis.call('SET', KEYS[1], token)
return token
"""

COMMIT = """
-- KEYS token, head, blob  ARGV token, generation, commit, length of the blob, manifest, keep
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'FENCED' end
local newest = redis.call('LINDEX', KEYS[2], 0)
local generation = 0
if newest then
  newest = cjson.decode(newest)
  if newest.commit == ARGV[3] then return 'OK' end
  generation = newest.generation
end
if generation + 1 ~= tonumber(ARGV[2]) then return 'CONFLICT' end
if redis.call('STRLEN', KEYS[3]) ~= tonumber(ARGV[4]) then return 'INCOMPLETE' end
redis.call('PERSIST', KEYS[3])
redis.call('LPUSH', KEYS[2], ARGV[5])
while redis.call('LLEN', KEYS[2]) > tonumber(ARGV[6]) do
  redis.call('UNLINK', cjson.decode(redis.call('RPOP', KEYS[2])).blob)
end
return 'OK'
"""


class RedisStore:
    """The checkpoints of one model."""

    def __init__(self, settings: StoreSettings, name: str) -> None:
        self._where = without_password(settings.url)
        self._keep = settings.keep
        self._prefix = f"{{m:{name}}}"
        self._token = ""
        self._generation = 0
        password = _password(settings)
        try:
            self._redis: Any = redis.Redis.from_url(
                settings.url,
                password=password,
                socket_timeout=3,
                socket_connect_timeout=2,
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 1),
                client_name="onepass",
                protocol=3,
            )
        except ValueError as error:  # which may repeat a part of the password
            raise BadSettings("store.url: not the address of a Redis: use redis[s]://host:port/db") from error

    def acquire(self) -> None:
        with _translated(self._where):
            self._token = self._redis.eval(ACQUIRE, 1, f"{self._prefix}:token", uuid.uuid4().hex).decode()

    def load(self) -> tuple[Manifest, Snapshot] | None:
        manifest = self.newest()
        self._generation = manifest.generation if manifest else 0
        return (manifest, self.read(manifest)) if manifest else None

    def newest(self) -> Manifest | None:
        with _translated(self._where):
            head = self._redis.lindex(f"{self._prefix}:head", 0)
        try:
            return None if head is None else msgspec.json.decode(head, type=Manifest)
        except msgspec.DecodeError as error:
            raise Corrupt(f"{self._prefix}:head in {self._where} is not a manifest: {error}") from error

    def read(self, manifest: Manifest) -> Snapshot:
        with _translated(self._where):
            data = self._redis.get(manifest.blob)
        try:
            return decode(data or b"")
        except BadSnapshot as error:
            raise Corrupt(f"generation {manifest.generation} in {self._where}: {error}") from error

    def save(self, snapshot: Snapshot) -> Manifest:
        data = encode(snapshot)
        manifest, answer = self._commit(snapshot, data)
        if answer == "CONFLICT" and self._caught_up():
            manifest, answer = self._commit(snapshot, data)
        if answer == "INCOMPLETE":
            raise StoreDown(f"Redis at {self._where} lost a snapshot that was being written")
        if answer == "FENCED":
            raise Fenced(f"another learner of this model has taken over at {self._where}")
        if answer != "OK":
            raise Fenced(f"the checkpoints at {self._where} are not those that this learner wrote: removed or replaced")
        self._generation = manifest.generation
        return manifest

    def _commit(self, snapshot: Snapshot, data: bytes) -> tuple[Manifest, str]:
        generation, commit = self._generation + 1, uuid.uuid4().hex
        manifest = Manifest(
            generation=generation,
            commit=commit,
            token=self._token,
            created=time.time(),
            blob=f"{self._prefix}:g:{generation}:{commit}",
            size=len(data),
            events=snapshot.events,
            state_digest=snapshot.state_digest,
        )
        keys = [f"{self._prefix}:token", f"{self._prefix}:head", manifest.blob]
        arguments = [self._token, generation, commit, len(data), msgspec.json.encode(manifest), self._keep]
        with _translated(self._where):
            self._redis.set(manifest.blob, data, px=ASIDE_MS)
            return manifest, self._redis.eval(COMMIT, len(keys), *keys, *arguments).decode()

    def _caught_up(self) -> bool:
        """Whether the newest generation is our own, by a commit whose reply was lost; then the next counts from it."""
        newest = self.newest()
        if newest is None or newest.token != self._token:
            return False
        self._generation = newest.generation
        return True

    def close(self) -> None:
        self._redis.close()


@contextmanager
def _translated(where: str) -> Iterator[None]:
    """Redis' errors as ours; the client has retried already."""
    try:
        yield
    except (redis.RedisError, UnicodeError) as error:  # a host name may be no host name
        raise StoreDown(f"Redis at {where}: {' '.join(str(error).split())[:200]}") from error


def _password(settings: StoreSettings) -> str | None:
    try:
        if settings.password_file is not None:
            return settings.password_file.read_text(encoding="utf-8").splitlines()[0]
        password = settings.password.get_secret_value() if settings.password else None
        (password or "").encode()
    except (OSError, UnicodeError, IndexError) as error:
        raise BadSettings("store.password, store.password_file: no readable first line of UTF-8 text") from error
    return password
