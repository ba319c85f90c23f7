"""Checkpoints in a real Redis: complete or absent, one writer, and no acknowledged checkpoint is
lost.
"""

import threading
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from redis import Redis

from service.checkpoint.snapshot import encode
from service.checkpoint.store import (
    Acquired,
    CorruptCheckpointError,
    FencedError,
    StoreUnavailableError,
)
from service.embedded.redis import redis_server
from service.storage.lua import COMMIT
from tests.service.storage.stores import (
    MIB,
    Broken,
    contents,
    cut_off,
    done_but_no_reply,
    keys,
    make_store,
    manifests,
    open_store,
    same,
    take_over,
    whole,
)
from tests.waiting import wait_for


@pytest.fixture
def store(redis_url):
    with closing(open_store(redis_url)) as store:
        yield store


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


def load_events(url: str) -> int:
    with closing(make_store(url)) as store:
        found = store.load()
        assert found.manifest.events == found.snapshot.events
        assert found.broken == ()
        return found.snapshot.events


def test_an_empty_store_has_no_generation(store):
    assert store.newest() is None
    assert store.load() is None
    assert store.generations() == []


def test_a_saved_snapshot_is_loaded(store, redis_url):
    before = time.time()
    manifest = store.save(whole(5))
    assert (manifest.generation, manifest.events, manifest.errors, manifest.parent) == (1, 5, 2, "")
    assert manifest.state_digest == whole(5).with_digest().state_digest
    assert manifest.size == encode(whole(5).with_digest()).size
    assert before <= manifest.created <= time.time()
    with closing(make_store(redis_url)) as other:
        assert other.newest() == manifest
        found = other.load()
        assert same(other.read(manifest), whole(5))
    assert found.manifest == manifest
    assert same(found.snapshot, whole(5))


@pytest.mark.parametrize("size", [1, 2 * MIB // 8, 2 * MIB // 8 - 100, 5 * MIB // 8 + 3])
def test_chunks_have_at_most_one_mebibyte(store, client, size):
    weights = np.random.default_rng(size).random(size)
    manifest = store.save(whole(5, weights=weights))
    chunks = [key for key in keys(client) if ":g:1:" in key]
    lengths = sorted((client.strlen(key) for key in chunks), reverse=True)
    assert sum(lengths) == manifest.size
    assert all(length == MIB for length in lengths[:-1])
    assert lengths[-1] <= MIB
    assert np.array_equal(store.load().snapshot.arrays["state/w"], weights)


def test_generations_continue_over_restarts(store, redis_url):
    first = [store.save(whole(n)) for n in range(3)]
    assert [manifest.generation for manifest in first] == [1, 2, 3]
    assert [manifest.parent for manifest in first] == ["", first[0].commit, first[1].commit]
    store.close()
    with closing(open_store(redis_url)) as next_one:
        more = [next_one.save(whole(n)) for n in range(3, 5)]
        assert [manifest.generation for manifest in more] == [4, 5]
        assert more[0].parent == first[2].commit
    assert load_events(redis_url) == 4


def test_models_have_separate_checkpoints(store, redis_url):
    store.save(whole(1))
    with closing(open_store(redis_url, name="other")) as other:
        assert other.newest() is None
        assert other.save(whole(9)).generation == 1
    assert store.save(whole(2)).generation == 2


@pytest.mark.parametrize(
    ("keep", "older", "left"), [(1, 0, [20]), (3, 0, [20, 19, 18]), (2, 1, [20, 19, 16, 8])]
)
def test_retention_limits_the_generations(redis_url, client, keep, older, left):
    with closing(open_store(redis_url, keep=keep, keep_levels=older)) as store:
        for n in range(20):
            store.save(whole(n))
        kept = manifests(client)
        assert [manifest.generation for manifest in kept] == left
        assert store.generations() == kept
        chunks = [f"{manifest.parts[0].blob}:0" for manifest in kept]
        own = ["{m:m}:head", "{m:m}:lease", "{m:m}:token", *chunks]
        assert keys(client) == sorted(own), "keys of removed generations remained"
        assert [client.ttl(chunk) for chunk in chunks] == [-1] * len(left), (
            "a visible generation must not expire"
        )
        assert [store.read(manifest).events + 1 for manifest in kept] == left


def test_all_keys_are_in_one_cluster_slot(store, client):
    store.save(whole(1), {"a" * 64: b"segment"})
    store.freeze()
    assert all(key.startswith("{m:m}:") for key in keys(client))


def test_only_the_newest_learner_may_write(store, redis_url, client):
    store.save(whole(1))
    with closing(take_over(client, redis_url)) as successor:
        before = contents(client)
        with pytest.raises(FencedError):
            store.save(whole(2))
        assert store.disturbed
        assert contents(client) == before, "a fenced save must change nothing"
        assert successor.save(whole(3)).generation == 2
        with pytest.raises(FencedError):
            store.save(whole(4))
        assert store.acquire() is Acquired.HELD_ELSEWHERE
        with pytest.raises(FencedError):
            store.save(whole(4))
    assert load_events(redis_url) == 3


def test_a_store_that_did_not_acquire_and_load_writes_nothing(redis_url, client):
    with closing(make_store(redis_url)) as store:
        with pytest.raises(FencedError):
            store.save(whole(1))
        assert store.acquire() is Acquired.STALE
        with pytest.raises(FencedError):
            store.save(whole(1))
        assert manifests(client) == []


def has_saved(client, number):
    return any(manifest.events // 1000 == number for manifest in manifests(client))


def test_racing_learners_leave_one_chain_of_generations(redis_url, client):
    """Each learner is fenced by the next; no generation is written twice and none is skipped."""

    def learner(number: int) -> None:
        with closing(take_over(client, redis_url, keep=1000)) as store:
            try:
                for n in range(30):
                    store.save(whole(1000 * number + n))
            except FencedError:
                pass

    threads = [threading.Thread(target=learner, args=(number,)) for number in range(4)]
    for number, thread in enumerate(threads):
        thread.start()
        wait_for(partial(has_saved, client, number), "a generation of the new one")
    for thread in threads:
        thread.join()
    kept = manifests(client)
    assert [manifest.generation for manifest in kept] == list(range(len(kept), 0, -1))
    tokens = [int(manifest.token.partition(":")[0]) for manifest in kept]
    assert tokens == sorted(tokens, reverse=True)
    assert [manifest.parent for manifest in kept] == [
        *(manifest.commit for manifest in kept[1:]),
        "",
    ]
    assert len(kept) >= 30, "the last learner must not be hindered"


def test_a_commit_that_is_sent_twice_is_done_once(store, client):
    """The client repeats a command whose reply was lost."""
    sent = []

    def note(real, *arguments):
        sent.append(arguments)
        return real.eval(*arguments)

    with Broken(store, eval=note):
        store.save(whole(1))
        store.save(whole(2))
    assert all(arguments[0] == COMMIT for arguments in sent)
    before = contents(client)
    assert client.eval(*sent[1]) == b"OK"
    assert client.eval(*sent[0]) == b"CONFLICT"
    assert contents(client) == before


def test_a_learner_that_loaded_before_the_last_commit_is_refused(store, redis_url, client):
    with closing(make_store(redis_url)) as late:
        late.load()
        store.save(whole(1))
        client.delete("{m:m}:lease")
        assert late.acquire() is Acquired.STALE
        with pytest.raises(FencedError):
            late.save(whole(2))
    assert [manifest.events for manifest in manifests(client)] == [1]


def test_a_save_continues_after_a_commit_whose_reply_was_lost(store, redis_url, client):
    store.save(whole(1))
    with Broken(store, eval=done_but_no_reply), pytest.raises(StoreUnavailableError):
        store.save(whole(2))
    assert [manifest.events for manifest in manifests(client)] == [2, 1]
    assert store.save(whole(3)).generation == 3
    kept = manifests(client)
    assert [manifest.events for manifest in kept] == [3, 2, 1]
    assert [manifest.parent for manifest in kept] == [kept[1].commit, kept[2].commit, ""]
    for manifest in kept:
        assert client.ttl(f"{manifest.parts[0].blob}:0") == -1, (
            "a visible generation must not expire"
        )
        assert store.read(manifest).events == manifest.events, "a kept generation must be unchanged"
    assert load_events(redis_url) == 3


def test_a_save_continues_after_a_commit_that_arrives_late(store, client):
    """The commit was on its way when the client gave up; it arrives between the read and the next
    commit.
    """
    late = []

    def delay(_, *arguments):
        late.append(arguments)
        cut_off()

    with Broken(store, eval=delay), pytest.raises(StoreUnavailableError):
        store.save(whole(1))

    def let_the_late_commit_arrive(real, *arguments):
        if late:
            assert real.eval(*late.pop()) == b"OK"
        return real.eval(*arguments)

    with Broken(store, eval=let_the_late_commit_arrive):
        assert store.save(whole(2)).generation == 2
    assert [manifest.events for manifest in manifests(client)] == [2, 1]


def test_an_uncommitted_snapshot_is_invisible_and_expires(store, client, redis_url):
    store.save(whole(1))
    with Broken(store, eval=cut_off), pytest.raises(StoreUnavailableError):
        store.save(whole(2), {"b" * 64: b"segment"})
    aside = [key for key in keys(client) if ":g:2:" in key or ":l:" in key]
    assert len(aside) == 2
    assert all(0 < client.ttl(key) <= 600 for key in aside)
    assert load_events(redis_url) == 1


def test_an_incomplete_snapshot_is_not_committed(store, client):
    """Redis may lose a chunk before the commit, by expiry or a restart."""

    def lose_a_byte_and_commit(real, *arguments):
        key = next(key for key in keys(client) if ":g:" in key)
        client.set(key, client.get(key)[:-1])
        return real.eval(*arguments)

    with (
        Broken(store, eval=lose_a_byte_and_commit),
        pytest.raises(StoreUnavailableError, match="lost a snapshot"),
    ):
        store.save(whole(1))
    assert manifests(client) == []
    assert store.save(whole(2)).generation == 1


def test_a_committed_segment_is_kept_and_never_changed(store, client):
    name, key = "c" * 64, "{m:m}:l:" + "c" * 64
    assert store.segment(name) is None
    store.save(whole(1), {name: b"history"})
    assert client.ttl(key) == -1
    with Broken(store, eval=cut_off), pytest.raises(StoreUnavailableError):
        store.save(whole(2), {name: b"history"})
    assert client.ttl(key) == -1, "a failed commit must not let the segment expire"
    assert store.segment(name) == b"history"


def test_forget_starts_fresh_over_unreadable_generations(store, client, redis_url):
    for n in range(3):
        store.save(whole(n))
    for key in keys(client):
        if ":g:" in key:
            client.set(key, b"garbage")
    client.delete("{m:m}:lease")
    with closing(make_store(redis_url)) as other:
        assert other.acquire() is Acquired.STALE
        with pytest.raises(
            CorruptCheckpointError, match=r"onepass checkpoints import.*--start-fresh.*another name"
        ):
            other.load()
        with pytest.raises(FencedError):
            other.save(whole(9))
        other.forget()
        assert other.save(whole(9)).generation == 4
        assert len([key for key in keys(client) if ":g:" in key]) == 1
    assert [manifest.parent for manifest in manifests(client)] == [""]
    assert load_events(redis_url) == 9


def test_acknowledged_generations_survive_a_kill_of_redis(tmp_path):
    with redis_server(tmp_path) as server, closing(open_store(server.url)) as store:
        for n in range(3):
            store.save(whole(n, size=300_000))
        server.kill()
        with pytest.raises(StoreUnavailableError):
            store.save(whole(3))
        server.start()
        assert load_events(server.url) == 2
        assert store.save(whole(4)).generation == 4, "the learner must continue with its token"
        assert load_events(server.url) == 4
