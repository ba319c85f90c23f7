"""kill -9 in mid-stream, restart, let it finish: the same bits and the same counts as if nothing had happened."""

import json
import os
import random
from itertools import islice

import pytest

from service.cli.payments import payments
from service.settings import StoreSettings
from service.sources import open_sink
from service.sources.contract import Entry
from service.store import RedisStore
from tests.integration.processes import Process, onepass, wait_for, write_config

EVENTS = 30_000
KILLS = int(os.environ.get("ONEPASS_KILLS", "3"))
SAME = ("events", "errors", "updates", "rejects", "rejects_by_reason")


@pytest.fixture(scope="module")
def events():
    """Payments, and some that cannot be learned."""
    lines = list(islice(payments(7, 0), EVENTS))
    bad = [
        b"{",
        b'{"features": {"amount": 1e60}, "label": "fraud"}',
        b'{"features": {"amount": "x"}, "label": "fraud"}',
    ]
    return [bad[place // 1000 % 3] if place % 1000 == 500 else line for place, line in enumerate(lines)]


@pytest.fixture(scope="module")
def replayed(events, tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    data = folder / "events.jsonl"
    data.write_bytes(b"\n".join(events) + b"\n")
    config = write_config(folder / "config.yaml", data.as_uri(), "redis://127.0.0.1:1/0")
    done = onepass("replay", data, "--config", config, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["redis", pytest.param("kafka", marks=pytest.mark.kafka)])
def log(request, redis_url):
    """A log of each kind with the events in it."""
    url = f"{redis_url}/payments" if request.param == "redis" else request.getfixturevalue("topic")
    sink = open_sink(url)
    values = request.getfixturevalue("events")
    for first in range(0, len(values), 1000):
        sink.append([Entry(value) for value in values[first : first + 1000]])
    sink.close()
    return url


def test_killed_runs_end_in_the_same_bits(log, redis_url, replayed, tmp_path):
    # Small rounds and many checkpoints make the run long enough to be killed in its middle, at any step.
    busy = {"poll_records": 20, "seconds": 0.05, "events": 500}
    config = write_config(tmp_path / "killed.yaml", log, redis_url, name="killed", **busy)
    store = RedisStore(StoreSettings(url=redis_url), "killed")
    moment = random.Random(0)
    for kill in range(KILLS):
        process = Process(["run"], config)
        reached = EVENTS * (kill + moment.random()) / (KILLS + 1)
        wait_for(lambda least=reached: (newest := store.newest()) and newest.events >= least, 60, "a checkpoint")
        process.kill()
        killed_at = store.newest().events
        assert killed_at < replayed["events"], "the run was over before it was killed"
    process = Process(["run", "--until-end"], config)
    status, output = process.finish()
    store.close()
    assert status == 0
    _same(json.loads(output), replayed)


def test_an_uninterrupted_run_is_the_same_too(log, redis_url, replayed, tmp_path):
    config = write_config(tmp_path / "whole.yaml", log, redis_url, name="whole")
    status, output = Process(["learn", "--until-end"], config).finish()
    assert status == 0
    _same(json.loads(output), replayed)


def _same(status, replayed):
    assert {key: status[key] for key in SAME} == {key: replayed[key] for key in SAME}
    assert status["checkpoint"]["state_digest"] == replayed["state_digest"]
    assert status["rejects"] == EVENTS // 1000
    assert status["lag"] == 0
