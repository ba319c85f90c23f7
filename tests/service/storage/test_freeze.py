"""An operator's freeze is noticed soon however long the lease is, and whatever its key contains;
and a lease without expiry.
"""

import json
from contextlib import closing

import pytest
from redis import Redis

from service.checkpoint.store import Acquired, Freeze
from service.cli.tables import format_freeze
from service.config.settings import LONGEST_LEASE_SECONDS
from service.storage.lease import RENEWALS, read_freeze
from tests.looped import looped
from tests.service.storage.stores import make_store, open_store, whole
from tests.waiting import HANG_SECONDS, wait_for


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


def test_a_freeze_is_noticed_soon_however_long_the_lease_is(redis_url):
    assert LONGEST_LEASE_SECONDS / RENEWALS > HANG_SECONDS, (
        "renewals alone must be too rare for this test"
    )
    with closing(open_store(redis_url)) as store, closing(make_store(redis_url)) as operator:
        operator.freeze()
        wait_for(lambda: store.frozen is not None, "the learner sees the freeze")
        operator.unfreeze()
        wait_for(lambda: store.frozen is None, "the learner sees the end of the freeze")


@looped(
    "raw",
    [
        b"garbage",
        b"\xff",
        b"[" * 100_000,
        b'{"since": ' + b"[" * 100_000,
        b'{"other": ' + b"[" * 100_000,
        b"{}",
        b"null",
        *(
            f'{{"since": {since}, "generation": 1}}'.encode()
            for since in (
                "1e300",
                "-1",
                "1e11",
                "1e999",
                "-1e999",
                "9" * 400,
                "NaN",
                "1e-400x",
                "null",
            )
        ),
        *(
            f'{{"since": 1.0, "generation": {number}}}'.encode()
            for number in ("-1", "9" * 5000, "1e300", "1.5")
        ),
    ],
)
def test_an_unreadable_freeze_still_holds(raw):
    assert read_freeze(raw) == Freeze(0.0, 0)


@pytest.mark.parametrize("since", [0, 0.5, 1e9, 99_999_999_999.0])
def test_a_readable_freeze_can_be_formatted(since):
    word = read_freeze(json.dumps({"since": since, "generation": 2**63 - 1}).encode())
    assert word == Freeze(since, 2**63 - 1)
    assert "at generation" in format_freeze(word)


def test_an_empty_freeze_counts_as_none(redis_url, client):
    client.set("{m:m}:frozen", "")
    with closing(open_store(redis_url)) as store, closing(make_store(redis_url)) as operator:
        store.save(whole(1))
        assert store.frozen is None
        store._lease.renew()
        assert store.frozen is None
        operator.newest()
        assert operator.frozen is None
        assert operator.unfreeze() is None
        client.set("{m:m}:frozen", "")
        assert operator.freeze().generation == 1
        store._lease.renew()
        assert store.frozen is not None


def test_a_lease_without_expiry_is_taken_over(redis_url, client):
    client.set("{m:m}:lease", "somebody")
    with closing(make_store(redis_url)) as store:
        assert store.acquire() is Acquired.STALE
        assert client.pttl("{m:m}:lease") > 0
    client.set("{m:m}:lease", "somebody", px=60_000)
    with closing(make_store(redis_url)) as store:
        assert store.acquire() is Acquired.HELD_ELSEWHERE


def test_a_user_that_may_not_read_the_expiry_waits(redis_url, client):
    client.execute_command(
        "ACL", "SETUSER", "onepass", "reset", "on", ">secret", "~*", "+@all", "-pttl"
    )
    try:
        client.set("{m:m}:lease", "somebody")
        with closing(make_store(redis_url.replace("//", "//onepass@"), password="secret")) as store:
            assert store.acquire() is Acquired.HELD_ELSEWHERE
    finally:
        client.acl_deluser("onepass")
