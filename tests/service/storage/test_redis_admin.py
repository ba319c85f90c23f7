"""An operator beside a running learner: looks, restates, and fences whoever learns without touching
the lease.
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
    made,
    manifests,
    opened,
    same,
    whole,
)


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def operator(redis_url):
    with closing(made(redis_url)) as operator:
        yield operator


def test_a_restated_generation_is_where_the_learner_begins(redis_url, client, operator):
    with closing(opened(redis_url)) as store:
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


def test_restated_into_an_empty_store(redis_url, operator):
    assert operator.restate(whole(7), origin="import").generation == 1
    with closing(opened(redis_url)) as store:
        assert store.save(whole(8)).generation == 2


def test_only_a_whole_snapshot_is_restated(operator):
    with pytest.raises(ValueError, match="whole"):
        operator.restate(delta(1, {0: 0.0}))


def test_restated_while_somebody_writes_all_the_time(redis_url, client, operator):
    """The learner comes back after each fence; nothing is lost of what either wrote."""
    end = threading.Event()
    written = []

    def learn() -> None:
        with closing(opened(redis_url, keep=1000)) as store:
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


def test_a_learner_that_writes_within_every_try_is_held_up_by_its_fence(redis_url, operator):
    """However quick: each of its moves comes between the operator's look and the
    operator's commit.
    """
    with closing(opened(redis_url)) as store:
        commit = operator._keyspace.commit

        def overtaken(*arguments):
            with suppress(FencedError):
                store.save(whole(1))
            return commit(*arguments)

        operator._keyspace.commit = overtaken
        manifest = operator.restate(whole(7))
    assert (manifest.generation, manifest.events) == (2, 7)


def test_nothing_restated_when_redis_goes_away(client, operator):
    with Broken(operator, eval=cut_off), pytest.raises(StoreUnavailableError):
        operator.restate(whole(1))
    assert manifests(client) == []


def test_a_damaged_generation_is_told_in_words_and_removed(redis_url, client, operator):
    with closing(opened(redis_url)) as store:
        for n in range(3):
            store.save(whole(n))
    client.lset("{m:m}:head", 1, b"garbage")
    told = operator.generations()
    assert [getattr(found, "generation", None) for found in told] == [3, None, 1]
    assert "damaged" in told[1]
    assert operator.restate(whole(9)).generation == 4
    assert [found.generation for found in operator.generations()] == [4, 3, 1]


def test_newest_passes_over_damaged_manifests(redis_url, client, operator):
    with closing(opened(redis_url)) as store:
        for n in range(3):
            store.save(whole(n))
    client.lset("{m:m}:head", 0, b"\xff" * 100)
    assert operator.newest().generation == 2


def test_restated_only_after_what_was_seen(redis_url, client, operator):
    with closing(opened(redis_url)) as store:
        first = store.save(whole(1))
        seen = operator.newest()
        second = store.save(whole(2))
        with pytest.raises(FencedError, match="generation 2 was written meanwhile"):
            operator.restate(whole(9), after=seen.commit)
        assert manifests(client) == [second, first]
        kept = set(client.scan_iter()) - {b"{m:m}:lease"}
        assert [key for key in kept if client.ttl(key) > 60] == []
        assert store.save(whole(3)).generation == 3, "and nobody is fenced"
        assert operator.restate(whole(9), after=operator.newest().commit).generation == 4


def test_restated_only_after_what_was_seen_though_it_comes_between(redis_url, client, operator):
    """The learner's commit is made between the look and the commit."""
    with closing(opened(redis_url)) as store:
        first = store.save(whole(1))

        def overtaken(real, *arguments):
            if len(manifests(client)) == 1:
                store.save(whole(2))
            return real.eval(*arguments)

        with Broken(operator, eval=overtaken), pytest.raises(FencedError, match="meanwhile"):
            operator.restate(whole(9), after=first.commit)
        assert [manifest.events for manifest in manifests(client)] == [2, 1]
