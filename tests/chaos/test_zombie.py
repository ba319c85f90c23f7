"""A learner that is stopped, replaced and woken: what it still wants to write is refused, and it stands by again."""

import random
import signal
import time
from collections import Counter

from tests.chaos.events import QUESTION
from tests.chaos.scale import FIGURES
from tests.integration.processes import wait_for

FENCED_SECONDS = 10.0


def test_a_woken_learner_is_always_fenced(make_life, redis_url, measured):
    life = make_life(f"{redis_url}/events", redis_url, "zombie")
    draw = random.Random(5)
    life.feed()
    holder = life.start("run")
    life.advances()
    standby = life.start("run")
    seen, fenced = {}, Counter()
    for _ in range(FIGURES.zombies):
        life.feed(3000)
        life.advances()
        time.sleep(draw.uniform(0.0, 0.2))
        holder.signal(signal.SIGSTOP)
        token = life.newest().token
        wait_for(lambda token=token: life.newest().token != token, 30, "the successor's first checkpoint")
        note(life, seen)
        new = life.newest().token
        life.feed(500)  # so that the woken one finds something to learn, and to write
        holder.signal(signal.SIGCONT)
        fenced[holder] += 1
        wait_for(lambda woken=holder: counted(woken) == fenced[woken], FENCED_SECONDS, "it is fenced")
        assert holder.get("/predict", QUESTION)[0] == 200, "it serves what the other learns"
        life.caught_up()
        note(life, seen)
        assert life.newest().token == new, "somebody else wrote after the successor"
        holder, standby = standby, holder
    follow_one_another(seen)
    holder.signal(signal.SIGTERM)
    standby.signal(signal.SIGTERM)
    assert (holder.ended(15), standby.ended(15)) == (0, 0)
    life.prove()
    measured("zombie: SIGSTOP, successor, SIGCONT", rounds=FIGURES.zombies, fenced=FIGURES.zombies, different=0)


def counted(process):
    """How often it was fenced, as it says itself."""
    return process.metrics().get("fenced_total")


def note(life, seen):
    """Remember the generations that the store has now."""
    for manifest in life.generations():
        assert seen.setdefault(manifest.generation, manifest) == manifest, "a generation was written twice"


def follow_one_another(seen):
    """Each generation that was seen beside its parent was learned from it."""
    neighbours = [(seen[number], seen[number + 1]) for number in seen if number + 1 in seen]
    assert neighbours
    assert all(later.parent == earlier.commit for earlier, later in neighbours)
