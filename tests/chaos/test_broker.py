"""The broker dies and comes back, or is not there at the start: nothing is lost, and predictions go on."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.chaos.scale import FIGURES
from tests.chaos.watcher import watched
from tests.integration.processes import Process, wait_for

AWAY_SECONDS = 1.0
HTTP_SECONDS = 3.0
BACK_SECONDS = 30.0


@pytest.fixture
def broker(kafka):
    if kafka.pid is None:
        pytest.skip("a broker named by KAFKA_BOOTSTRAP is not ours to kill")
    return kafka


def test_broker_killed_under_load(broker, make_life, topic, redis_url, measured):
    life = make_life(topic, redis_url, "broker")
    life.feed()
    process = life.start("run")
    slowest = 0.0
    with watched(process) as watcher:
        for _ in range(FIGURES.broker_rounds):
            life.feed(3000)
            life.advances()
            broker.kill()
            time.sleep(AWAY_SECONDS)
            broker.start()
            up = time.monotonic()
            life.feed()
            life.caught_up(BACK_SECONDS)
            slowest = max(slowest, time.monotonic() - up)
    process.kill()
    life.prove()
    measured(
        "broker: kill -9 and restart",
        rounds=FIGURES.broker_rounds,
        different=0,
        slowest_return_seconds=round(slowest, 1),
        predictions=watcher.statuses[200],
        failed=0,
    )


def test_broker_absent_at_start(broker, make_life, topic, redis_url, measured):
    life = make_life(topic, redis_url, "late")
    slowest = 0.0
    for _ in range(FIGURES.broker_rounds):
        life.feed(100)
        broker.stop()
        started = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            # A start as users have it, not a fork: what is measured is the whole of it.
            process = Process(["run"], life.config())
            try:
                process.answers("/healthz", 200, HTTP_SECONDS + 1)
                slowest = max(slowest, time.monotonic() - started)
                starting = pool.submit(broker.start)
                wait_for(lambda: process.get("/readyz")[1].get("reason") or starting.done(), 10, "a reason")
                starting.result()
                life.caught_up(BACK_SECONDS)
                process.answers("/readyz", 200)
            finally:
                process.kill()
    assert slowest <= HTTP_SECONDS
    life.prove()
    measured(
        "broker absent at start", rounds=FIGURES.broker_rounds, slowest_http_seconds=round(slowest, 2), different=0
    )
