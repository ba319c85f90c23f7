"""Kafka that refuses a login, loses acknowledged records, or has batches that fill the memory."""

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
from tests.chaos.gap_checks import check_same_as_without, gaps_told
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
from tests.chaos.topics import leave_no_socket
from tests.chaos.watcher import watched
from tests.waiting import wait_for


def long(test):
    """It starts Kafka processes of its own, so it is a test in `make chaos PART=attack` only."""
    return test if CHAOS else None


CLIENTS = ["kafka-python", "confluent"]


# Login.


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """Each connection has to log in again every second."""
    again = {"connections.max.reauth.ms": "1000"}
    with secured_broker(tmp_path_factory.mktemp("secured"), **again) as started:
        yield started


def removed(secured, user, password):
    secured.remove(user)
    yield
    secured.set_password(user, password)


def changed(secured, user, password):
    secured.set_password(user, "canary-another")
    yield
    secured.set_password(user, password)


def check_complaint(process, user):
    told = process.log.read_text()
    assert f"for user {user}: check username, password and mechanism; retrying" in told
    assert "canary" not in told
    assert "Traceback" not in told


@long
@pytest.mark.parametrize("client", CLIENTS)
def test_login_that_ends_in_mid_run(secured, client, make_life, redis_url, measured):
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
        life.advances()
        time.sleep(draw.random() * 0.5)
        fault = (removed if turn % 2 else changed)(secured, user, PASSWORD)
        with watched(process) as watcher:
            next(fault)
            life.feed(500)
            told = f"authentication failed at .* for user {user}"
            wait_for(
                lambda: "authentication failed" in process.get("/status")[1]["waiting_for"], told
            )
            wait_for(lambda: process.metrics()["kafka_up"] == 0, "Kafka is told to be down")
            next(fault, None)
            life.caught_up()
        answered += watcher.statuses[200]
        wait_for(lambda: process.metrics()["kafka_up"] == 1, "Kafka is told to be up")
    check_complaint(process, user)
    process.kill()
    life.prove()
    title = f"Kafka: login removed or changed in mid-run ({client})"
    measured(title, rounds=FIGURES.attack_rounds, different=0, predictions=answered, failed=0)


# TLS.


@long
@pytest.mark.parametrize("client", CLIENTS)
def test_a_learner_with_wrong_tls_settings_says_so_and_goes_on_when_mended(
    secured, client, make_life, redis_url, tmp_path, measured
):
    """The file of certificates is wrong; when it is replaced the learner needs no restart."""
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
            lambda one=process: "security.ca_file" in trouble(one), "a line that names the setting"
        )
        assert process.metrics()["kafka_up"] == 0
        ca.write_bytes(right)
        life.caught_up()
        assert "Traceback" not in process.log.read_text()
        process.kill()
    life.prove()
    measured(
        f"Kafka: wrong certificates, then the right ones ({client})",
        rounds=FIGURES.attack_rounds,
        different=0,
    )


def trouble(process):
    answer = process.get("/status")[1]
    return answer["waiting_for"] if answer else ""


# Records that were acknowledged and are gone.


@long
@pytest.mark.parametrize("client", CLIENTS)
def test_unclean_leader_election(client, make_life, redis_url, tmp_path, measured, caplog):
    """What only one broker had is gone when the other one becomes the leader."""
    draw = random.Random(client)
    caplog.set_level(logging.CRITICAL, logger="kafka")  # its entries would keep refused sockets
    policies = ["fail", "latest"]
    # Each starts and kills brokers, which takes most of a minute.
    rounds = FIGURES.attack_rounds // 5
    with kafka_cluster(tmp_path / "cluster") as cluster:
        for turn in range(rounds):
            policy = policies[turn % 2]
            life = make_life(
                made(cluster, f"{client}-{turn}"),
                redis_url,
                f"unclean-{client}-{turn}",
                source_settings={"on_data_loss": policy},
                # A topic of one replica may be away too.
                dead_letters={"url": f"{redis_url}/dead-{client}-{turn}"},
            )
            life.feed(500)
            process = life.start("run", client=client)
            life.caught_up()
            lose_the_end(cluster, life, draw)
            if policy == "fail":
                assert process.ended() == 3, process.said()
                assert "its end was cut off" in process.log.read_text()
            else:
                wait_for(
                    lambda one=process: "(truncated)" in one.log.read_text(), "the gap is told"
                )
                process.signal(signal.SIGTERM)
                assert process.ended() == 0, process.said()
            assert "Traceback" not in process.log.read_text()
            assert life.events() >= life.learned, "what was learned before the cut is kept"
            life.close()
    leave_no_socket()
    measured(f"Kafka: unclean leader election ({client})", rounds=rounds, unnoticed=0)


def made(cluster, name):
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(",")) as admin:
        admin.create_topics(
            {name: {"num_partitions": 1, "replication_factor": 2}}, wait_for_metadata=True
        )
    return f"kafka://{cluster.bootstrap}/{name}"


def isr(cluster, topic):
    """The leader of the partition and the replicas in sync; -1 while no broker answers."""
    try:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(",")) as admin:
            told = admin.describe_topics([topic])[0]["partitions"][0]
    except KafkaError:
        return -1, set()
    return told["leader_id"], set(told["isr_nodes"])


def lose_the_end(cluster, life, draw):
    """The follower is away while more is learned; then it comes back alone and gets other
    records.
    """
    topic = life.log.rpartition("/")[2]
    wait_for(lambda: isr(cluster, topic)[1] == {2, 3}, "both brokers are in sync")
    leader = isr(cluster, topic)[0]
    follower = 5 - leader
    cluster.nodes[follower].kill()
    wait_for(lambda: isr(cluster, topic) == (leader, {leader}), "one broker is alone")
    life.feed(500)
    life.caught_up()
    life.learned = life.events()
    cluster.nodes[leader].kill()
    cluster.nodes[follower].start()
    wait_for(lambda: isr(cluster, topic)[0] == follower, "an unclean leader")
    life.feed(draw.choice([10, 500, 900]))
    cluster.nodes[leader].start()
    wait_for(lambda: isr(cluster, topic)[1] == {2, 3}, "both brokers are in sync")


# Batches that fill the memory.


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD] if CHAOS else [ZSTD])
def test_bombs_under_a_learner(codec, make_topic, make_life, redis_url, measured):
    """A small batch that unpacks to 200 MiB, or to millions of headers, is passed over and told."""
    grown = []
    for turn in range(FIGURES.attack_rounds):
        life = make_life(
            make_topic(), redis_url, f"bombs-{turn}", source_settings={"on_data_loss": "earliest"}
        )
        life.feed(200)
        process = life.start("run")
        life.caught_up()
        before = peak_mb(process.pid)
        process.signal(signal.SIGSTOP)
        place = len(life.messages)
        headers = turn % 2 or codec == SNAPPY  # snappy packs nothing small enough
        plant_at(
            life, place, header_bomb(codec, 4 << 20, place) if headers else bomb(codec, 200, place)
        )
        life.feed(200)
        process.signal(signal.SIGCONT)
        wait_for(lambda one=process: gaps_told(one), "the gap is told")
        process.answers("/readyz", 200)
        wait_for(lambda one=process: one.get("/status")[1]["lag"] == 0, "the rest is learned")
        grown.append(peak_mb(process.pid) - before)
        assert gaps_told(process) == [(place, place + 1)]
        assert process.metrics()['events_lost_total{reason="corrupt"}'] == 1
        process.signal(signal.SIGTERM)
        assert process.ended() == 0, process.said()
        assert "Traceback" not in process.log.read_text()
        check_same_as_without(life, gaps_told(process))
        life.close()
    assert max(grown) < 300, f"a process grew by {grown} MiB"
    name = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}[codec]
    measured(
        f"Kafka: bombs in {name} under a learner",
        rounds=len(grown),
        different=0,
        most_mib=round(max(grown)),
    )


def plant_at(life, offset, batch):
    """Make the next record of the log this batch."""
    bootstrap, topic = life.log.removeprefix("kafka://").split("/")
    with closing(open_sink(life.log)) as sink:
        sink.append([Entry(filler(batch))])
    life.messages.append(filler(batch))
    path = segment(bootstrap, topic)
    plant(path, batch_of(path, offset), batch)
