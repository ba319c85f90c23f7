"""The broker dies under clients and under a learner, or is absent when another starts: nothing is
lost, and predictions continue.
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
from tests.chaos.topics import Topic, collect_sockets, numbers, read
from tests.chaos.watcher import watch_predictions
from tests.integration.processes import Process
from tests.waiting import wait_for

pytestmark = pytest.mark.kafka
HTTP_SECONDS = 3.0


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory):
    """Another broker than the run's, which other tests use at the same time."""
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
    """A broker that the test may kill; afterwards it runs again for the next test."""
    yield own_broker
    if not own_broker.process.running:
        own_broker.start()


@pytest.fixture
def new_topic(broker):
    """`new_topic(name)` creates a topic on the broker that may be killed."""

    def make(name):
        url = f"kafka://{broker.bootstrap}/{name}"
        create_log(url)
        return Topic(url)

    return make


def test_acknowledged_records_survive_a_kill_of_the_broker(broker, new_topic):
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


# kafka-python leaves the sockets of refused connections to the garbage collector, and its log
# entries would hold them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_clients_survive_a_restart_of_the_broker(broker, new_topic, caplog):
    caplog.set_level(logging.CRITICAL, logger="kafka")
    check_clients_survive(broker, new_topic("outlived"))
    collect_sockets()


def check_clients_survive(broker, topic):
    topic.append(*numbers(0, 8))
    with topic.open("kafka-python") as one, topic.open("confluent") as other:
        for source in (one, other):
            assert read(source, 3) == numbers(0, 3)
        broker.kill()
        for source in (one, other):
            watch = Stopwatch()
            # The broker is down: a client that waits for it would never return.
            with pytest.raises(SourceUnavailableError, match="Kafka"):
                source.lag()
            assert not CHAOS or watch.seconds < 2 * HTTP_SECONDS
        broker.start()
        topic.append(*numbers(8, 12))
        for source in (one, other):
            assert read(source, 9) == numbers(3, 12)
            assert source.gaps() == []


def test_learners_survive_a_broker_that_is_killed_and_restarted(
    broker, make_life, redis_url, record_figures
):
    life, late = (
        make_life(f"kafka://{broker.bootstrap}/{name}", redis_url, name)
        for name in ("broker", "late")
    )
    life.feed()
    process = life.start("run")
    starts, returns = [], []
    with watch_predictions(process) as watcher:
        for _ in range(FIGURES.broker_rounds):
            late.feed(100)
            life.feed(3000)
            life.advance()
            broker.kill()
            newcomer, seconds = start_without_broker(late)
            starts.append(seconds)
            returns.append(start_again(broker, life, late, newcomer))
    process.kill()
    life.prove()
    late.prove()
    # Other work on the machine may slow down one start, but not all.
    assert not CHAOS or min(starts) <= HTTP_SECONDS
    record_figures(
        "broker: kill -9 and restart under load",
        rounds=FIGURES.broker_rounds,
        different=0,
        slowest_return_seconds=round(max(returns), 1),
        predictions=watcher.statuses[200],
        failed=0,
    )
    record_figures(
        "broker absent at start",
        rounds=FIGURES.broker_rounds,
        different=0,
        median_http_seconds=round(median(starts), 2),
        slowest_http_seconds=round(max(starts), 2),
    )


def start_again(broker, life, late, newcomer):
    """Restart the broker, wait until both models have caught up, and return the seconds that the
    first one took.
    """
    try:
        broker.start()
        watch = Stopwatch()
        life.feed()
        life.catch_up()
        seconds = watch.seconds
        late.catch_up()
        newcomer.answers("/readyz", 200)
    finally:
        newcomer.kill()
    return seconds


def start_without_broker(life):
    """Start a process while no broker runs, and return it with the seconds until it answers. A fork
    would not do: the whole start is measured.
    """
    watch = Stopwatch()
    process = Process(["run"], life.config())
    try:
        process.answers("/healthz", 200)
        seconds = watch.seconds
        wait_for(
            lambda: "Kafka" in process.get("/status")[1]["waiting_for"], "a message about Kafka"
        )
    except BaseException:
        process.kill()
        raise
    return process, seconds
