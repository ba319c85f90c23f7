"""The broker dies under clients, under one learner, and is not there when another starts: nothing
is lost, and predictions go on.
"""

import logging
import os
from statistics import median

import pytest

from service.embedded.kafka import kafka_broker
from service.embedded.process import EmbeddedError
from service.sources import create_log
from service.sources.base import SourceUnavailableError
from tests.chaos.measuring import Stopwatch
from tests.chaos.scale import CHAOS, FIGURES
from tests.chaos.topics import Topic, leave_no_socket, numbers, read
from tests.chaos.watcher import watched
from tests.integration.processes import Process
from tests.waiting import wait_for

pytestmark = pytest.mark.kafka
HTTP_SECONDS = 3.0


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory):
    """Not the run's broker, which others use at the same time."""
    broker = kafka_broker(tmp_path_factory.mktemp("broker"), extra={})
    try:
        started = broker.__enter__()
    except EmbeddedError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error).partition("\n")[0])
    yield started
    broker.__exit__(None, None, None)


@pytest.fixture
def broker(own_broker):
    """To be killed; whatever happened, the next test finds it running."""
    yield own_broker
    if not own_broker.process.running:
        own_broker.start()


@pytest.fixture
def new_topic(broker):
    """`new_topic(name)`: a topic of the broker that may be killed."""

    def make(name):
        url = f"kafka://{broker.bootstrap}/{name}"
        create_log(url)
        return Topic(url)

    return make


def test_what_was_acknowledged_outlives_a_kill(broker, new_topic):
    topic, pid = new_topic("kept"), broker.pid
    topic.append(b"before")
    broker.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    broker.start()
    assert broker.pid != pid
    for client in ("kafka-python", "confluent"):
        with topic.open(client) as source:
            assert read(source, 1) == [b"before"]
    topic.append(b"after")
    with topic.open("kafka-python") as source:
        assert read(source, 2) == [b"before", b"after"]


# kafka-python leaves the sockets of refused connections to the collector, and its log entries would
# hold them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_clients_outlive_the_broker(broker, new_topic, caplog):
    caplog.set_level(logging.CRITICAL, logger="kafka")
    outlive(broker, new_topic("outlived"))
    leave_no_socket()


def outlive(broker, topic):
    topic.append(*numbers(0, 8))
    with topic.open("kafka-python") as one, topic.open("confluent") as other:
        for source in (one, other):
            assert read(source, 3) == numbers(0, 3)
        broker.kill()
        for source in (one, other):
            watch = Stopwatch()
            # While the broker is away: whoever waited for it would wait for ever.
            with pytest.raises(SourceUnavailableError, match="Kafka"):
                source.lag()
            assert not CHAOS or watch.seconds < 2 * HTTP_SECONDS
        broker.start()
        topic.append(*numbers(8, 12))
        for source in (one, other):
            assert read(source, 9) == numbers(3, 12)
            assert source.gaps() == []


def test_broker_killed_and_started_again(broker, make_life, redis_url, measured):
    life, late = (
        make_life(f"kafka://{broker.bootstrap}/{name}", redis_url, name)
        for name in ("broker", "late")
    )
    life.feed()
    process = life.start("run")
    starts, returns = [], []
    with watched(process) as watcher:
        for _ in range(FIGURES.broker_rounds):
            late.feed(100)
            life.feed(3000)
            life.advances()
            broker.kill()
            newcomer, seconds = started_without(late)
            starts.append(seconds)
            returns.append(start_again(broker, life, late, newcomer))
    process.kill()
    life.prove()
    late.prove()
    # What else the machine does may slow one start, not all.
    assert not CHAOS or min(starts) <= HTTP_SECONDS
    measured(
        "broker: kill -9 and restart under load",
        rounds=FIGURES.broker_rounds,
        different=0,
        slowest_return_seconds=round(max(returns), 1),
        predictions=watcher.statuses[200],
        failed=0,
    )
    measured(
        "broker absent at start",
        rounds=FIGURES.broker_rounds,
        different=0,
        median_http_seconds=round(median(starts), 2),
        slowest_http_seconds=round(max(starts), 2),
    )


def start_again(broker, life, late, newcomer):
    """The broker, until both models have caught up; gives after how long the first one had."""
    try:
        broker.start()
        watch = Stopwatch()
        life.feed()
        life.caught_up()
        seconds = watch.seconds
        late.caught_up()
        newcomer.answers("/readyz", 200)
    finally:
        newcomer.kill()
    return seconds


def started_without(life):
    """A start as users have it, not a fork, since the whole of it counts; and after how long it
    answers, with no broker to wait for.
    """
    watch = Stopwatch()
    process = Process(["run"], life.config())
    try:
        process.answers("/healthz", 200)
        seconds = watch.seconds
        wait_for(lambda: "Kafka" in process.get("/status")[1]["waiting_for"], "a word about Kafka")
    except BaseException:
        process.kill()
        raise
    return process, seconds
