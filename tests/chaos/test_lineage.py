"""kill -9 over eight partitions: two correct runs may differ in order, so the proof replays the
order that the checkpoint records.
"""

import random
import time

import pytest

from tests.chaos.scale import FIGURES

PARTITIONS = 8


@pytest.mark.kafka
def test_kills_over_eight_partitions_change_nothing(
    make_life, make_topic, redis_url, record_figures
):
    life = make_life(make_topic(PARTITIONS), redis_url, "eight")
    draw = random.Random(8)
    # Messages read after the life had caught up are a separate run in every partition.
    life.feed(2000)
    process = life.start()
    life.catch_up()
    process.kill()
    for _ in range(FIGURES.lineage_kills):
        life.feed(2000)
        process = life.start(client=draw.choice(["kafka-python", "confluent"]))
        life.advance()
        time.sleep(draw.uniform(0.0, 0.5))
        assert process.status is None, f"it ended by itself: {process.said()}"
        process.kill()
    runs = life.prove_by_lineage()
    assert runs > PARTITIONS, "the partitions were read one after the other: nothing was proved"
    assert len(life.snapshot().bookmark.positions) == PARTITIONS
    record_figures(
        "kill -9 at random times, eight partitions",
        kills=FIGURES.lineage_kills,
        messages=len(life.messages),
        runs=runs,
        different=0,
    )
