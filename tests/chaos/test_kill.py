"""kill -9, at every failpoint and at random times: the model has the same bits and counts as if
nothing had happened.
"""

import random
import signal
import time

import pytest

from service.failpoints import POINTS
from tests.chaos import dead_letters
from tests.chaos.lanes import side_by_side
from tests.chaos.scale import FIGURES

CLIENTS = ("kafka-python", "confluent")
"""One client resumes where the other was killed; a log that is no Kafka ignores the setting."""
DEATH_SECONDS = 30.0
LONGEST_LIFE = 0.6
"""Seconds after the first new checkpoint."""
LONGEST_START = 0.5
"""Seconds; the latest kill of a process that is killed during its start."""


@pytest.fixture
def lives(make_life, redis_url, topic):
    """One life on each kind of log, of one partition."""
    return [
        make_life(f"{redis_url}/events", redis_url, "stream"),
        make_life(topic, redis_url, "topic"),
    ]


def test_kills_at_every_failpoint_change_nothing(lives, record_figures):
    def live(life):
        draw = random.Random(life.name)
        life.feed()
        life.start("learn", "--until-end").ended()  # some failpoints need a checkpoint
        for _ in range(FIGURES.failpoint_rounds):
            for point in POINTS:
                life.feed()
                turn = 1 if point in {"in_restore", "after_seek", "in_stop"} else draw.randint(1, 4)
                process = life.start(failpoint=f"{point}:kill@{turn}", client=draw.choice(CLIENTS))
                if point == "in_stop":
                    life.advance()
                    process.signal(signal.SIGTERM)
                assert process.ended() == -signal.SIGKILL, f"{point} was not reached {turn} times"
        life.prove()

    side_by_side(live, *lives)
    kills = FIGURES.failpoint_rounds * len(POINTS) * len(lives)
    record_figures("kill -9 at every failpoint", kills=kills, points=len(POINTS), different=0)


def test_kills_at_random_times_change_nothing(lives, record_figures):
    def live(life):
        draw = random.Random(life.name)
        for kill in range(FIGURES.kills // len(lives)):
            if count_unlearned(life) < 2000:
                life.feed(3000)
            process = life.start(draw.choice(["learn", "run"]), client=draw.choice(CLIENTS))
            if kill % 5 == 4:
                time.sleep(draw.uniform(0.0, LONGEST_START))
            else:
                life.advance()
                time.sleep(draw.uniform(0.0, LONGEST_LIFE))
            assert process.status is None, f"it ended by itself: {process.said()}"
            process.kill()
        life.prove()
        found = dead_letters.count_found(life)
        assert all(found[text] >= times for text, times in dead_letters.count_fed(life).items()), (
            "a rejected event is lost"
        )

    side_by_side(live, *lives)
    kills = FIGURES.kills // len(lives) * len(lives)
    events = sum(len(life.messages) for life in lives)
    record_figures(
        "kill -9 at random times, one partition", kills=kills, messages=events, different=0
    )


def count_unlearned(life):
    """Return the least number of messages that no checkpoint has passed."""
    return len(life.messages) - life.events() * 51 // 50
