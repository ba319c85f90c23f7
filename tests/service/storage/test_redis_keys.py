"""A save that fails gives its room in Redis back, and never takes that of a checkpoint that may
have been made.
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
    made,
    manifests,
    opened,
    same,
    take_over,
    whole,
)

LARGE = 12 * MIB // 8


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


def aside(client: Redis) -> list[str]:
    return [key for key in keys(client) if ":g:" in key and client.ttl(key) >= 0]


@pytest.mark.parametrize("which", ["packaged", "system"])
@pytest.mark.parametrize("who", ["learner", "operator"])
def test_memory_that_ends_while_writing_is_given_back(tmp_path, which, who, request):
    port = free_port()
    executable = PLAIN if which == "packaged" else request.getfixturevalue("system_redis")
    url = f"redis://{HOST}:{port}/0"
    with (
        running(tmp_path / "r", port, "--port", str(port), executable=executable),
        Redis(port=port) as client,
        closing(opened(url)) as store,
        closing(made(url)) as operator,
    ):
        store.save(whole(1))
        write = store.save if who == "learner" else operator.restate
        before = client.info("memory")["used_memory"]
        client.config_set("maxmemory", before + 8 * MIB)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError, match="maxmemory"):
                write(whole(2, size=LARGE))
            assert aside(client) == []
            assert client.info("memory")["used_memory"] < before + 3 * MIB, (
                "but for the buffers of its clients"
            )
        assert write(whole(3, size=LARGE // 4)).generation == 2, "what fits is written at once"


def test_memory_that_ends_with_the_last_chunk_is_given_back(redis_url, client):
    with closing(opened(redis_url)) as store:

        def full(real, *arguments):
            if arguments[0] == COMMIT:
                client.config_set("maxmemory", "1")
            return real.eval(*arguments)

        try:
            with Broken(store, eval=full), pytest.raises(StoreUnavailableError, match="maxmemory"):
                store.save(whole(1))
        finally:
            client.config_set("maxmemory", "0")
        assert aside(client) == []
        assert store.save(whole(2)).generation == 1


def test_a_refused_commit_gives_its_room_back(redis_url, client):
    with closing(opened(redis_url)) as store:
        store.save(whole(1))
        with closing(take_over(client, redis_url)) as other:
            with pytest.raises(FencedError, match="taken over"):
                store.save(whole(2))
            assert aside(client) == []
            other.save(whole(3))
            client.delete("{m:m}:head")
            with pytest.raises(FencedError, match="removed or replaced"):
                other.save(whole(4))
            assert aside(client) == []


def test_what_cannot_be_given_back_now_is_next_time(redis_url, client):
    with closing(opened(redis_url)) as store:
        store.save(whole(1))
        for _ in range(3):
            with Broken(store, eval=cut_off), pytest.raises(StoreUnavailableError):
                store.save(whole(2))
            assert len(aside(client)) <= 1, "one try's, not every try's"
        assert store.save(whole(3)).generation == 2
        assert aside(client) == []


def test_a_commit_whose_answer_was_lost_keeps_its_room(redis_url, client):
    with closing(opened(redis_url)) as store:
        with Broken(store, eval=done_but_no_reply), pytest.raises(StoreUnavailableError):
            store.save(whole(1))
        assert store.save(whole(2)).generation == 2
        assert same(store.read(manifests(client)[1]), whole(1))


def test_a_commit_that_was_made_and_then_refused_keeps_its_room(redis_url, client):
    """Its first answer was lost; sent again it came after another learner's commit."""
    others = []

    def sent_twice(real, *arguments):
        if arguments[0] == COMMIT and not others:
            assert real.eval(*arguments) == b"OK"
            others.append(take_over(client, redis_url))
            others[0].save(whole(100))
        return real.eval(*arguments)

    with (
        closing(opened(redis_url)) as store,
        Broken(store, eval=sent_twice),
        pytest.raises(FencedError),
    ):
        store.save(whole(1))
    with closing(others[0]) as other:
        found = other.generations()
        assert [manifest.events for manifest in found] == [100, 1]
        assert same(other.read(found[1]), whole(1))


def test_a_commit_that_comes_after_its_room_was_given_back_is_none(redis_url, client):
    late = []

    def delayed(_, *arguments):
        late.append(arguments)
        cut_off()

    with closing(opened(redis_url)) as store:
        with Broken(store, eval=delayed), pytest.raises(StoreUnavailableError):
            store.save(whole(1))

        def overtaken(real, *arguments):
            answer = real.eval(*arguments)
            if late and arguments[0] != COMMIT:
                assert real.eval(*late.pop()) == b"INCOMPLETE"
            return answer

        with Broken(store, eval=overtaken):
            assert store.save(whole(2)).generation == 1
        assert not late
        assert [manifest.events for manifest in manifests(client)] == [2]


def test_tries_without_an_answer_are_not_remembered_for_ever(redis_url):
    def lost(real, *arguments):
        if arguments[0] == COMMIT:
            cut_off()
        return real.eval(*arguments)

    with closing(opened(redis_url)) as store:
        with Broken(store, eval=lost):
            for n in range(100):
                with pytest.raises(StoreUnavailableError):
                    store.save(whole(n))
        assert len(store._known.unacknowledged) <= 64
        assert store.save(whole(1)).generation == 1
