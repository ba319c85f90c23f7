"""The network between a learner and Redis or Kafka: cut, silent, slow, reset in mid-reply, or a
reply lost.

A reply that is lost after a commit is the worst of them: the learner cannot know that it was done.
"""

from tests.chaos.network_faults import suffer
from tests.chaos.proxy import proxied
from tests.chaos.scale import FIGURES
from tests.waiting import wait_for


def a_commit(request):
    return b"EVAL" in request and b'"generation"' in request


def test_a_reply_lost_after_the_commit(make_life, redis_server, redis_url, measured):
    with proxied(redis_server.port) as proxy:
        life = make_life(
            f"{redis_url}/events", redis_url, "unsure", store_settings={"url": through(proxy)}
        )
        life.feed()
        process = life.start()
        life.advances()
        for dropped in range(FIGURES.dropped_replies):
            proxy.drop_reply(a_commit)
            life.feed(200)
            wait_for(lambda least=dropped: proxy.dropped > least, "a commit whose reply is lost")
            life.caught_up()
        generations = [manifest.generation for manifest in life.generations()]
        assert process.metrics()["fenced_total"] == 0, "it took its own commit for another's"
        process.kill()
        life.prove()
    newest = generations[:8]
    assert newest == list(range(newest[0], newest[0] - len(newest), -1)), "generations have no gap"
    measured("reply lost after the commit", rounds=FIGURES.dropped_replies, different=0)


def test_the_link_to_redis(make_life, redis_server, redis_url, measured):
    with proxied(redis_server.port) as proxy:
        life = make_life(
            f"{redis_url}/events", redis_url, "link", store_settings={"url": through(proxy)}
        )
        answered = suffer(life, proxy, a_commit)
    measured(
        "network to Redis: cut, silent, slow, reset, reply lost",
        different=0,
        predictions=answered,
        failed=0,
    )


def through(proxy):
    return f"redis://127.0.0.1:{proxy.port}/0"
