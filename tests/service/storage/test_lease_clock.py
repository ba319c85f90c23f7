"""Redis' clock set back or forward: a lease that was cut short or drawn out never decides who may
write.
"""

from contextlib import closing

import pytest
from redis import Redis

from service.checkpoint.store import Acquired, FencedError
from service.config.settings import LONGEST_LEASE_SECONDS
from tests.service.storage.stores import abandon, made, opened, stop_renewing, whole

KEY = "{m:m}:lease"
HOURS = 3 * 3600.0


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


def set_back(client: Redis, seconds: float) -> None:
    """What a clock set back by so much does to the lease: it ends so much later."""
    client.pexpire(KEY, client.pttl(KEY) + round(seconds * 1000))


@pytest.mark.parametrize("lease", [0.3, 1.0, 10.0, LONGEST_LEASE_SECONDS])
@pytest.mark.parametrize("successor", [0.3, 10.0, LONGEST_LEASE_SECONDS])
def test_a_lease_longer_than_any_can_be_is_over(redis_url, client, lease, successor):
    store = opened(redis_url, lease_seconds=lease)
    store.save(whole(1))
    abandon(store)
    client.set(KEY, store._lease.holder, px=round((lease + HOURS) * 1000))
    with closing(made(redis_url, lease_seconds=successor)) as other:
        assert other.acquire() is Acquired.STALE
        assert other.load().snapshot.events == 1
        assert client.pttl(KEY) <= successor * 1000
        with pytest.raises(FencedError):
            store.save(whole(2))


@pytest.mark.parametrize("lease", [10.0, LONGEST_LEASE_SECONDS])
@pytest.mark.parametrize("successor", [0.3, LONGEST_LEASE_SECONDS])
def test_a_small_step_of_the_clock_leaves_a_living_learner_its_lease(
    redis_url, client, lease, successor
):
    with (
        closing(opened(redis_url, lease_seconds=lease)),
        closing(made(redis_url, lease_seconds=successor)) as other,
    ):
        set_back(client, 0.5 * lease)
        assert other.acquire() is Acquired.HELD_ELSEWHERE


@pytest.mark.parametrize(
    "value", ["0123456789abcdef", "somebody:x", ":", "somebody:", "x:99999999999999999999"]
)
def test_a_lease_that_tells_no_length_has_the_longest(redis_url, client, value):
    """As an older version wrote it."""
    longest = round(LONGEST_LEASE_SECONDS * 1000)
    with closing(made(redis_url)) as store:
        client.set(KEY, value, px=longest)
        assert store.acquire() is Acquired.HELD_ELSEWHERE
        client.set(KEY, value, px=2 * longest + 60_000)
        assert store.acquire() is Acquired.STALE


def test_a_clock_set_forward_ends_the_lease_and_the_token_guards(redis_url, client):
    with closing(opened(redis_url)) as first, closing(made(redis_url)) as second:
        first.save(whole(1))
        stop_renewing(first)  # or it might take its lease back before the other comes
        client.pexpire(KEY, 0)
        assert second.acquire() is Acquired.STALE
        second.load()
        assert first.held, "by its own clock the lease still lasts"
        with pytest.raises(FencedError):
            first.save(whole(2))
        assert second.save(whole(3)).generation == 2
        assert first.acquire() is Acquired.HELD_ELSEWHERE


def test_a_living_learner_that_lost_its_lease_to_a_clock_renews_it(redis_url, client):
    with closing(opened(redis_url)) as store, closing(made(redis_url)) as other:
        client.pexpire(KEY, 0)
        store._lease.renew()
        assert other.acquire() is Acquired.HELD_ELSEWHERE
        set_back(client, HOURS)
        store._lease.renew()
        assert client.pttl(KEY) <= store._lease.milliseconds
        assert other.acquire() is Acquired.HELD_ELSEWHERE
