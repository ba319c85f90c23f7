"""Checkpoints under damage, races and lost replies: wrong state is never loaded, no generation is
written twice.

`ONEPASS_CHAOS=1` tries more of each.
"""

import os
import random
import socket
import threading
from contextlib import closing, contextmanager, suppress

import numpy as np
import pytest
from redis import Redis

from service.checkpoint.store import Acquired, CorruptCheckpointError, FencedError
from service.embedded import redis as embedded_redis
from tests.service.storage.stores import (
    delta,
    keys,
    make_store,
    manifests,
    open_store,
    same,
    take_over,
    whole,
)
from tests.waiting import HANG_SECONDS

MORE = os.environ.get("ONEPASS_CHAOS") == "1"
HEAD = "{m:m}:head"
SIZE = 1500
"""Floats; a base has three chunks."""


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    """A Redis that does not wait for the disk: these tests are about order, not durability."""
    with embedded_redis.redis_server(tmp_path_factory.mktemp("redis"), appendonly=False) as server:
        yield server


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("service.storage.chunks.CHUNK_BYTES", 5000)


def history(store) -> dict[str, object]:
    """Save two bases with deltas; return the snapshot that each generation must be read as, by
    commit.
    """
    expected = {}
    for base in (10, 20):
        weights = np.random.default_rng(base).random(SIZE)
        expected[store.save(whole(base, weights=weights)).commit] = whole(base, weights=weights)
        for n in (1, 2):
            weights = weights.copy()
            weights[n] = -n
            commit = store.save(delta(base + n, {n: -float(n)})).commit
            expected[commit] = whole(base + n, weights=weights)
    return expected


class Damage:
    """One change to the keys in Redis, and the manifests that must not be loaded after it."""

    def __init__(self, client: Redis, luck: random.Random) -> None:
        self._client = client
        self._luck = luck
        self._kept: dict[str, bytes] = {}
        self.entries = client.lrange(HEAD, 0, -1)
        self.manifests = manifests(client)
        self.bad: set[int] = set()

    def once(self) -> None:
        chosen = self._luck.choice(
            [
                self._flip,
                self._flip,
                self._flip,
                self._delete,
                self._truncate,
                self._swap,
                self._manifest,
            ]
        )
        chosen(self._luck.choice([key for key in keys(self._client) if ":g:" in key]))

    def undo(self) -> None:
        for key, value in self._kept.items():
            self._client.set(key, value)
        self._client.delete(HEAD)
        self._client.rpush(HEAD, *self.entries)

    def _hit(self, key: str, value: bytes | None) -> None:
        self._kept.setdefault(key, self._client.get(key))
        if value == self._kept[key]:
            return
        self._client.delete(key) if value is None else self._client.set(key, value)
        blob = key.rpartition(":")[0]
        self.bad |= {
            n
            for n, found in enumerate(self.manifests)
            if blob in {part.blob for part in found.parts}
        }

    def _flip_bit(self, data: bytes) -> bytes:
        at = self._luck.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << self._luck.randrange(8))]) + data[at + 1 :]

    def _flip(self, key: str) -> None:
        self._hit(key, self._flip_bit(self._client.get(key)))

    def _delete(self, key: str) -> None:
        self._hit(key, None)

    def _truncate(self, key: str) -> None:
        data = self._client.get(key)
        self._hit(key, data[: self._luck.randrange(len(data))])

    def _swap(self, key: str) -> None:
        """Exchange two chunks, or two whole blobs of the same length."""
        other = self._luck.choice(
            [other for other in keys(self._client) if ":g:" in other and other != key]
        )
        one, two = self._client.get(key), self._client.get(other)
        self._hit(key, two)
        self._hit(other, one)

    def _manifest(self, _: str) -> None:
        place = self._luck.randrange(len(self.entries))
        other = self._luck.choice(
            [self._flip_bit(self.entries[place]), b"", b"{}", self._luck.randbytes(300)]
        )
        self._client.lset(HEAD, place, other)
        self.bad.add(place)


@pytest.mark.usefixtures("small_chunks")
def test_damaged_generations_are_noticed_and_the_newest_good_one_is_loaded(
    redis_url, client, record_figures
):
    luck, rounds = random.Random(16), 2000 if MORE else 500
    with closing(open_store(redis_url)) as store, closing(make_store(redis_url)) as other:
        expected = history(store)
        found = 0
        for _ in range(rounds):
            damage = Damage(client, luck)
            for _ in range(luck.choice([1, 1, 1, 2, 4])):
                damage.once()
            good = [n for n in range(len(damage.entries)) if n not in damage.bad]
            if not good:
                with pytest.raises(CorruptCheckpointError, match="none of the 6"):
                    other.load()
                damage.undo()
                continue
            loaded = other.load()
            assert loaded.manifest == damage.manifests[good[0]]
            # A delta has no digest of the whole state, so compare the state itself.
            assert same(
                loaded.snapshot._replace(state_digest=None), expected[loaded.manifest.commit]
            )
            assert len(loaded.broken) == good[0]
            assert all("\n" not in words for words in loaded.broken)
            found += bool(damage.bad)
            damage.undo()
        assert found > 200
    record_figures(
        "corrupt checkpoints: bits, lengths, places and manifests",
        damages=rounds,
        wrong_state_loaded=0,
    )


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("round_", range(40 if MORE else 10))
def test_the_next_commit_removes_damaged_generations(redis_url, client, round_):
    luck = random.Random(round_)
    with closing(open_store(redis_url)) as store:
        expected = history(store)
    damage = Damage(client, luck)
    while 0 not in damage.bad:
        damage.once()
    with closing(make_store(redis_url)) as store:
        store.acquire()
        try:
            loaded = store.load()
        except CorruptCheckpointError:
            return
        after = store.save(whole(99))
        assert after.generation == 7
        assert after.parent == loaded.manifest.commit
        left = store.generations()
        assert left[0] == after
        assert left[1] == loaded.manifest
        assert all(not isinstance(found, str) for found in left), "an older damaged manifest stayed"
        assert same(
            store.read(loaded.manifest)._replace(state_digest=None),
            expected[loaded.manifest.commit],
        )
        named = {f"{part.blob}:" for found in left for part in found.parts}
        stray = [key for key in keys(client) if ":g:" in key and not key.startswith(tuple(named))]
        garbled = [
            n for n, raw in enumerate(damage.entries) if raw not in client.lrange(HEAD, 0, -1)
        ]
        assert not stray or garbled, (
            "chunks stay only if the manifest that names them is unreadable"
        )


def test_swapped_blobs_of_two_generations_are_corrupt(redis_url, client):
    """Each blob is a whole snapshot, but not the one that the manifest names."""
    with closing(open_store(redis_url)) as store:
        one, two = (store.save(whole(n)).parts[0].blob + ":0" for n in (1, 2))
        first, second = client.get(one), client.get(two)
        client.set(one, second)
        client.set(two, first)
        with pytest.raises(CorruptCheckpointError, match="is not the snapshot"):
            store.load()


def test_a_store_with_only_damaged_generations_never_starts_fresh(redis_url, client):
    with closing(open_store(redis_url)) as store:
        history(store)
    for place in range(client.llen(HEAD)):
        client.lset(HEAD, place, b"garbage")
    with closing(make_store(redis_url)) as store:
        assert store.acquire() is Acquired.STALE
        for _ in range(2):
            with pytest.raises(CorruptCheckpointError):
                store.load()
            with pytest.raises(FencedError):
                store.save(whole(1))
        with pytest.raises(CorruptCheckpointError):
            store.newest()
        store.forget()
        assert store.save(whole(1)).generation == 7


def test_two_simultaneous_learners_never_write_a_generation_twice(
    redis_url, client, record_figures
):
    rounds, written = 200, []
    start = threading.Barrier(2, timeout=HANG_SECONDS)

    def learner() -> None:
        for _ in range(rounds):
            start.wait()
            with closing(make_store(redis_url, keep=1000)) as store:
                if store.acquire() is Acquired.HELD_ELSEWHERE:
                    continue
                found = store.load()
                written.append(
                    store.save(whole((found.manifest.events if found else 0) + 1)).commit
                )

    threads = [threading.Thread(target=learner) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = manifests(client)
    assert [manifest.generation for manifest in kept] == list(range(len(kept), 0, -1))
    assert [manifest.events for manifest in kept] == list(range(len(kept), 0, -1)), (
        "a learner did not begin where the last one ended"
    )
    assert {manifest.commit for manifest in kept} == set(written)
    assert len(kept) == len(written) >= rounds
    record_figures(
        "two learners started at once", rounds=rounds, generations=len(kept), written_twice=0
    )


@pytest.mark.parametrize("round_", range(50 if MORE else 10))
def test_a_zombie_is_fenced_whenever_it_wakes(redis_url, client, round_):
    """The zombie sleeps before a chunk, before the commit or after it; its successor begins
    meanwhile.
    """
    luck = random.Random(round_)
    zombie = open_store(redis_url)
    zombie.save(whole(1))
    real = zombie._keyspace.client
    successors = []

    class Sleepy:
        def __init__(self, at: int) -> None:
            self.left = at

        def __getattr__(self, name):
            if name in {"eval", "pipeline"}:
                if self.left == 0:
                    successors.append(take_over(client, redis_url))
                    successors[0].save(whole(100))
                self.left -= 1
            return getattr(real, name)

    zombie._keyspace._client = Sleepy(luck.randrange(2))
    with pytest.raises(FencedError):
        zombie.save(whole(2))
    for n in range(3):
        with pytest.raises(FencedError):
            zombie.save(whole(3 + n))
    assert zombie.disturbed
    assert [manifest.events for manifest in manifests(client)] == [100, 1]
    assert successors[0].save(whole(101)).generation == 3
    successors[0].close()
    zombie.close()


def pass_on(
    source: socket.socket,
    sink: socket.socket,
    *,
    requests: bool,
    drop: threading.Event,
    cut: threading.Event,
) -> None:
    try:
        while data := source.recv(1 << 16):
            if requests and drop.is_set() and b"LPUSH" in data:
                drop.clear()
                cut.set()
            if not requests and cut.is_set():
                break
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy(target: int):
    """Passes everything on, but if `drop` is set cuts off the answer of each connection's first
    commit.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    drop = threading.Event()
    ends: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            outer = socket.create_connection(("127.0.0.1", target))
            cut = threading.Event()
            ends.extend((inner, outer))
            for source, sink, requests in ((inner, outer, True), (outer, inner, False)):
                way = {"requests": requests, "drop": drop, "cut": cut}
                threading.Thread(
                    target=pass_on, args=(source, sink), kwargs=way, daemon=True
                ).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], drop
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for end in ends:
            end.close()


def test_a_lost_reply_makes_no_second_commit(redis_url, client):
    port = int(redis_url.rpartition(":")[2].partition("/")[0])
    with (
        proxy(port) as (through, drop),
        closing(open_store(f"redis://127.0.0.1:{through}/0", keep=100)) as store,
    ):
        for n in range(1, 21):
            drop.set()
            manifest = store.save(whole(n))
            assert manifest.generation == n
            assert not drop.is_set(), "the client did not repeat the commit"
    assert [manifest.events for manifest in manifests(client)] == list(range(20, 0, -1))
