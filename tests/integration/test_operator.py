"""An operator's command beside a running learner: the learner obeys between two events, and the
history stays provable.
"""

import json
import threading
from contextlib import closing
from itertools import islice

import pytest

from service.config.loader import load
from service.embedded.payments import payments
from service.storage import RedisStore
from tests.integration.payments import PAYMENT, fill
from tests.integration.processes import onepass, running, write_config
from tests.waiting import wait_for


@pytest.fixture
def world(redis_url, tmp_path):
    """A running learner, and a producer that never pauses."""
    log = f"{redis_url}/payments"
    # Many generations are kept because the next command takes seconds to start.
    checkpoint = {"interval_seconds": 0.1, "keep": 1000}
    config = write_config(tmp_path / "c.yaml", log, redis_url, lease=1.0, checkpoint=checkpoint)
    stop = threading.Event()

    def produce():
        events = payments(5, 0)
        while not stop.is_set():
            fill(log, list(islice(events, 50)))
            stop.wait(0.02)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        with running("run", config) as process:
            process.answers("/readyz", 200)
            wait_for(lambda: status(process)["checkpoint"]["generation"] > 3, "some generations")
            yield config, process
    finally:
        stop.set()
        producer.join()


def status(process):
    return process.get("/status")[1]


def run_checkpoints(config, *words):
    done = onepass("checkpoints", *words, "--config", config)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_audit(config):
    done = onepass("audit", "--config", config, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_frozen_learner_serves_its_generation_and_resumes_when_unfrozen(world):
    config, process = world
    run_checkpoints(config, "freeze")
    frozen = json.loads(run_checkpoints(config, "list", "--json"))[0]
    wait_for(
        lambda: status(process)["frozen"] and status(process)["events"] == frozen["events"],
        "the learner has seen it, and serves that generation",
    )
    for _ in range(3):
        left = status(process)["lag"] or 0
        wait_for(lambda least=left: (status(process)["lag"] or 0) > least, "more events in the log")
        now = status(process)
        assert now["events"] == frozen["events"], "it learned beyond the frozen generation"
        assert process.get("/predict", PAYMENT)[1]["model"]["generation"] == frozen["generation"]
    assert (
        json.loads(run_checkpoints(config, "list", "--json"))[0]["generation"]
        == frozen["generation"]
    )
    run_checkpoints(config, "unfreeze")
    wait_for(
        lambda: status(process)["checkpoint"]["events"] > frozen["events"], "learning continues"
    )
    assert not status(process)["frozen"]
    assert "frozen 1 time" in run_checkpoints(config, "show")
    assert run_audit(config)["identical"]


def test_a_freeze_that_is_lifted_at_once_loses_nothing(world):
    config, process = world
    settings = load(config, {})
    log = config.with_suffix(".log")
    with closing(RedisStore(settings.store, settings.name, settings.checkpoint)) as operator:

        def freeze_unnoticed():
            """Freeze and unfreeze; return whether the learner missed the freeze. It looks about
            twice a second, so it may see it.
            """
            before = process.metrics()["fenced_total"]
            operator.freeze()
            operator.unfreeze()
            wait_for(lambda: process.metrics()["fenced_total"] > before, "the learner noticed")
            return "no checkpoint was lost, learning continues" in log.read_text()

        wait_for(freeze_unnoticed, "the learner finds that nothing was lost")
    assert "written on top" not in log.read_text()
    events = status(process)["checkpoint"]["events"]
    wait_for(lambda: status(process)["checkpoint"]["events"] > events, "learning continues")


@pytest.mark.parametrize("positions", ["--rewind", "--keep-offsets"])
def test_after_a_rollback_the_learner_continues_without_a_restart(world, positions):
    config, process = world
    target = json.loads(run_checkpoints(config, "list", "--json"))[2]
    said = run_checkpoints(config, "rollback", "--to", str(target["generation"]), positions)
    made = int(said.split()[1])
    wait_for(
        lambda: status(process)["checkpoint"]["generation"] > made,
        "learning continues from the new generation",
    )
    assert process.status is None
    assert process.get("/predict", PAYMENT)[0] == 200
    assert "rolled back 1 time" in run_checkpoints(config, "show")
    lost = json.loads(run_checkpoints(config, "show", "--json"))
    assert run_audit(config)["identical"]
    if positions == "--keep-offsets":
        assert "rolled_back" in json.dumps(lost)
