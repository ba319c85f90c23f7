"""The broker dies under one learner and is not there when another starts: nothing is lost, and
predictions go on.
"""

import time
from statistics import median

from tests.chaos.scale import FIGURES
from tests.chaos.watcher import watched
from tests.integration.processes import Process, wait_for

HTTP_SECONDS = 3.0
BACK_SECONDS = 60.0


def test_broker_killed_and_started_again(make_topic, broker, make_life, redis_url, measured):
    life = make_life(make_topic(), redis_url, "broker")
    late = make_life(make_topic(), redis_url, "late")
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
            try:
                broker.start()
                up = time.monotonic()
                life.feed()
                life.caught_up(BACK_SECONDS)
                returns.append(time.monotonic() - up)
                late.caught_up(BACK_SECONDS)
                newcomer.answers("/readyz", 200)
            finally:
                newcomer.kill()
    process.kill()
    life.prove()
    late.prove()
    assert min(starts) <= HTTP_SECONDS  # what else the machine does may slow one start, not all
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


def started_without(life):
    """A start as users have it, not a fork, since the whole of it counts; and after how long it
    answers.
    """
    began = time.monotonic()
    process = Process(["run"], life.config())
    try:
        process.answers("/healthz", 200, 3 * HTTP_SECONDS)
        seconds = time.monotonic() - began
        wait_for(
            lambda: "Kafka" in process.get("/status")[1]["waiting_for"], 20, "a word about Kafka"
        )
    except BaseException:
        process.kill()
        raise
    return process, seconds
