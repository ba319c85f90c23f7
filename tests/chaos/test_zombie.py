"""A learner that is stopped, replaced and resumed: its writes are refused, and it
stands by again.
"""

import random
import signal
import time

from redis import Redis

from tests.chaos.events import QUESTION
from tests.chaos.scale import FIGURES
from tests.waiting import wait_for

LEASE_SECONDS = 300.0
"""Seconds; so long that the lease ends only when the test deletes it, never because a learner lacks
CPU.
"""


def test_a_resumed_learner_is_always_fenced(make_life, redis_url, record_figures):
    life = make_life(
        f"{redis_url}/events", redis_url, "zombie", store_settings={"lease_seconds": LEASE_SECONDS}
    )
    draw = random.Random(5)
    pair = [life.start("run"), life.start("run")]
    seen = {}
    for _ in range(FIGURES.zombies):
        life.feed(3000)
        life.advance()
        time.sleep(draw.uniform(0.0, 0.2))
        holder = wait_for(lambda: find_holder(pair), "one holds the lease")
        before = count_fenced(holder)
        replace(life, holder, redis_url)
        note(life, seen)
        new = life.newest().token
        holder.signal(signal.SIGCONT)
        wait_for(
            lambda woken=holder, least=before: count_fenced(woken) > least,
            "the resumed learner is fenced",
        )
        assert holder.get("/predict", QUESTION)[0] == 200, (
            "it does not serve the model of the successor"
        )
        life.catch_up()
        note(life, seen)
        assert life.newest().token == new, "another learner wrote after the successor"
    check_lineage(seen)
    for process in pair:
        process.signal(signal.SIGTERM)
    assert [process.ended() for process in pair] == [0, 0]
    life.prove()
    record_figures(
        "zombie: SIGSTOP, successor, SIGCONT",
        rounds=FIGURES.zombies,
        fenced=FIGURES.zombies,
        different=0,
    )


def replace(life, holder, redis_url):
    """Stop the holder and end its lease, so that the other learner succeeds it."""
    holder.signal(signal.SIGSTOP)
    token = life.newest().token
    with Redis.from_url(redis_url) as client:
        assert client.delete("{m:zombie}:lease") == 1, "there was no lease"
    # Feed events, so that the successor and the resumed learner have something to learn and to
    # write.
    life.feed(500)
    wait_for(lambda: life.newest().token != token, "the successor's first checkpoint")


def find_holder(pair):
    holding = [process for process in pair if process.metrics().get("lease_held")]
    return holding[0] if len(holding) == 1 else None


def count_fenced(process):
    """Return how often the learner says that it was fenced."""
    return process.metrics().get("fenced_total", 0.0)


def note(life, seen):
    """Remember the generations that the store has now."""
    for manifest in life.generations():
        assert seen.setdefault(manifest.generation, manifest) == manifest, (
            "a generation was written twice"
        )


def check_lineage(seen):
    """Each generation was learned from its parent, where both were seen."""
    neighbours = [(seen[number], seen[number + 1]) for number in seen if number + 1 in seen]
    assert neighbours
    assert all(later.parent == earlier.commit for earlier, later in neighbours)
