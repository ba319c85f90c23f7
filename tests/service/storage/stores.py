"""Snapshots and stores for the tests of checkpoints in Redis, and clients some of whose
calls fail.
"""

from functools import partial

import numpy as np
import redis
from redis import Redis

from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import Snapshot, encode
from service.checkpoint.store import Acquired, Manifest
from service.config.settings import LONGEST_LEASE_SECONDS, CheckpointSettings, StoreSettings
from service.sources.base import Bookmark
from service.storage import RedisStore
from service.storage.manifests import parse_entry as open_entry
from tests.waiting import wait_for

SIZE = 64
MIB = 1024 * 1024


def whole(events: int, size: int = SIZE, weights=None) -> Snapshot:
    """Return a whole snapshot whose state shows its number of events."""
    arrays = {
        "progress/events": np.array([events]),
        "progress/errors": np.array([events // 2]),
        "state/w": np.arange(size) + float(events) if weights is None else weights,
    }
    bookmark = Bookmark({"0": str(events)}, {})
    return Snapshot(
        {"learner": {"kind": "pa1"}}, ["a"], bookmark, Lineage(), {"type": 2}, None, arrays
    )


def delta(events: int, changed: dict[int, float]) -> Snapshot:
    slots = np.array(sorted(changed), dtype=np.int64)
    values = np.array([changed[slot] for slot in sorted(changed)])
    base = whole(events)
    return base._replace(
        arrays=base.arrays | {"state/w": values, "slots": slots}, sliced=("state/w",)
    )


def make_store(url: str, *, name: str = "m", **settings) -> RedisStore:
    """Return a store whose lease is so long that no busy machine loses it."""
    settings = {"lease_seconds": LONGEST_LEASE_SECONDS} | settings
    retention = {key: settings.pop(key) for key in ("keep", "keep_levels") if key in settings}
    return RedisStore(StoreSettings(url=url, **settings), name, CheckpointSettings(**retention))


def open_store(url: str, **settings) -> RedisStore:
    store = make_store(url, **settings)
    store.acquire()
    store.load()
    return store


def take_over(client: Redis, url: str, **settings) -> RedisStore:
    """Open a store as if the lease of the current learner had run out."""
    store = make_store(url, **settings)

    def taken() -> bool:  # the learner may renew its lease in between
        client.delete("{m:m}:lease")
        return store.acquire() is not Acquired.HELD_ELSEWHERE

    wait_for(taken, "the lease")
    store.load()
    return store


def stop_renewing(store: RedisStore) -> None:
    store._lease._stop.set()
    store._lease._thread.join()


def abandon(store: RedisStore) -> None:
    """End like a killed process: the lease stays."""
    stop_renewing(store)
    store._keyspace.close()


def keys(client: Redis) -> list[str]:
    return sorted(key.decode() for key in client.scan_iter(count=1000))


def contents(client: Redis) -> dict[str, bytes]:
    """Return all keys with their values, without the lease, which ends by itself."""
    return {key: client.dump(key) for key in keys(client) if not key.endswith(":lease")}


def manifests(client: Redis) -> list[Manifest | None]:
    return [open_entry(raw).manifest for raw in client.lrange("{m:m}:head", 0, -1)]


def same(one: Snapshot, other: Snapshot) -> bool:
    return encode(one.with_digest()).sha256 == encode(other.with_digest()).sha256


class Faulty:
    """A client some of whose calls fail: `instead` maps a call to its replacement, which gets the
    real client.
    """

    def __init__(self, client: Redis, **instead) -> None:
        self._client = client
        self._instead = instead

    def __getattr__(self, name: str):
        if name in self._instead:
            return partial(self._instead[name], self._client)
        return getattr(self._client, name)


def done_but_no_reply(client: Redis, *arguments):
    client.eval(*arguments)
    raise redis.ConnectionError("the reply was lost")


def cut_off(*_, **__):
    raise redis.ConnectionError("cut off")


class Broken:
    """While inside, these calls of the store's client are replaced."""

    def __init__(self, store: RedisStore, **instead) -> None:
        self._keyspace = store._keyspace
        self._instead = instead

    def __enter__(self):
        self._real = self._keyspace.client
        self._keyspace._client = Faulty(self._real, **self._instead)

    def __exit__(self, *_):
        self._keyspace._client = self._real
