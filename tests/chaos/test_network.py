"""The network between a learner and Redis: cut, silent, slow, reset in the middle of a reply, or a
reply lost.

The worst is a reply that is lost after a commit: the learner cannot know that the commit was done.
"""

from tests.chaos.network_faults import suffer
from tests.chaos.proxy import run_proxy
from tests.chaos.scale import FIGURES
from tests.waiting import wait_for


def is_commit(request):
    return b"EVAL" in request and b'"generation"' in request


def test_a_lost_reply_after_a_commit_changes_nothing(
    make_life, redis_server, redis_url, record_figures
):
    with run_proxy(redis_server.port) as proxy:
        life = make_life(
            f"{redis_url}/events", redis_url, "unsure", store_settings={"url": through_proxy(proxy)}
        )
        life.feed()
        process = life.start()
        life.advance()
        for dropped in range(FIGURES.dropped_replies):
            proxy.drop_reply(is_commit)
            life.feed(200)
            wait_for(lambda least=dropped: proxy.dropped > least, "a commit whose reply is lost")
            life.catch_up()
        generations = [manifest.generation for manifest in life.generations()]
        assert process.metrics()["fenced_total"] == 0, (
            "it took its own commit for that of another learner"
        )
        process.kill()
        life.prove()
    newest = generations[:8]
    assert newest == list(range(newest[0], newest[0] - len(newest), -1)), "generations have a gap"
    record_figures("reply lost after the commit", rounds=FIGURES.dropped_replies, different=0)


def test_faults_of_the_link_to_redis_change_nothing(
    make_life, redis_server, redis_url, record_figures
):
    with run_proxy(redis_server.port) as proxy:
        life = make_life(
            f"{redis_url}/events", redis_url, "link", store_settings={"url": through_proxy(proxy)}
        )
        answered = suffer(life, proxy, is_commit)
    record_figures(
        "network to Redis: cut, silent, slow, reset, reply lost",
        different=0,
        predictions=answered,
        failed=0,
    )


def through_proxy(proxy):
    return f"redis://127.0.0.1:{proxy.port}/0"
