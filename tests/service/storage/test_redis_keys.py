"""A failed save frees its memory in Redis, and never that of a checkpoint that may have been
committed.
"""

from contextlib import closing

import pytest
from redis import Redis

from service.checkpoint.store import FencedError, StoreUnavailableError
from service.embedded.process import HOST, free_port
from service.storage.lua import COMMIT
from tests.service.storage.redis_processes import PLAIN, running
from tests.service.storage.stores import (
    MIB,
    Broken,
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

LARGE = 12 * MIB // 8


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


def orphans(client: Redis) -> list[str]:
    return [key for key in keys(client) if ":g:" in key and client.ttl(key) >= 0]


@pytest.mark.parametrize("which", ["packaged", "system"])
@pytest.mark.parametrize("who", ["learner", "operator"])
def test_a_save_that_runs_out_of_memory_frees_its_chunks(tmp_path, which, who, request):
    port = free_port()
    executable = PLAIN if which == "packaged" else request.getfixturevalue("system_redis")
    url = f"redis://{HOST}:{port}/0"
    with (
        running(tmp_path / "r", port, "--port", str(port), executable=executable),
        Redis(port=port) as client,
        closing(open_store(url)) as store,
        closing(make_store(url)) as operator,
    ):
        store.save(whole(1))
        write = store.save if who == "learner" else operator.restate
        before = client.info("memory")["used_memory"]
        client.config_set("maxmemory", before + 8 * MIB)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError, match="maxmemory"):
                write(whole(2, size=LARGE))
            assert orphans(client) == []
            assert client.info("memory")["used_memory"] < before + 3 * MIB, (
                "only the buffers of the clients may remain"
            )
        assert write(whole(3, size=LARGE // 4)).generation == 2, (
            "a snapshot that fits must be written at once"
        )


def test_a_commit_that_runs_out_of_memory_frees_its_chunks(redis_url, client):
    with closing(open_store(redis_url)) as store:

        def fill_memory(real, *arguments):
            if arguments[0] == COMMIT:
                client.config_set("maxmemory", "1")
            return real.eval(*arguments)

        try:
            with (
                Broken(store, eval=fill_memory),
                pytest.raises(StoreUnavailableError, match="maxmemory"),
            ):
                store.save(whole(1))
        finally:
            client.config_set("maxmemory", "0")
        assert orphans(client) == []
        assert store.save(whole(2)).generation == 1


def test_a_refused_commit_frees_its_chunks(redis_url, client):
    with closing(open_store(redis_url)) as store:
        store.save(whole(1))
        with closing(take_over(client, redis_url)) as other:
            with pytest.raises(FencedError, match="taken over"):
                store.save(whole(2))
            assert orphans(client) == []
            other.save(whole(3))
            client.delete("{m:m}:head")
            with pytest.raises(FencedError, match="removed or replaced"):
                other.save(whole(4))
            assert orphans(client) == []


def test_chunks_that_could_not_be_freed_are_freed_by_the_next_save(redis_url, client):
    with closing(open_store(redis_url)) as store:
        store.save(whole(1))
        for _ in range(3):
            with Broken(store, eval=cut_off), pytest.raises(StoreUnavailableError):
                store.save(whole(2))
            assert len(orphans(client)) <= 1, "only the chunks of one attempt may remain"
        assert store.save(whole(3)).generation == 2
        assert orphans(client) == []


def test_a_commit_whose_reply_was_lost_keeps_its_chunks(redis_url, client):
    with closing(open_store(redis_url)) as store:
        with Broken(store, eval=done_but_no_reply), pytest.raises(StoreUnavailableError):
            store.save(whole(1))
        assert store.save(whole(2)).generation == 2
        assert same(store.read(manifests(client)[1]), whole(1))


def test_a_commit_that_was_sent_twice_keeps_its_chunks(redis_url, client):
    """The first reply was lost; the second attempt came after another learner's commit."""
    others = []

    def send_twice(real, *arguments):
        if arguments[0] == COMMIT and not others:
            assert real.eval(*arguments) == b"OK"
            others.append(take_over(client, redis_url))
            others[0].save(whole(100))
        return real.eval(*arguments)

    with (
        closing(open_store(redis_url)) as store,
        Broken(store, eval=send_twice),
        pytest.raises(FencedError),
    ):
        store.save(whole(1))
    with closing(others[0]) as other:
        found = other.generations()
        assert [manifest.events for manifest in found] == [100, 1]
        assert same(other.read(found[1]), whole(1))


def test_a_commit_that_arrives_after_its_chunks_were_freed_is_void(redis_url, client):
    late = []

    def delay(_, *arguments):
        late.append(arguments)
        cut_off()

    with closing(open_store(redis_url)) as store:
        with Broken(store, eval=delay), pytest.raises(StoreUnavailableError):
            store.save(whole(1))

        def let_the_late_commit_arrive(real, *arguments):
            answer = real.eval(*arguments)
            if late and arguments[0] != COMMIT:
                assert real.eval(*late.pop()) == b"INCOMPLETE"
            return answer

        with Broken(store, eval=let_the_late_commit_arrive):
            assert store.save(whole(2)).generation == 1
        assert not late
        assert [manifest.events for manifest in manifests(client)] == [2]


def test_the_memory_of_unacknowledged_commits_is_bounded(redis_url):
    def lose(real, *arguments):
        if arguments[0] == COMMIT:
            cut_off()
        return real.eval(*arguments)

    with closing(open_store(redis_url)) as store:
        with Broken(store, eval=lose):
            for n in range(100):
                with pytest.raises(StoreUnavailableError):
                    store.save(whole(n))
        assert len(store._known.unacknowledged) <= 64
        assert store.save(whole(1)).generation == 1
