"""An operator beside a running learner reads, restates, and fences the learner without touching the
lease.
"""

import threading
from contextlib import closing, suppress

import pytest
from redis import Redis

from service.checkpoint.store import Acquired, FencedError, StoreUnavailableError
from tests.service.storage.stores import (
    Broken,
    cut_off,
    delta,
    make_store,
    manifests,
    open_store,
    same,
    whole,
)


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def operator(redis_url):
    with closing(make_store(redis_url)) as operator:
        yield operator


def test_a_learner_continues_from_a_restated_generation(redis_url, client, operator):
    with closing(open_store(redis_url)) as store:
        first = store.save(whole(1))
        store.save(whole(2))
        lease = client.get("{m:m}:lease")
        manifest = operator.restate(
            operator.read(first), {"d" * 64: b"history"}, origin="rollback to 1"
        )
        assert (manifest.generation, manifest.events, manifest.origin) == (3, 1, "rollback to 1")
        assert manifest.state_digest == first.state_digest
        assert client.get("{m:m}:lease") == lease
        assert client.ttl("{m:m}:l:" + "d" * 64) == -1
        with pytest.raises(FencedError):
            store.save(whole(3))
        assert store.held
        assert store.acquire() is Acquired.STALE
        found = store.load()
        assert found.manifest == manifest
        assert same(found.snapshot, whole(1))
        after = store.save(whole(4))
        assert (after.generation, after.parent, after.origin) == (4, manifest.commit, "learned")
    assert [generation.generation for generation in operator.generations()] == [4, 3, 2, 1]
    assert int(manifest.token.partition(":")[0]) == 2


def test_a_generation_can_be_restated_into_an_empty_store(redis_url, operator):
    assert operator.restate(whole(7), origin="import").generation == 1
    with closing(open_store(redis_url)) as store:
        assert store.save(whole(8)).generation == 2


def test_only_a_whole_snapshot_is_restated(operator):
    with pytest.raises(ValueError, match="whole"):
        operator.restate(delta(1, {0: 0.0}))


def test_restating_beside_a_busy_learner_loses_nothing(redis_url, client, operator):
    """The learner returns after each fence; no commit of either is lost."""
    end = threading.Event()
    written = []

    def learn() -> None:
        with closing(open_store(redis_url, keep=1000)) as store:
            while not end.is_set():
                try:
                    written.append(store.save(whole(1)).commit)
                except FencedError:
                    if store.acquire() is Acquired.STALE:
                        store.load()

    thread = threading.Thread(target=learn)
    operator._checkpoint = operator._checkpoint.model_copy(update={"keep": 1000})
    thread.start()
    try:
        restated = [operator.restate(whole(1000 + n)).commit for n in range(20)]
    finally:
        end.set()
        thread.join()
    kept = manifests(client)
    assert [manifest.generation for manifest in kept] == list(range(len(kept), 0, -1))
    assert sorted(manifest.commit for manifest in kept) == sorted(restated + written)


def test_the_fence_stops_a_learner_that_writes_during_every_try(redis_url, operator):
    """The learner writes each time between the operator's read and the operator's commit."""
    with closing(open_store(redis_url)) as store:
        commit = operator._keyspace.commit

        def write_first(*arguments):
            with suppress(FencedError):
                store.save(whole(1))
            return commit(*arguments)

        operator._keyspace.commit = write_first
        manifest = operator.restate(whole(7))
    assert (manifest.generation, manifest.events) == (2, 7)


def test_nothing_is_restated_when_redis_fails(client, operator):
    with Broken(operator, eval=cut_off), pytest.raises(StoreUnavailableError):
        operator.restate(whole(1))
    assert manifests(client) == []


def test_a_damaged_generation_is_reported_and_removed(redis_url, client, operator):
    with closing(open_store(redis_url)) as store:
        for n in range(3):
            store.save(whole(n))
    client.lset("{m:m}:head", 1, b"garbage")
    told = operator.generations()
    assert [getattr(found, "generation", None) for found in told] == [3, None, 1]
    assert "damaged" in told[1]
    assert operator.restate(whole(9)).generation == 4
    assert [found.generation for found in operator.generations()] == [4, 3, 1]


def test_newest_skips_damaged_manifests(redis_url, client, operator):
    with closing(open_store(redis_url)) as store:
        for n in range(3):
            store.save(whole(n))
    client.lset("{m:m}:head", 0, b"\xff" * 100)
    assert operator.newest().generation == 2


def test_restate_is_refused_after_a_newer_commit(redis_url, client, operator):
    with closing(open_store(redis_url)) as store:
        first = store.save(whole(1))
        seen = operator.newest()
        second = store.save(whole(2))
        with pytest.raises(FencedError, match="generation 2 was written meanwhile"):
            operator.restate(whole(9), after=seen.commit)
        assert manifests(client) == [second, first]
        kept = set(client.scan_iter()) - {b"{m:m}:lease"}
        assert [key for key in kept if client.ttl(key) > 60] == []
        assert store.save(whole(3)).generation == 3, "a refused restate must not fence the learner"
        assert operator.restate(whole(9), after=operator.newest().commit).generation == 4


def test_restate_is_refused_after_a_commit_in_between(redis_url, client, operator):
    """The learner commits between the operator's read and the operator's commit."""
    with closing(open_store(redis_url)) as store:
        first = store.save(whole(1))

        def write_first(real, *arguments):
            if len(manifests(client)) == 1:
                store.save(whole(2))
            return real.eval(*arguments)

        with Broken(operator, eval=write_first), pytest.raises(FencedError, match="meanwhile"):
            operator.restate(whole(9), after=first.commit)
        assert [manifest.events for manifest in manifests(client)] == [2, 1]
