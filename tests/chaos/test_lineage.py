"""kill -9 over eight partitions: two honest runs differ in order, so the order in the checkpoint is
replayed.
"""

import random
import time

import pytest

from tests.chaos.scale import FIGURES

PARTITIONS = 8


@pytest.mark.kafka
def test_kills_over_eight_partitions(make_life, make_topic, redis_url, measured):
    life = make_life(make_topic(PARTITIONS), redis_url, "eight")
    draw = random.Random(8)
    # What a life reads after it had caught up is a run of its own in every partition.
    life.feed(2000)
    process = life.start()
    life.caught_up()
    process.kill()
    for _ in range(FIGURES.lineage_kills):
        life.feed(2000)
        process = life.start(client=draw.choice(["kafka-python", "confluent"]))
        life.advances()
        time.sleep(draw.uniform(0.0, 0.5))
        assert process.status is None, f"it ended by itself: {process.said()}"
        process.kill()
    runs = life.prove_by_lineage()
    assert runs > PARTITIONS, "the partitions were read one after the other: nothing was proved"
    assert len(life.snapshot().bookmark.positions) == PARTITIONS
    measured(
        "kill -9 at random times, eight partitions",
        kills=FIGURES.lineage_kills,
        messages=len(life.messages),
        runs=runs,
        different=0,
    )
