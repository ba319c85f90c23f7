"""SIGTERM under load: exit 0, and nothing is learned a second time afterwards.

A process that does not end within nine seconds ends itself with another status.

A message that cannot be learned goes to the dead-letter log when it is read, so a message that was
read twice is there twice.
"""

import random
import signal
import time

from tests.chaos import dead_letters
from tests.chaos.lanes import side_by_side
from tests.chaos.measuring import Stopwatch
from tests.chaos.scale import CHAOS, FIGURES
from tests.waiting import wait_for

EXIT_SECONDS = 10.0


def test_sigterm_leaves_nothing_to_redo(make_life, redis_url, record_figures):
    # No checkpoint is due before the signal, so the signal made the one that is found.
    never = {"interval_seconds": 3600, "interval_events": 10**9}
    lives = [
        make_life(f"{redis_url}/{role}", redis_url, role, checkpoint=never)
        for role in ("learn", "run")
    ]
    slowest = []

    def live(life):
        draw = random.Random(life.name)
        for _ in range(-(-FIGURES.terms // len(lives))):
            life.feed(3000)
            before = life.events()
            process = life.start(life.name)
            wait_for(
                lambda pair=(process, before): read_events(pair[0]) > pair[1], "one more event"
            )
            time.sleep(draw.uniform(0.0, 0.3))
            least = read_events(process)
            assert life.events() == before
            watch = Stopwatch()
            process.signal(signal.SIGTERM)
            assert process.ended() == 0
            slowest.append(watch.seconds)
            assert life.events() >= least
        life.prove()
        assert dead_letters.count_found(life) == dead_letters.count_fed(life)

    side_by_side(live, *lives)
    assert not CHAOS or max(slowest) <= EXIT_SECONDS
    record_figures(
        "SIGTERM under load",
        rounds=len(slowest),
        redone=0,
        slowest_exit_seconds=round(max(slowest), 2),
    )


def read_events(process):
    """Return the events that the process reports as learned."""
    return (process.get("/status")[1] or {"events": 0})["events"]
