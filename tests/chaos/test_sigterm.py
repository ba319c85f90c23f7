"""SIGTERM under load: exit 0 within ten seconds, and nothing is learned a second time afterwards.

A message that cannot be learned goes to the dead-letter log when it is met, so one that was met twice is there twice.
"""

import random
import signal
import time

from tests.chaos import letters
from tests.chaos.lanes import side_by_side
from tests.chaos.scale import FIGURES

EXIT_SECONDS = 10.0


def test_sigterm_leaves_nothing_to_redo(make_life, redis_url, measured):
    lives = [make_life(f"{redis_url}/{role}", redis_url, role) for role in ("learn", "run")]
    slowest = []

    def live(life):
        draw = random.Random(life.name)
        for _ in range(-(-FIGURES.terms // len(lives))):
            life.feed(3000)
            # A checkpoint now and then only: the last one must be made by the signal.
            process = life.start(life.name)
            life.advances()
            time.sleep(draw.uniform(0.0, 0.3))
            seen = process.get("/status")[1]["events"]
            asked = time.monotonic()
            process.signal(signal.SIGTERM)
            assert process.ended(EXIT_SECONDS) == 0
            slowest.append(time.monotonic() - asked)
            assert life.events() >= seen
        life.prove()
        assert letters.kept(life) == letters.expected(life)

    side_by_side(live, *lives)
    measured("SIGTERM under load", rounds=len(slowest), redone=0, slowest_exit_seconds=round(max(slowest), 2))
