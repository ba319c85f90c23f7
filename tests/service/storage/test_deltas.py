"""Generations as a base and deltas: only new parts are written and read, and snapshots already
returned never change.
"""

from contextlib import closing

import numpy as np
import pytest
from redis import Redis

from service.checkpoint.store import CorruptCheckpointError, FencedError
from service.storage.known_commits import LONGEST_CHAIN
from tests.service.storage.stores import (
    Broken,
    delta,
    done_but_no_reply,
    keys,
    make_store,
    manifests,
    open_store,
    take_over,
    whole,
)

LARGE = 100_000


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def store(redis_url):
    with closing(open_store(redis_url)) as store:
        yield store


def chunks(client: Redis) -> set[str]:
    return {key for key in keys(client) if ":g:" in key}


def test_a_delta_builds_on_the_generation_before(store, redis_url):
    assert store.wants_whole
    first = store.save(whole(1, LARGE))
    assert not store.wants_whole
    second = store.save(delta(2, {0: -1.0, 7: -2.0}))
    third = store.save(delta(3, {7: -3.0, 9: -4.0}))
    assert second.parts[:1] == first.parts
    assert third.parts[:2] == second.parts
    assert third.size == third.parts[-1].size < 2000
    assert (first.state_digest is None, third.state_digest) == (False, None)
    expected = whole(1, LARGE).arrays["state/w"]
    expected[[0, 7, 9]] = [-1.0, -3.0, -4.0]
    with closing(make_store(redis_url)) as other:
        found = other.load()
        assert np.array_equal(found.snapshot.arrays["state/w"], expected)
        assert found.snapshot.events == 3
        expected[[7, 9]] = [-2.0, 9 + 1.0]
        assert np.array_equal(other.read(second).arrays["state/w"], expected)


def test_a_base_is_removed_with_its_last_delta(redis_url, client):
    with closing(open_store(redis_url, keep=2, keep_levels=0)) as store:
        base = store.save(whole(1, LARGE))
        for n in range(2, 6):
            newest = store.save(delta(n, {n: 0.0}))
        assert chunks(client) == {f"{part.blob}:0" for part in newest.parts}
        assert all(client.ttl(key) == -1 for key in chunks(client))
        assert store.load().snapshot.events == 5
        store.save(whole(6, LARGE))
        assert f"{base.parts[0].blob}:0" in chunks(client), "generation 5 still needs it"
        last = store.save(whole(7, LARGE))
        assert {found.generation for found in manifests(client)} == {6, 7}
        assert chunks(client) == {f"{found.parts[0].blob}:0" for found in manifests(client)}
        assert store.load().manifest == last


def test_a_new_base_is_wanted_when_its_deltas_are_half_as_large(store):
    base = store.save(whole(1, 2000))
    written = 0
    while not store.wants_whole:
        written += store.save(delta(2, dict.fromkeys(range(100), 1.0))).size
    assert base.size / 2 < written < base.size
    store.save(whole(3, 2000))
    assert not store.wants_whole


def test_a_new_base_is_wanted_when_the_chain_is_long(store):
    store.save(whole(1, LARGE))
    for n in range(LONGEST_CHAIN):
        assert not store.wants_whole
        store.save(delta(n, {n: 0.0}))
    assert store.wants_whole
    assert np.array_equal(
        store.load().snapshot.arrays["state/w"][:LONGEST_CHAIN], np.zeros(LONGEST_CHAIN)
    )


def test_a_new_base_is_wanted_after_every_acquire_and_load(store):
    store.save(whole(1, LARGE))
    store.acquire()
    assert store.wants_whole
    with pytest.raises(FencedError, match="nothing to build on"):
        store.save(delta(2, {0: 0.0}))
    assert store.disturbed
    store.acquire()
    store.save(whole(2, LARGE))
    store.load()
    assert store.wants_whole


def test_a_delta_after_a_lost_reply_builds_on_the_committed_one(store):
    base = store.save(whole(1, LARGE))
    with Broken(store, eval=done_but_no_reply), pytest.raises(Exception, match="lost"):
        store.save(delta(2, {0: -1.0}))
    assert not store.wants_whole
    third = store.save(delta(3, {0: -1.0, 1: -2.0}))
    assert third.generation == 3
    assert len(third.parts) == 3
    assert third.parts[0] == base.parts[0]
    assert np.array_equal(store.load().snapshot.arrays["state/w"][:3], [-1.0, -2.0, 3.0])


def test_a_replica_fetches_only_new_parts(store, redis_url, client):
    store.save(whole(1, LARGE))
    fetched = []
    with closing(make_store(redis_url)) as replica:
        real = replica._keyspace.client

        def note(_, names):
            fetched.extend(names)
            return real.mget(names)

        handed = []
        with Broken(replica, mget=note):
            for n in range(2, 8):
                snapshot = replica.read(replica.newest())
                assert snapshot.events == n - 1
                handed.append((snapshot, snapshot.arrays["state/w"].copy()))
                assert replica.read(replica.newest()) is snapshot, (
                    "a generation must be read only once"
                )
                store.save(delta(n, {n: -float(n)}))
                if n == 5:
                    store.save(delta(n, {n: -float(n), 50: 50.0}))
        for snapshot, copy in handed:
            assert np.array_equal(snapshot.arrays["state/w"], copy), (
                "a returned snapshot must not change"
            )
            with pytest.raises(ValueError, match="read-only"):
                snapshot.arrays["state/w"][0] = 1.0
    assert len(fetched) == len(set(fetched)), "a part was fetched twice"
    with closing(take_over(client, redis_url)) as other:
        assert np.array_equal(other.load().snapshot.arrays["state/w"][2:8], -np.arange(2.0, 8.0))


def test_a_delta_that_does_not_fit_its_base_is_corrupt(store):
    """Each part is whole and has its checksum, but together they make no snapshot."""
    store.save(whole(1))
    bad = store.save(delta(2, {10**6: 1.0}))
    with pytest.raises(CorruptCheckpointError, match="generation 2"):
        store.read(bad)
    found = store.load()
    assert found.manifest.generation == 1
    assert len(found.broken) == 1
    assert "generation 2" in found.broken[0]
    assert store.save(whole(3)).generation == 3
    assert [manifest.generation for manifest in store.generations()] == [3, 1]
