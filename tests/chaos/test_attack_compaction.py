"""A compacted topic: Kafka deletes records that a later record with the same key replaces. This is
no loss.

A reader skips exactly the deleted records, and a learner resumes from a checkpoint whose last
record was deleted.
"""

import random
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from service.embedded.kafka import kafka_broker
from service.sources import open_sink, open_source
from service.sources.base import Options
from tests.chaos.events import read_tally, tally
from tests.chaos.reading import Reading, make_records
from tests.chaos.scale import FIGURES
from tests.chaos.topics import read_to_end

LENGTH = 400
KEYS = 7
AT_ONCE = {"log.cleaner.backoff.ms": "100"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "segment.ms": "100",
}
CLIENTS = ["kafka-python", "confluent"]


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory):
    """A broker that compacts ten times a second."""
    with kafka_broker(tmp_path_factory.mktemp("cleaning"), extra=AT_ONCE) as broker:
        yield broker


def make_topic(broker, name):
    options = {"num_partitions": 1, "replication_factor": 1, "configs": COMPACTED}
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({name: options}, wait_for_metadata=True)
    return f"kafka://{broker.bootstrap}/{name}"


def compact(log, last, remaining):
    """Append until the cleaner has left at most `remaining` of the first records; the segment that
    is being written is never cleaned. Return the remaining numbers, and the number of the last
    record.
    """
    with closing(open_sink(log)) as sink:
        while True:
            last += 1
            sink.append(make_records(last, 1))
            with closing(Reading(log)) as again:
                again.read(last)
            if sum(number < LENGTH for number in again.found) <= remaining:
                return again.found, last


@pytest.mark.kafka
@pytest.mark.parametrize("client", CLIENTS)
def test_a_reader_of_a_compacted_topic_skips_exactly_the_deleted_records(
    cleaning, record_figures, client
):
    draw = random.Random(client)
    passed_over = 0
    for number in range(FIGURES.attack_rounds):
        log = make_topic(cleaning, f"compacted-{client}-{number}")
        with closing(open_sink(log)) as sink:
            sink.append(make_records(0, LENGTH))
        with closing(Reading(log, client=client)) as reading:
            reading.read(draw.randrange(LENGTH // 2), most=20)
            left, last = compact(log, LENGTH - 1, KEYS)
            reading.read(last)
            assert not reading.lost
            assert reading.judge(left) == "whole"
        passed_over += last + 1 - len(left)
    record_figures(
        f"Kafka by {client}: compaction under a reader",
        rounds=FIGURES.attack_rounds,
        deleted=passed_over,
        lost_in_silence=0,
    )


@pytest.mark.kafka
def test_a_learner_resumes_from_a_checkpoint_whose_record_was_deleted(
    cleaning, make_life, redis_url, record_figures
):
    for number in range(FIGURES.attack_rounds):
        name = f"learned-{number}"
        life = make_life(make_topic(cleaning, name), redis_url, name)
        life.feed(1000)
        process = life.start()
        life.catch_up()
        process.kill()
        learned = list(life.messages)
        life.feed(1000)  # with the same keys
        while (left := read_values(life.log))[0] in learned:
            life.feed(1)
        assert life.finish()["lag"] == 0
        assert read_tally(life.snapshot()) == tally(learned + left)
        life.close()
    record_figures(
        "Kafka: compaction of the record at a checkpoint",
        rounds=FIGURES.attack_rounds,
        different=0,
    )


def read_values(log):
    """Return the values of all records that the topic has now."""
    with closing(open_source(log, "earliest", Options())) as source:
        source.stop_at_end()
        return read_to_end(source)
