"""A learner recognises its own commits in a store that went back in time, even by a day, with
little memory.
"""

import tracemalloc
import uuid
from contextlib import closing

from redis import Redis

from service.checkpoint.store import Acquired, Manifest
from service.storage import known_commits as memory
from service.storage.known_commits import KnownCommits
from service.storage.manifests import seal_entry
from tests.chaos.scale import CHAOS
from tests.service.storage.stores import contents, open_store, whole

DAY = 86_400
COMMITS = DAY if CHAOS else DAY // 8
"""Commits, one a second."""


def entry(generation: int):
    commit = uuid.uuid4().hex
    return seal_entry(Manifest(generation, commit, "", "1:x", 0.0, 0, 0, None, ()))


def test_a_dump_of_yesterday_is_recognised(monkeypatch):
    tracemalloc.start()
    try:
        known = KnownCommits()
        known.begin([], set(), "")
        first = entry(1)
        known.acknowledge(first, [first])
        before = tracemalloc.get_traced_memory()[0]
        some = []
        for generation in range(2, COMMITS + 1):
            new = entry(generation)
            known.acknowledge(new, [new])
            if generation % 1000 == 0:
                some.append(new)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    digest, made = memory._digest, []
    monkeypatch.setattr(memory, "_digest", lambda commit: made.append(commit) or digest(commit))
    assert all(known.knows([old]) for old in [first, *some])
    assert not any(known.knows([entry(n)]) for n in range(10))
    assert len(made) <= 1 + len(some) + 10, "there must be one digest per question, not per commit"
    assert used < 35 * COMMITS
    assert memory.REMEMBERED >= DAY


def test_the_number_of_known_commits_is_bounded(monkeypatch):
    monkeypatch.setattr(memory, "REMEMBERED", 10)
    known = KnownCommits()
    known.begin([], set(), "")
    entries = [entry(n) for n in range(30)]
    for new in entries:
        known.acknowledge(new, [new])
    assert [known.knows([old]) for old in entries] == [False] * 20 + [True] * 10


def test_bytes_across_two_digests_are_no_match():
    known = KnownCommits()
    known.begin([], set(), "")
    wanted = memory._digest("x")
    known._own += b"-" * 8 + wanted + b"-" * 8
    assert not known._wrote("x")
    known._own += wanted
    assert known._wrote("x")


def test_a_dump_hundreds_of_commits_old_is_rolled_forward(redis_url):
    with (
        Redis.from_url(redis_url) as client,
        closing(open_store(redis_url, keep=1, keep_levels=0)) as store,
    ):
        store.save(whole(0))
        old = contents(client)
        for n in range(1, 200):
            store.save(whole(n))
        client.flushdb()
        for key, value in old.items():
            client.restore(key, 0, value)
        assert store.acquire() is Acquired.CURRENT
        assert store.save(whole(200)).generation == 201
