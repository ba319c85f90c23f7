"""Redis' clock set back or forward: a lease that was shortened or extended never decides who may
write.
"""

from contextlib import closing

import pytest
from redis import Redis

from service.checkpoint.store import Acquired, FencedError
from service.config.settings import LONGEST_LEASE_SECONDS
from tests.service.storage.stores import abandon, make_store, open_store, stop_renewing, whole

KEY = "{m:m}:lease"
HOURS = 3 * 3600.0


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


def set_back(client: Redis, seconds: float) -> None:
    """Extend the lease as a clock set back by this many seconds does."""
    client.pexpire(KEY, client.pttl(KEY) + round(seconds * 1000))


@pytest.mark.parametrize("lease", [0.3, 1.0, 10.0, LONGEST_LEASE_SECONDS])
@pytest.mark.parametrize("successor", [0.3, 10.0, LONGEST_LEASE_SECONDS])
def test_an_impossibly_long_lease_is_taken_over(redis_url, client, lease, successor):
    store = open_store(redis_url, lease_seconds=lease)
    store.save(whole(1))
    abandon(store)
    client.set(KEY, store._lease.holder, px=round((lease + HOURS) * 1000))
    with closing(make_store(redis_url, lease_seconds=successor)) as other:
        assert other.acquire() is Acquired.STALE
        assert other.load().snapshot.events == 1
        assert client.pttl(KEY) <= successor * 1000
        with pytest.raises(FencedError):
            store.save(whole(2))


@pytest.mark.parametrize("lease", [10.0, LONGEST_LEASE_SECONDS])
@pytest.mark.parametrize("successor", [0.3, LONGEST_LEASE_SECONDS])
def test_a_small_step_of_the_clock_does_not_take_the_lease(redis_url, client, lease, successor):
    with (
        closing(open_store(redis_url, lease_seconds=lease)),
        closing(make_store(redis_url, lease_seconds=successor)) as other,
    ):
        set_back(client, 0.5 * lease)
        assert other.acquire() is Acquired.HELD_ELSEWHERE


@pytest.mark.parametrize(
    "value", ["0123456789abcdef", "somebody:x", ":", "somebody:", "x:99999999999999999999"]
)
def test_a_lease_without_a_length_counts_as_the_longest(redis_url, client, value):
    """Older versions wrote leases without a length."""
    longest = round(LONGEST_LEASE_SECONDS * 1000)
    with closing(make_store(redis_url)) as store:
        client.set(KEY, value, px=longest)
        assert store.acquire() is Acquired.HELD_ELSEWHERE
        client.set(KEY, value, px=2 * longest + 60_000)
        assert store.acquire() is Acquired.STALE


def test_a_clock_set_forward_ends_the_lease_but_the_token_fences(redis_url, client):
    with closing(open_store(redis_url)) as first, closing(make_store(redis_url)) as second:
        first.save(whole(1))
        stop_renewing(first)  # otherwise it might retake its lease first
        client.pexpire(KEY, 0)
        assert second.acquire() is Acquired.STALE
        second.load()
        assert first.held, "by the learner's own clock the lease must still last"
        with pytest.raises(FencedError):
            first.save(whole(2))
        assert second.save(whole(3)).generation == 2
        assert first.acquire() is Acquired.HELD_ELSEWHERE


def test_a_learner_renews_a_lease_lost_by_a_clock_step(redis_url, client):
    with closing(open_store(redis_url)) as store, closing(make_store(redis_url)) as other:
        client.pexpire(KEY, 0)
        store._lease.renew()
        assert other.acquire() is Acquired.HELD_ELSEWHERE
        set_back(client, HOURS)
        store._lease.renew()
        assert client.pttl(KEY) <= store._lease.milliseconds
        assert other.acquire() is Acquired.HELD_ELSEWHERE
