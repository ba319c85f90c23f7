"""Kafka refuses a login, loses acknowledged records, or delivers batches that fill the memory."""

import logging
import random
import signal
import time
from contextlib import closing

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from service.sources import open_sink
from service.sources.base import Entry
from tests.chaos.gap_checks import check_same_as_without, read_gaps
from tests.chaos.kafka_cluster import kafka_cluster
from tests.chaos.kafka_files import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    batch_of,
    bomb,
    filler,
    header_bomb,
    plant,
    segment,
)
from tests.chaos.kafka_secured import PASSWORD, secured_broker
from tests.chaos.memory import peak_mb
from tests.chaos.scale import CHAOS, FIGURES
from tests.chaos.topics import collect_sockets
from tests.chaos.watcher import watch_predictions
from tests.waiting import wait_for


def only_in_make_chaos(test):
    """Make it a test only in `make chaos PART=attack`: it starts its own Kafka processes."""
    return test if CHAOS else None


CLIENTS = ["kafka-python", "confluent"]


# Login.


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A broker at which each connection has to log in again every second."""
    again = {"connections.max.reauth.ms": "1000"}
    with secured_broker(tmp_path_factory.mktemp("secured"), **again) as started:
        yield started


def remove_user(secured, user, password):
    secured.remove(user)
    yield
    secured.set_password(user, password)


def change_password(secured, user, password):
    secured.set_password(user, "canary-another")
    yield
    secured.set_password(user, password)


def check_complaint(process, user):
    told = process.log.read_text()
    assert f"for user {user}: check username, password and mechanism; retrying" in told
    assert "canary" not in told
    assert "Traceback" not in told


@only_in_make_chaos
@pytest.mark.parametrize("client", CLIENTS)
def test_a_learner_survives_a_login_that_is_revoked_while_it_runs(
    secured, client, make_life, redis_url, record_figures
):
    draw = random.Random(client)
    user = f"user-{client}"
    secured.set_password(user, PASSWORD)
    security = {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": "SCRAM-SHA-512",
        "username": user,
        "password": PASSWORD,
    }
    plain = secured.url("PLAINTEXT", f"login-{client}")
    settings = {"url": secured.url("SASL_PLAINTEXT", f"login-{client}"), "security": security}
    life = make_life(plain, redis_url, f"login-{client}", source_settings=settings)
    life.feed(1000)
    process = life.start("run", client=client)
    answered = 0
    for turn in range(FIGURES.attack_rounds):
        life.feed(1000)
        life.advance()
        time.sleep(draw.random() * 0.5)
        fault = (remove_user if turn % 2 else change_password)(secured, user, PASSWORD)
        with watch_predictions(process) as watcher:
            next(fault)
            life.feed(500)
            told = f"authentication failed at .* for user {user}"
            wait_for(
                lambda: "authentication failed" in process.get("/status")[1]["waiting_for"], told
            )
            wait_for(lambda: process.metrics()["kafka_up"] == 0, "kafka_up is 0")
            next(fault, None)
            life.catch_up()
        answered += watcher.statuses[200]
        wait_for(lambda: process.metrics()["kafka_up"] == 1, "kafka_up is 1")
    check_complaint(process, user)
    process.kill()
    life.prove()
    title = f"Kafka: login removed or changed in mid-run ({client})"
    record_figures(title, rounds=FIGURES.attack_rounds, different=0, predictions=answered, failed=0)


# TLS.


@only_in_make_chaos
@pytest.mark.parametrize("client", CLIENTS)
def test_a_learner_names_wrong_tls_settings_and_resumes_once_they_are_fixed(
    secured, client, make_life, redis_url, tmp_path, record_figures
):
    """The certificate file is wrong; when it is replaced the learner needs no restart."""
    ca = tmp_path / "ca.pem"
    stranger, right = (
        (secured.folder / "stranger.pem").read_bytes(),
        (secured.folder / "ca.pem").read_bytes(),
    )
    ca.write_bytes(stranger)
    topic = f"tls-{client}"
    settings = {
        "url": secured.url("SSL", topic),
        "security": {"protocol": "SSL", "ca_file": str(ca)},
    }
    life = make_life(secured.url("PLAINTEXT", topic), redis_url, topic, source_settings=settings)
    for _ in range(FIGURES.attack_rounds):
        ca.write_bytes(stranger)
        life.feed(500)
        process = life.start("learn", client=client)
        wait_for(
            lambda one=process: "security.ca_file" in read_waiting_for(one),
            "a line that names the setting",
        )
        assert process.metrics()["kafka_up"] == 0
        ca.write_bytes(right)
        life.catch_up()
        assert "Traceback" not in process.log.read_text()
        process.kill()
    life.prove()
    record_figures(
        f"Kafka: wrong certificates, then the right ones ({client})",
        rounds=FIGURES.attack_rounds,
        different=0,
    )


def read_waiting_for(process):
    answer = process.get("/status")[1]
    return answer["waiting_for"] if answer else ""


# Acknowledged records that Kafka loses.


@only_in_make_chaos
@pytest.mark.parametrize("client", CLIENTS)
def test_a_learner_notices_records_lost_by_an_unclean_leader_election(
    client, make_life, redis_url, tmp_path, record_figures, caplog
):
    """Records that only one broker had are lost when the other one becomes the leader."""
    draw = random.Random(client)
    caplog.set_level(logging.CRITICAL, logger="kafka")  # log entries would hold refused sockets
    policies = ["fail", "latest"]
    # Each round starts and kills brokers, which takes most of a minute.
    rounds = FIGURES.attack_rounds // 5
    with kafka_cluster(tmp_path / "cluster") as cluster:
        for turn in range(rounds):
            policy = policies[turn % 2]
            life = make_life(
                create_topic(cluster, f"{client}-{turn}"),
                redis_url,
                f"unclean-{client}-{turn}",
                source_settings={"on_data_loss": policy},
                # A topic of one replica may be unavailable too.
                dead_letters={"url": f"{redis_url}/dead-{client}-{turn}"},
            )
            life.feed(500)
            process = life.start("run", client=client)
            life.catch_up()
            lose_the_end(cluster, life, draw)
            if policy == "fail":
                assert process.ended() == 3, process.said()
                assert "its end was cut off" in process.log.read_text()
            else:
                wait_for(
                    lambda one=process: "(truncated)" in one.log.read_text(), "the gap is logged"
                )
                process.signal(signal.SIGTERM)
                assert process.ended() == 0, process.said()
            assert "Traceback" not in process.log.read_text()
            assert life.events() >= life.learned, "events learned before the cut are lost"
            life.close()
    collect_sockets()
    record_figures(f"Kafka: unclean leader election ({client})", rounds=rounds, unnoticed=0)


def create_topic(cluster, name):
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(",")) as admin:
        admin.create_topics(
            {name: {"num_partitions": 1, "replication_factor": 2}}, wait_for_metadata=True
        )
    return f"kafka://{cluster.bootstrap}/{name}"


def isr(cluster, topic):
    """Return the leader of the partition and the replicas in sync; -1 while no broker answers."""
    try:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(",")) as admin:
            told = admin.describe_topics([topic])[0]["partitions"][0]
    except KafkaError:
        return -1, set()
    return told["leader_id"], set(told["isr_nodes"])


def lose_the_end(cluster, life, draw):
    """Keep the follower down while more is learned; then restart it alone and give it other
    records.
    """
    topic = life.log.rpartition("/")[2]
    wait_for(lambda: isr(cluster, topic)[1] == {2, 3}, "both brokers are in sync")
    leader = isr(cluster, topic)[0]
    follower = 5 - leader
    cluster.nodes[follower].kill()
    wait_for(lambda: isr(cluster, topic) == (leader, {leader}), "one broker is alone")
    life.feed(500)
    life.catch_up()
    life.learned = life.events()
    cluster.nodes[leader].kill()
    cluster.nodes[follower].start()
    wait_for(lambda: isr(cluster, topic)[0] == follower, "an unclean leader")
    life.feed(draw.choice([10, 500, 900]))
    cluster.nodes[leader].start()
    wait_for(lambda: isr(cluster, topic)[1] == {2, 3}, "both brokers are in sync")


# Batches that fill the memory.


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD] if CHAOS else [ZSTD])
def test_a_learner_skips_batches_that_would_fill_the_memory(
    codec, make_topic, make_life, redis_url, record_figures
):
    """A small batch that unpacks to 200 MiB, or to millions of headers, is skipped and reported."""
    grown = []
    for turn in range(FIGURES.attack_rounds):
        life = make_life(
            make_topic(), redis_url, f"bombs-{turn}", source_settings={"on_data_loss": "earliest"}
        )
        life.feed(200)
        process = life.start("run")
        life.catch_up()
        before = peak_mb(process.pid)
        process.signal(signal.SIGSTOP)
        place = len(life.messages)
        headers = turn % 2 or codec == SNAPPY  # snappy cannot pack 200 MiB small enough
        plant_at(
            life, place, header_bomb(codec, 4 << 20, place) if headers else bomb(codec, 200, place)
        )
        life.feed(200)
        process.signal(signal.SIGCONT)
        wait_for(lambda one=process: read_gaps(one), "the gap is logged")
        process.answers("/readyz", 200)
        wait_for(lambda one=process: one.get("/status")[1]["lag"] == 0, "the rest is learned")
        grown.append(peak_mb(process.pid) - before)
        assert read_gaps(process) == [(place, place + 1)]
        assert process.metrics()['events_lost_total{reason="corrupt"}'] == 1
        process.signal(signal.SIGTERM)
        assert process.ended() == 0, process.said()
        assert "Traceback" not in process.log.read_text()
        check_same_as_without(life, read_gaps(process))
        life.close()
    assert max(grown) < 300, f"a process grew by {grown} MiB"
    name = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}[codec]
    record_figures(
        f"Kafka: bombs in {name} under a learner",
        rounds=len(grown),
        different=0,
        most_mib=round(max(grown)),
    )


def plant_at(life, offset, batch):
    """Replace the next record of the log with this batch."""
    bootstrap, topic = life.log.removeprefix("kafka://").split("/")
    with closing(open_sink(life.log)) as sink:
        sink.append([Entry(filler(batch))])
    life.messages.append(filler(batch))
    path = segment(bootstrap, topic)
    plant(path, batch_of(path, offset), batch)
