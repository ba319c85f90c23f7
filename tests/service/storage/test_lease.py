"""Who may learn: the lease and its renewal, the state after it was lost, and an
operator's freeze.
"""

import time
from contextlib import closing

import pytest
from redis import Redis

from service import failpoints
from service.checkpoint.store import Acquired, FencedError
from service.config.settings import LONGEST_LEASE_SECONDS
from service.embedded.process import free_port
from service.embedded.redis import redis_server
from service.storage.connection import Server
from service.storage.lease import LONGEST_WAIT
from tests.service.storage.stores import (
    Broken,
    abandon,
    contents,
    done_but_no_reply,
    keys,
    make_store,
    manifests,
    open_store,
    take_over,
    whole,
)
from tests.waiting import wait_for

KEY = "{m:m}:lease"
LEASE = LONGEST_LEASE_SECONDS
OWN = 0.9 * LEASE
"""Seconds that it lasts by the learner's own clock."""


class Clock:
    """Replaces the module `time`: time passes only when a test says so."""

    time = staticmethod(time.time)

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("service.storage.lease.time", clock)
    monkeypatch.setattr("service.storage.redis_store.time", clock)
    return clock


@pytest.fixture
def often(monkeypatch):
    """Makes a lease of minutes be renewed fifty times a second."""
    monkeypatch.setattr("service.storage.lease.LOOK_SECONDS", 0.02)


def wait_for_renewal(store, clock):
    """Wait for a renewal that was sent at this time."""
    wait_for(lambda: store._lease._until == clock.now + OWN, "a renewal")


def restore_dump(client: Redis, dumped: dict[str, bytes]) -> None:
    client.flushdb()
    for key, value in dumped.items():
        client.restore(key, 0, value)


def test_a_second_learner_waits_and_touches_nothing(redis_url, client):
    with closing(open_store(redis_url)) as first, closing(make_store(redis_url)) as second:
        first.save(whole(1))
        before = contents(client)
        lease = client.get("{m:m}:lease")
        assert second.acquire() is Acquired.HELD_ELSEWHERE
        assert contents(client) == before
        assert client.get("{m:m}:lease") == lease
        assert first.held
        assert not second.held
        assert not first.disturbed
        assert first.save(whole(2)).generation == 2
        first.close()
        assert second.acquire() is Acquired.STALE
        assert second.load().snapshot.events == 2


@pytest.mark.usefixtures("often")
def test_the_lease_is_renewed_while_the_learner_lives(redis_url, client, clock):
    with closing(open_store(redis_url)) as store, closing(make_store(redis_url)) as other:
        for _ in range(20):
            client.pexpire(KEY, 100_000)
            clock.now += 0.8 * LEASE
            assert store.held
            wait_for_renewal(store, clock)
            assert client.pttl(KEY) > 100_000
            assert other.acquire() is Acquired.HELD_ELSEWHERE
        abandon(store)
        clock.now += 0.99 * OWN
        assert store.held
        clock.now += 0.02 * OWN
        assert not store.held
        assert 0 < client.pttl(KEY) <= LEASE * 1000, "the lease must have an expiry"
        client.pexpire(KEY, 1)
        wait_for(lambda: other.acquire() is Acquired.STALE, "the end of the lease")
        assert not store.held
    assert client.get(KEY) is None, "the other learner must give the lease back"


def test_held_becomes_false_before_the_lease_ends(redis_url, client):
    """Both clocks are real; the lease is short only so that it ends soon."""
    for _ in range(5):
        with closing(open_store(redis_url, lease_seconds=0.3)) as store:
            abandon(store)
            held = True
            while held:
                lease = client.exists("{m:m}:lease")
                held = store.held  # read last, for any time may pass in between
                assert lease or not held
        client.flushdb()


@pytest.mark.usefixtures("often")
def test_a_lease_that_merely_ran_out_is_taken_again(redis_url, client):
    with closing(open_store(redis_url)) as store:
        client.delete(KEY)
        wait_for(lambda: client.exists(KEY), "the lease is taken again")
        assert not store.disturbed
        assert store.save(whole(1)).generation == 1


@pytest.mark.usefixtures("often")
def test_a_renewal_notices_another_learner(redis_url, client):
    with closing(open_store(redis_url)) as store:
        with closing(take_over(client, redis_url)):
            wait_for(lambda: store.disturbed, "the learner sees the other one")
        assert store.acquire() is Acquired.CURRENT, (
            "the other learner wrote nothing, so the state is current"
        )
        assert not store.disturbed


def test_a_learner_gives_back_only_its_own_lease(redis_url, client):
    store = open_store(redis_url)
    with closing(take_over(client, redis_url)):
        store.close()
        assert client.exists("{m:m}:lease")


@pytest.mark.usefixtures("often")
def test_failing_renewals_end_the_lease_and_later_ones_restore_it(tmp_path, clock):
    with redis_server(tmp_path) as server, closing(open_store(server.url)) as store:
        store.save(whole(1))
        server.kill()
        tried, renew = [], store._lease.renew
        store._lease.renew = lambda: tried.append(renew())
        clock.now += 1.01 * OWN
        wait_for(lambda: len(tried) >= 3, "renewals that fail")
        assert not store.held
        assert not store.disturbed
        server.start()
        wait_for(lambda: store.held, "the lease: the token is still ours, so the lease is too")
        assert store.save(whole(2)).generation == 2


@pytest.mark.usefixtures("often")
def test_a_failed_renewal_does_not_end_the_thread(redis_url, clock):
    failpoints.arm("before_renew:raise@1")
    try:
        with closing(open_store(redis_url)) as store:
            clock.now += 0.8 * LEASE
            wait_for_renewal(store, clock)
            assert failpoints._reached["before_renew"] > 1, "the first renewal must have failed"
    finally:
        failpoints.arm("")


def test_closing_without_a_redis_tries_only_once(monkeypatch):
    asked, client = [], Server.client

    def note(server, seconds, retries):
        asked.append((seconds, retries))
        return client(server, seconds, retries)

    monkeypatch.setattr(Server, "client", note)
    store = make_store(f"redis://127.0.0.1:{free_port()}/0")
    store._lease.hold("1:x", time.time())
    store.close()
    assert asked == [(LONGEST_WAIT, 0)]


def test_a_store_that_lost_everything_is_written_again(redis_url, client):
    with closing(open_store(redis_url)) as store:
        for n in range(3):
            store.save(whole(n))
        client.flushdb()
        with pytest.raises(FencedError, match="taken over"):
            store.save(whole(3))
        assert store.disturbed
        assert store.acquire() is Acquired.CURRENT
        assert store.wants_whole
        assert not store.disturbed
        manifest = store.save(whole(4))
        assert manifest.generation == 4
        assert [found.events for found in manifests(client)] == [4]


def test_a_store_that_went_back_in_time_is_rolled_forward(redis_url, client):
    with closing(open_store(redis_url)) as store:
        store.save(whole(1))
        then = contents(client)
        for n in range(2, 5):
            last = store.save(whole(n))
        restore_dump(client, then)
        # The dump has the token, for the learner took it earlier.
        with pytest.raises(FencedError, match="removed or replaced"):
            store.save(whole(5))
        assert store.acquire() is Acquired.CURRENT
        manifest = store.save(whole(6))
        assert (manifest.generation, manifest.parent) == (5, last.commit)
        assert [found.generation for found in manifests(client)] == [5, 1]


def test_a_store_with_a_foreign_history_is_loaded(redis_url, client):
    with closing(open_store(redis_url)) as store:
        store.save(whole(1))
        with closing(take_over(client, redis_url)) as other:
            other.save(whole(100))
        with pytest.raises(FencedError):
            store.save(whole(2))
        assert store.acquire() is Acquired.STALE
        with pytest.raises(FencedError):
            store.save(whole(2))
        assert store.acquire() is Acquired.STALE, "the state must stay stale until it loads"
        assert store.load().snapshot.events == 100
        assert store.save(whole(101)).generation == 3


def test_after_loading_a_foreign_history_the_own_past_is_foreign(redis_url, client):
    with closing(open_store(redis_url)) as store:
        store.save(whole(1))
        early = contents(client)
        store.save(whole(2))
        late = contents(client)
        restore_dump(client, early)
        with closing(take_over(client, redis_url)) as other:
            other.save(whole(100))
        assert store.acquire() is Acquired.STALE
        store.load()
        restore_dump(client, late)
        assert store.acquire() is Acquired.STALE, (
            "its state no longer comes from its own earlier commits"
        )


def test_a_commit_whose_reply_was_lost_is_recognised(redis_url, client):
    with closing(open_store(redis_url)) as store:
        with Broken(store, eval=done_but_no_reply), pytest.raises(Exception, match="lost"):
            store.save(whole(1))
        lost = manifests(client)[0]
        assert store.acquire() is Acquired.CURRENT
        manifest = store.save(whole(2))
        assert (manifest.generation, manifest.parent) == (2, lost.commit)


def test_acquiring_again_keeps_the_state_current(redis_url):
    with closing(open_store(redis_url)) as store:
        assert store.acquire() is Acquired.CURRENT
        assert store.save(whole(1)).generation == 1
        assert store.acquire() is Acquired.CURRENT
        assert store.save(whole(2)).generation == 2


def test_a_garbled_token_is_replaced(redis_url, client):
    with closing(open_store(redis_url)) as store:
        client.set("{m:m}:token", b"\xff\x00garbage")
        with pytest.raises(FencedError):
            store.save(whole(1))
        assert store.acquire() is Acquired.CURRENT
        assert store.save(whole(1)).generation == 1


@pytest.mark.usefixtures("often")
def test_a_freeze_makes_the_learner_drop_later_events(redis_url):
    with closing(open_store(redis_url)) as store, closing(make_store(redis_url)) as operator:
        store.save(whole(1))
        before = time.time()
        word = operator.freeze()
        assert word.generation == 1
        assert before <= word.since <= time.time()
        assert operator.freeze() == word, "a second freeze must equal the first"
        with pytest.raises(FencedError):
            store.save(whole(2))
        wait_for(lambda: store.frozen == word, "the learner sees the freeze")
        assert store.held, "a freeze must not touch the lease"
        assert store.acquire() is Acquired.STALE
        assert store.load().snapshot.events == 1
        assert operator.newest().generation == 1
        assert operator.frozen == word, "a replica must see the freeze, too"
        assert operator.unfreeze() == word
        assert operator.unfreeze() is None
        wait_for(lambda: store.frozen is None, "the learner sees the end of the freeze")
        assert not store.disturbed
        assert store.save(whole(3)).generation == 2


def test_a_freeze_before_the_first_checkpoint_holds(redis_url, client):
    with closing(make_store(redis_url)) as operator, closing(make_store(redis_url)) as store:
        assert operator.freeze().generation == 0
        assert store.acquire() is Acquired.STALE
        assert store.frozen is not None
        client.set("{m:m}:frozen", b"garbage")
        store.newest()
        assert store.frozen is not None, "an unreadable freeze must still hold"
    assert keys(client) == ["{m:m}:frozen", "{m:m}:token"]
