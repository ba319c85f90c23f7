"""A learner that is stopped, replaced and woken: its late write is refused, and it waits its turn again."""

import random
import signal
import time

from tests.chaos.life import LEASE_SECONDS
from tests.chaos.scale import FIGURES
from tests.integration.processes import wait_for


def test_a_woken_learner_is_always_fenced(make_life, redis_url, measured):
    life = make_life(f"{redis_url}/events", redis_url, "zombie")
    draw = random.Random(5)
    life.feed(3000)
    holder = life.start()
    life.advances()
    standby = life.start()
    for _ in range(FIGURES.zombies):
        life.feed(2000)
        life.advances()
        time.sleep(draw.uniform(0.0, 0.2))
        holder.signal(signal.SIGSTOP)
        old = life.newest()
        wait_for(lambda old=old: life.newest().token != old.token, 30, "the successor's first checkpoint")
        fenced = fences(life, holder, standby)
        assert fenced["onepass_fenced_total"] >= 1
        holder, standby = standby, holder
    life.prove()
    measured("zombie: SIGSTOP, successor, SIGCONT", rounds=FIGURES.zombies, fenced=FIGURES.zombies)


def fences(life, zombie, successor):
    """Wake the zombie: it must say that it was fenced, and the successor's checkpoints must follow one another."""
    raise NotImplementedError
