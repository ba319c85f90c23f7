"""Who may learn: the lease and its renewal, the standing after it was lost, and an operator's
freeze.
"""

import time
from contextlib import closing

import pytest
from redis import Redis

from service.checkpoint.store import Acquired, FencedError
from service.embedded.process import free_port
from service.embedded.redis import redis_server
from service.failpoints import arm
from tests.service.storage.stores import (
    Broken,
    abandon,
    contents,
    done_but_no_reply,
    keys,
    made,
    manifests,
    opened,
    take_over,
    whole,
)

LEASE = 0.45
"""Renewed each 0.15 seconds."""
AGES = 10.0
"""In seconds, for what takes less than one unless the machine stands still."""


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


def within(seconds: float, true) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.01)
    return False


def restored(client: Redis, dumped: dict[str, bytes]) -> None:
    client.flushdb()
    for key, value in dumped.items():
        client.restore(key, 0, value)


def test_a_second_learner_waits_and_touches_nothing(redis_url, client):
    with closing(opened(redis_url)) as first, closing(made(redis_url)) as second:
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


def test_the_lease_is_renewed_while_the_learner_lives(redis_url, client):
    with (
        closing(opened(redis_url, lease_seconds=3 * LEASE)) as store,
        closing(made(redis_url)) as other,
    ):
        for _ in range(20):
            time.sleep(0.1)
            assert store.held
            assert other.acquire() is Acquired.HELD_ELSEWHERE
        abandon(store)
        assert within(AGES, lambda: not store.held)
        assert within(AGES, lambda: other.acquire() is Acquired.STALE)
        assert not store.held
    assert client.get("{m:m}:lease") is None, "the other one gave it back"


def test_held_ends_before_the_lease_does(redis_url, client):
    for _ in range(5):
        with closing(opened(redis_url, lease_seconds=LEASE)) as store:
            abandon(store)
            held = True
            while held:
                lease = client.exists("{m:m}:lease")
                held = store.held  # looked at last: between the two looks any time may pass
                assert lease or not held
        client.flushdb()


def test_a_lease_that_merely_ran_out_is_taken_again(redis_url, client):
    with closing(opened(redis_url, lease_seconds=LEASE)) as store:
        client.delete("{m:m}:lease")
        assert within(AGES, lambda: client.exists("{m:m}:lease"))
        assert not store.disturbed
        assert store.save(whole(1)).generation == 1


def test_renewal_sees_another_learner(redis_url, client):
    with closing(opened(redis_url, lease_seconds=LEASE)) as store:
        with closing(take_over(client, redis_url)):
            assert within(AGES, lambda: store.disturbed)
        assert store.acquire() is Acquired.CURRENT, "the other one wrote nothing"
        assert not store.disturbed


def test_a_lease_given_back_is_only_ones_own(redis_url, client):
    store = opened(redis_url)
    with closing(take_over(client, redis_url)):
        store.close()
        assert client.exists("{m:m}:lease")


def test_failing_renewals_end_held_and_come_back(tmp_path):
    with (
        redis_server(tmp_path) as server,
        closing(opened(server.url, lease_seconds=LEASE)) as store,
    ):
        store.save(whole(1))
        server.kill()
        assert within(AGES, lambda: not store.held)
        assert not store.disturbed
        server.start()
        assert within(AGES, lambda: store.held), "the token is still ours, so the lease is too"
        assert store.save(whole(2)).generation == 2


def test_a_failed_renewal_does_not_end_the_thread(redis_url):
    arm("before_renew:raise@1")
    try:
        with closing(opened(redis_url, lease_seconds=LEASE)) as store:
            time.sleep(3 * LEASE)
            assert within(AGES, lambda: store.held)
    finally:
        arm("")


def test_closing_without_a_redis_is_quick():
    store = made(f"redis://127.0.0.1:{free_port()}/0")
    store._lease.hold("1:x", time.monotonic())
    started = time.monotonic()
    store.close()
    assert time.monotonic() - started < 1


def test_a_store_that_lost_everything_is_written_again(redis_url, client):
    with closing(opened(redis_url, lease_seconds=LEASE)) as store:
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
    with closing(opened(redis_url)) as store:
        store.save(whole(1))
        then = contents(client)
        for n in range(2, 5):
            last = store.save(whole(n))
        restored(client, then)
        # The token was taken before, so it is there.
        with pytest.raises(FencedError, match="removed or replaced"):
            store.save(whole(5))
        assert store.acquire() is Acquired.CURRENT
        manifest = store.save(whole(6))
        assert (manifest.generation, manifest.parent) == (5, last.commit)
        assert [found.generation for found in manifests(client)] == [5, 1]


def test_a_store_with_a_foreign_history_is_loaded(redis_url, client):
    with closing(opened(redis_url)) as store:
        store.save(whole(1))
        with closing(take_over(client, redis_url)) as other:
            other.save(whole(100))
        with pytest.raises(FencedError):
            store.save(whole(2))
        assert store.acquire() is Acquired.STALE
        with pytest.raises(FencedError):
            store.save(whole(2))
        assert store.acquire() is Acquired.STALE, "as long as it has not loaded"
        assert store.load().snapshot.events == 100
        assert store.save(whole(101)).generation == 3


def test_after_a_foreign_history_ones_own_past_is_foreign(redis_url, client):
    with closing(opened(redis_url)) as store:
        store.save(whole(1))
        early = contents(client)
        store.save(whole(2))
        late = contents(client)
        restored(client, early)
        with closing(take_over(client, redis_url)) as other:
            other.save(whole(100))
        assert store.acquire() is Acquired.STALE
        store.load()
        restored(client, late)
        assert store.acquire() is Acquired.STALE, (
            "what it wrote before is not where its state comes from"
        )


def test_a_commit_whose_reply_was_lost_is_known(redis_url, client):
    with closing(opened(redis_url)) as store:
        with Broken(store, eval=done_but_no_reply), pytest.raises(Exception, match="lost"):
            store.save(whole(1))
        lost = manifests(client)[0]
        assert store.acquire() is Acquired.CURRENT
        manifest = store.save(whole(2))
        assert (manifest.generation, manifest.parent) == (2, lost.commit)


def test_acquiring_again_without_need_goes_on(redis_url):
    with closing(opened(redis_url)) as store:
        assert store.acquire() is Acquired.CURRENT
        assert store.save(whole(1)).generation == 1
        assert store.acquire() is Acquired.CURRENT
        assert store.save(whole(2)).generation == 2


def test_a_garbled_token_is_no_obstacle(redis_url, client):
    with closing(opened(redis_url)) as store:
        client.set("{m:m}:token", b"\xff\x00garbage")
        with pytest.raises(FencedError):
            store.save(whole(1))
        assert store.acquire() is Acquired.CURRENT
        assert store.save(whole(1)).generation == 1


def test_a_freeze_is_seen_and_what_was_learned_since_is_let_go(redis_url):
    with (
        closing(opened(redis_url, lease_seconds=LEASE)) as store,
        closing(made(redis_url)) as operator,
    ):
        store.save(whole(1))
        word = operator.freeze()
        assert word.generation == 1
        assert time.time() - 5 < word.since <= time.time()
        assert operator.freeze() == word, "said twice it is the same"
        with pytest.raises(FencedError):
            store.save(whole(2))
        assert within(AGES, lambda: store.frozen == word)
        assert store.held, "the lease is not touched"
        assert store.acquire() is Acquired.STALE
        assert store.load().snapshot.events == 1
        assert operator.newest().generation == 1
        assert operator.frozen == word, "a replica sees it too"
        assert operator.unfreeze() == word
        assert operator.unfreeze() is None
        assert within(AGES, lambda: store.frozen is None)
        assert not store.disturbed
        assert store.save(whole(3)).generation == 2


def test_a_freeze_before_the_first_checkpoint(redis_url, client):
    with closing(made(redis_url)) as operator, closing(made(redis_url)) as store:
        assert operator.freeze().generation == 0
        assert store.acquire() is Acquired.STALE
        assert store.frozen is not None
        client.set("{m:m}:frozen", b"garbage")
        store.newest()
        assert store.frozen is not None, "a word that cannot be read still holds learning"
    assert keys(client) == ["{m:m}:frozen", "{m:m}:token"]
