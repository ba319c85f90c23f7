"""A learner that is stopped, replaced and woken: what it still wants to write is refused, and it
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
"""It runs out when the test says so, and for no learner that is only kept from its CPU."""


def test_a_woken_learner_is_always_fenced(make_life, redis_url, measured):
    life = make_life(
        f"{redis_url}/events", redis_url, "zombie", store_settings={"lease_seconds": LEASE_SECONDS}
    )
    draw = random.Random(5)
    pair = [life.start("run"), life.start("run")]
    seen = {}
    for _ in range(FIGURES.zombies):
        life.feed(3000)
        life.advances()
        time.sleep(draw.uniform(0.0, 0.2))
        holder = wait_for(lambda: the_one_that_holds(pair), "one holds the lease")
        before = fenced(holder)
        replace(life, holder, redis_url)
        note(life, seen)
        new = life.newest().token
        holder.signal(signal.SIGCONT)
        wait_for(lambda woken=holder, least=before: fenced(woken) > least, "it is fenced")
        assert holder.get("/predict", QUESTION)[0] == 200, "it serves what the other learns"
        life.caught_up()
        note(life, seen)
        assert life.newest().token == new, "somebody else wrote after the successor"
    follow_one_another(seen)
    for process in pair:
        process.signal(signal.SIGTERM)
    assert [process.ended() for process in pair] == [0, 0]
    life.prove()
    measured(
        "zombie: SIGSTOP, successor, SIGCONT",
        rounds=FIGURES.zombies,
        fenced=FIGURES.zombies,
        different=0,
    )


def replace(life, holder, redis_url):
    """Stop the holder and end its lease: the other learner succeeds it."""
    holder.signal(signal.SIGSTOP)
    token = life.newest().token
    with Redis.from_url(redis_url) as client:
        assert client.delete("{m:zombie}:lease") == 1, "the lease runs out"
    # So that the successor, and the woken one, find something to learn and to write.
    life.feed(500)
    wait_for(lambda: life.newest().token != token, "the successor's first checkpoint")


def the_one_that_holds(pair):
    holding = [process for process in pair if process.metrics().get("lease_held")]
    return holding[0] if len(holding) == 1 else None


def fenced(process):
    """How often it was, as it says itself."""
    return process.metrics().get("fenced_total", 0.0)


def note(life, seen):
    """Remember the generations that the store has now."""
    for manifest in life.generations():
        assert seen.setdefault(manifest.generation, manifest) == manifest, (
            "a generation was written twice"
        )


def follow_one_another(seen):
    """Each generation that was seen beside its parent was learned from it."""
    neighbours = [(seen[number], seen[number + 1]) for number in seen if number + 1 in seen]
    assert neighbours
    assert all(later.parent == earlier.commit for earlier, later in neighbours)
