"""Checkpoints in a real Redis: whole or not at all, one writer, nothing forgotten that was acknowledged."""

import threading
import time
from contextlib import closing
from functools import partial

import msgspec
import numpy as np
import pytest
import redis
from redis import Redis

from service.checkpoints import Corrupt, Fenced, Manifest, StoreDown
from service.embedded.process import free_port
from service.embedded.redis import redis_server
from service.errors import BadSettings
from service.settings import StoreSettings
from service.snapshot import Snapshot, encode
from service.store import COMMIT, RedisStore

PASSWORD = "hunter2-canary"


def snapshot(events: int, size: int = 4) -> Snapshot:
    arrays = {"progress/events": np.array([events]), "state/w": np.arange(size) + float(events)}
    return Snapshot({"learner": {"kind": "pa1"}}, ["a"], {"0": str(events)}, {"type": 2}, f"digest {events}", arrays)


def opened(url: str, *, keep: int = 8, name: str = "m") -> RedisStore:
    store = RedisStore(StoreSettings(url=url, keep=keep), name)
    store.acquire()
    store.load()
    return store


@pytest.fixture
def store(redis_url):
    with closing(opened(redis_url)) as store:
        yield store


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


def keys(client: Redis) -> list[str]:
    return sorted(key.decode() for key in client.scan_iter())


def contents(client: Redis) -> dict[str, bytes]:
    return {key: client.dump(key) for key in keys(client)}


def manifests(client: Redis) -> list[Manifest]:
    return [msgspec.json.decode(entry, type=Manifest) for entry in client.lrange("{m:m}:head", 0, -1)]


def loaded_events(url: str) -> int:
    with closing(RedisStore(StoreSettings(url=url), "m")) as store:
        manifest, found = store.load()
        assert manifest.events == found.events
        return found.events


class Faulty:
    """A client some of whose calls go wrong: `instead` has what is done in their place, given the real client."""

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


def cut_off(*_):
    raise redis.ConnectionError("cut off")


def truncated(client: Redis, key: str, value: bytes, **options):
    return client.set(key, value[:-1], **options)


def test_nothing_yet(store):
    assert store.newest() is None
    assert store.load() is None


def test_what_is_saved_is_loaded(store, redis_url):
    before = time.time()
    manifest = store.save(snapshot(5))
    assert (manifest.generation, manifest.events, manifest.state_digest) == (1, 5, "digest 5")
    assert manifest.size == len(encode(snapshot(5)))
    assert before <= manifest.created <= time.time()
    with closing(RedisStore(StoreSettings(url=redis_url), "m")) as other:
        assert other.newest() == manifest
        found, again = other.load()
    assert found == manifest
    assert encode(again) == encode(snapshot(5))


def test_generations_count_also_over_restarts(store, redis_url):
    assert [store.save(snapshot(n)).generation for n in range(3)] == [1, 2, 3]
    with closing(opened(redis_url)) as next_one:
        assert [next_one.save(snapshot(n)).generation for n in range(3, 5)] == [4, 5]
    assert loaded_events(redis_url) == 4


def test_models_do_not_meet(store, redis_url):
    store.save(snapshot(1))
    with closing(opened(redis_url, name="other")) as other:
        assert other.newest() is None
        assert other.save(snapshot(9)).generation == 1
    assert store.save(snapshot(2)).generation == 2


@pytest.mark.parametrize("keep", [1, 3])
def test_only_so_many_generations_are_kept(redis_url, client, keep):
    with closing(opened(redis_url, keep=keep)) as store:
        for n in range(6):
            store.save(snapshot(n))
    kept = manifests(client)
    assert [manifest.generation for manifest in kept] == list(range(6, 6 - keep, -1))
    blobs = [manifest.blob for manifest in kept]
    assert keys(client) == sorted(["{m:m}:head", "{m:m}:token", *blobs]), "and nothing of the others is left"
    assert [client.ttl(blob) for blob in blobs] == [-1] * keep, "what is visible does not expire"
    with closing(RedisStore(StoreSettings(url=redis_url), "m")) as store:
        assert [store.read(manifest).events for manifest in kept] == list(range(5, 5 - keep, -1))


def test_all_keys_are_in_one_cluster_slot(store, client):
    store.save(snapshot(1))
    assert all(key.startswith("{m:m}:") for key in keys(client))


def test_only_the_newest_learner_may_write(store, redis_url, client):
    store.save(snapshot(1))
    with closing(opened(redis_url)) as successor:
        before = contents(client)
        with pytest.raises(Fenced):
            store.save(snapshot(2))
        after = contents(client)
        assert before.items() <= after.items(), "nothing is changed"
        assert all(client.ttl(key) > 0 for key in after.keys() - before.keys()), "what was written aside expires"
        assert successor.save(snapshot(3)).generation == 2
        with pytest.raises(Fenced):
            store.save(snapshot(4))
    assert loaded_events(redis_url) == 3


def test_without_acquiring_nothing_is_written(redis_url, client):
    with closing(RedisStore(StoreSettings(url=redis_url), "m")) as store:
        with pytest.raises(Fenced):
            store.save(snapshot(1))
        assert manifests(client) == []


def test_learners_that_race_leave_one_line_of_generations(redis_url, client):
    """Each in turn is fenced by the next; no generation is written twice and none is skipped."""

    def learner(number: int) -> None:
        with closing(opened(redis_url, keep=1000)) as store:
            try:
                for n in range(30):
                    store.save(snapshot(1000 * number + n))
            except Fenced:
                pass

    threads = [threading.Thread(target=learner, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = manifests(client)
    assert [manifest.generation for manifest in kept] == list(range(len(kept), 0, -1))
    tokens = [int(manifest.token.partition(":")[0]) for manifest in kept]
    assert tokens == sorted(tokens, reverse=True)
    assert len(kept) >= 30, "the last one is not hindered"


def test_a_commit_may_be_sent_twice(store, client):
    """The client repeats a command whose reply was lost."""
    manifest = store.save(snapshot(1))
    token = client.get("{m:m}:token")
    arguments = [token, 1, manifest.commit, manifest.size, msgspec.json.encode(manifest), 8]
    before = contents(client)
    for _ in range(2):
        assert client.eval(COMMIT, 3, "{m:m}:token", "{m:m}:head", manifest.blob, *arguments) == b"OK"
    assert contents(client) == before


def test_a_generation_that_does_not_follow_is_a_conflict(store, redis_url, client):
    """A learner that loaded before the last writer's last word, and took over after it."""
    with closing(RedisStore(StoreSettings(url=redis_url), "m")) as late:
        late.load()
        store.save(snapshot(1))
        late.acquire()
        with pytest.raises(Fenced, match="removed or replaced"):
            late.save(snapshot(2))
    assert [manifest.events for manifest in manifests(client)] == [1]


def test_a_commit_whose_reply_was_lost_is_gone_on_from(store, redis_url, client):
    store.save(snapshot(1))
    real, store._redis = store._redis, Faulty(store._redis, eval=done_but_no_reply)
    with pytest.raises(StoreDown):
        store.save(snapshot(2))
    store._redis = real
    assert [manifest.events for manifest in manifests(client)] == [2, 1]
    assert store.save(snapshot(3)).generation == 3
    assert [manifest.events for manifest in manifests(client)] == [3, 2, 1]
    for manifest in manifests(client):
        assert client.ttl(manifest.blob) == -1, "what is visible does not expire"
        assert store.read(manifest).events == manifest.events, "and is what it was"
    assert loaded_events(redis_url) == 3


def test_what_is_written_aside_is_not_visible_and_expires(store, client, redis_url):
    store.save(snapshot(1))
    store._redis = Faulty(store._redis, eval=cut_off)
    with pytest.raises(StoreDown):
        store.save(snapshot(2))
    aside = [key for key in keys(client) if ":g:2:" in key]
    assert len(aside) == 1
    assert 0 < client.ttl(aside[0]) <= 600
    assert loaded_events(redis_url) == 1


def test_a_snapshot_that_is_not_whole_is_not_committed(store, client):
    """Redis may lose it between the two, by expiry or a restart."""
    store._redis = Faulty(store._redis, set=truncated)
    with pytest.raises(StoreDown, match="lost a snapshot"):
        store.save(snapshot(1))
    assert manifests(client) == []


def damaged(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


@pytest.mark.parametrize("damage", [damaged, lambda data: data[:-1], lambda _: b"", lambda _: b"PICKLE", None])
def test_a_damaged_snapshot_is_not_loaded(store, client, redis_url, damage):
    blob = store.save(snapshot(1)).blob
    if damage is None:
        client.delete(blob)
    else:
        client.set(blob, damage(client.get(blob)))
    with closing(RedisStore(StoreSettings(url=redis_url), "m")) as other, pytest.raises(Corrupt, match="generation 1"):
        other.load()


@pytest.mark.parametrize("head", [b"", b"garbage", b"[]", b'{"generation": "1"}', b"\xff"])
def test_a_damaged_head_is_not_loaded(store, client, head):
    store.save(snapshot(1))
    client.lset("{m:m}:head", 0, head)
    for ask in (store.newest, store.load):
        with pytest.raises(Corrupt, match="head"):
            ask()


@pytest.mark.parametrize("ask", ["acquire", "newest", "load", "save"])
def test_redis_away(ask):
    port = free_port()
    url = f"redis://user:{PASSWORD}@127.0.0.1:{port}/0"
    with closing(RedisStore(StoreSettings(url=url, password=PASSWORD), "m")) as store:
        started = time.monotonic()
        with pytest.raises(StoreDown) as caught:
            getattr(store, ask)(*[snapshot(1)] * (ask == "save"))
        assert time.monotonic() - started < 3
    message = str(caught.value)
    assert str(port) in message
    assert PASSWORD not in message
    assert "\n" not in message


@pytest.mark.parametrize("url", ["localhost:6379", f"http://:{PASSWORD}@h/0", f"redis://:a/{PASSWORD}@h:1/0"])
def test_an_address_that_is_none(url):
    with pytest.raises(BadSettings, match=r"store\.url") as caught:
        RedisStore(StoreSettings(url=url), "m")
    assert PASSWORD not in str(caught.value)


def test_the_password_is_used(tmp_path):
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\nanother line\n")
    with redis_server(tmp_path / "redis") as server, Redis.from_url(server.url) as admin:
        admin.config_set("requirepass", PASSWORD)
        for ways in ({"password": PASSWORD}, {"password_file": file}):
            with closing(RedisStore(StoreSettings(url=server.url, **ways), "m")) as store:
                store.acquire()
        for ways in ({}, {"password": "wrong-canary"}):
            with closing(RedisStore(StoreSettings(url=server.url, **ways), "m")) as store:
                with pytest.raises(StoreDown) as caught:
                    store.acquire()
                assert "canary" not in str(caught.value)


@pytest.mark.parametrize("content", [None, ""])
def test_a_password_file_without_a_password(tmp_path, content):
    file = tmp_path / "password"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BadSettings, match="password_file"):
        RedisStore(StoreSettings(url="redis://h:1/0", password_file=file), "m")


def test_what_was_acknowledged_outlives_the_server(tmp_path):
    with redis_server(tmp_path) as server, closing(opened(server.url)) as store:
        for n in range(3):
            store.save(snapshot(n, size=100_000))
        server.kill()
        with pytest.raises(StoreDown):
            store.save(snapshot(3))
        server.start()
        assert loaded_events(server.url) == 2
        assert store.save(snapshot(4)).generation == 4, "and the learner goes on with its token"
        assert loaded_events(server.url) == 4
