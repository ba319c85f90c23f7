"""Systems around the learner fail: Redis has no disk or memory left, or a log is cut."""

import random
import signal
import time
from contextlib import contextmanager

import pytest
from kafka import KafkaAdminClient, TopicPartition
from redis import Redis

from service.embedded.redis import RedisServer
from tests.chaos.gap_checks import check_same_as_without, read_gaps
from tests.chaos.holds import CHECKPOINT, MOST_AHEAD, frozen, pause_reason, stopped
from tests.chaos.lanes import side_by_side
from tests.chaos.scale import CHAOS, FIGURES
from tests.chaos.watcher import watch_predictions
from tests.waiting import wait_for

# Redis refuses writes.


@contextmanager
def no_disk(server, client):
    """BGSAVE fails because a folder is in the place of the dump; then Redis refuses every write."""
    client.config_set("save", "3600 1")
    obstacle = server.log.parent / "dump.rdb"
    obstacle.mkdir()
    save(client, "err")
    yield
    obstacle.rmdir()
    save(client, "ok")
    obstacle.unlink()
    client.config_set("save", "")


def save(client, result):
    """Save, and check the result that Redis reports."""
    client.bgsave()
    wait_for(lambda: not client.info("persistence")["rdb_bgsave_in_progress"], "the end of BGSAVE")
    assert client.info("persistence")["rdb_last_bgsave_status"] == result


@contextmanager
def no_memory(server, client):
    del server
    client.config_set("maxmemory", 1)
    yield
    client.config_set("maxmemory", 0)


REFUSALS = {
    "MISCONF after a failed BGSAVE": (no_disk, "MISCONF"),
    "maxmemory reached": (no_memory, "maxmemory"),
}


@pytest.mark.parametrize("which", ["packaged", "system"] if CHAOS else ["packaged"])
def test_a_learner_survives_a_redis_that_refuses_writes(
    which, make_life, redis_url, tmp_path, record_figures, request
):
    executable = request.getfixturevalue("system_redis") if which == "system" else None

    def live(name):
        fault, word = REFUSALS[name]
        server = RedisServer(tmp_path / fault.__name__, appendonly=False)
        if executable:
            server.command = (executable, *server.command[1:])
        draw = random.Random(f"{which} {name}")
        server.start()
        answered = 0
        try:
            with Redis.from_url(server.url) as client:
                log = f"{redis_url}/{which}-{fault.__name__}"
                life = make_life(log, server.url, fault.__name__, checkpoint=CHECKPOINT)
                for turn in range(FIGURES.attack_rounds):
                    answered += apply_fault(life, client, fault(server, client), word, draw, turn)
                life.prove()
                life.close()
        finally:
            server.stop()
        return answered

    answered = side_by_side(live, *REFUSALS)
    for name, predictions in zip(REFUSALS, answered, strict=True):
        title = f"Redis ({which}): {name}, under a learner and at its start"
        record_figures(
            title, rounds=FIGURES.attack_rounds, different=0, predictions=predictions, failed=0
        )


def apply_fault(life, client, fault, word, draw, turn):
    """Apply one fault at a random moment; in odd turns another learner has to start
    while it lasts.
    """
    life.feed(2000)
    process = life.start("run")
    life.advance()
    time.sleep(draw.random() * 0.5)
    with fault:
        saved_events = life.events()
        with watch_predictions(process) as watcher:
            life.feed(2000)
            wait_for(lambda: word in pause_reason(process), f"learning pauses and names {word}")
            figures = process.metrics()
        assert figures["redis_up"] == 0
        assert figures['checkpoint_failures_total{reason="down"}'] > 0
        assert 0 < figures["model_events"] - saved_events <= MOST_AHEAD + 20, (
            "it learned beyond the bound, or not at all"
        )
        if turn % 2:
            process.kill()
            # While the dead learner's lease lasts, its successor follows the checkpoints and is
            # ready as a stand-by.
            wait_for(lambda: not list(client.scan_iter("*:lease")), "the lease has run out")
            process = life.start("learn")
            wait_for(
                lambda: process.log.exists() and word in process.log.read_text(),
                f"a line about {word} from a learner that starts",
            )
            assert process.get("/readyz")[0] == 503
    life.catch_up()
    wait_for(lambda: process.metrics()["redis_up"] == 1, "redis_up is 1")
    assert word in process.log.read_text()
    assert "Traceback" not in process.log.read_text()
    process.kill()
    return watcher.statuses[200]


# A log that is cut while nobody reads.


@pytest.mark.parametrize("hold", [stopped, frozen])
def test_an_idle_learner_notices_retention_when_it_resumes(
    hold, make_topic, make_life, redis_url, record_figures
):
    """With `fail` it stops, with `earliest` it continues; its state equals a quiet pass over the
    messages it read.
    """
    draw = random.Random(hold.__name__)
    for turn in range(FIGURES.attack_rounds):
        policy = ("fail", "earliest")[turn % 2]
        name = f"{hold.__name__}-{policy}-{turn}"
        life = make_life(make_topic(), redis_url, name, source_settings={"on_data_loss": policy})
        life.feed(1000)
        process = life.start("run")
        life.advance()
        time.sleep(draw.random() * 0.3)
        with hold(life, process):
            life.feed(2000)
            delete_before(life.log, len(life.messages) - draw.randint(1, 900))
        if policy == "fail":
            assert process.ended() == 3, process.said()
            assert "what follows the checkpoint was deleted" in process.log.read_text()
        else:
            check_continues(process)
        assert "Traceback" not in process.log.read_text()
        check_same_as_without(life, read_gaps(process))
        life.close()
    title = f"Kafka: retention cuts the log of a learner that is {hold.__name__}"
    record_figures(title, rounds=FIGURES.attack_rounds, unnoticed=0, different=0)


def check_continues(process):
    """The gap is logged and counted, the rest is learned, and the process can be stopped."""
    wait_for(lambda: read_gaps(process), "the gap is logged")
    wait_for(lambda: process.get("/status")[1]["lag"] == 0, "the rest is learned")
    passed = sum(end - start for start, end in read_gaps(process))
    assert process.metrics()['events_lost_total{reason="retention"}'] == passed
    process.signal(signal.SIGTERM)
    assert process.ended() == 0, process.said()


def delete_before(log, offset):
    bootstrap, topic = log.removeprefix("kafka://").split("/")
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): offset})
