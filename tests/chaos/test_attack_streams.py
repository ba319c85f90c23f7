"""Records that vanish between two looks at a log: each time the loss is noticed, or nothing was
lost.

A round reads a log of numbered records, cuts it at a random moment and reads on. It is *noticed*
when the reader stops or records a gap, and *whole* when every record came although some were cut.
Anything else is a silent loss. `XDEL` and compaction delete single records on purpose and are no
loss; there, the reader skips exactly the deleted records.
"""

import random
import re
import resource
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from redis import Redis

from service.embedded.redis import RedisServer
from service.sources import open_sink
from tests.chaos.events import make_messages, tally
from tests.chaos.holds import CHECKPOINT, frozen, paused, running, stopped, without_lease
from tests.chaos.life import END_SECONDS
from tests.chaos.memory import rss_mb
from tests.chaos.reading import Reading, make_records
from tests.chaos.scale import FIGURES
from tests.waiting import wait_for

LENGTH = 400
MORE = 300


def attack(url, cut, keep, what, **options):
    """Run rounds of: read to a random place, cut while the reader is there, read on."""
    draw = random.Random(what)
    seen = {"noticed": 0, "whole": 0}
    for number in range(FIGURES.attack_rounds):
        log = url(number)
        with closing(open_sink(log)) as sink:
            sink.append(make_records(0, LENGTH))
            with closing(Reading(log, **options)) as reading:
                reading.read(draw.randrange(LENGTH))
                time.sleep(draw.uniform(0.0, 0.3))
                total = cut(log, sink, draw, reading)
                reading.read(total - 1)
                if log.startswith("kafka:"):
                    reading.look_again(range(total))
                seen[reading.judge(range(total))] += 1
    keep(what, rounds=FIGURES.attack_rounds, **seen, lost_in_silence=0)
    return seen


# Redis Streams.


@pytest.fixture(scope="module", params=["Redis 6.2", "Redis 7"])
def server(request, tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"), appendonly=False)
    if request.param == "Redis 7":
        server.command = (request.getfixturevalue("system_redis"), *server.command[1:])
    server.start()
    server.version = request.param
    yield server
    server.stop()


def trim(client, name, sink, draw):
    sink.append(make_records(LENGTH, MORE))
    client.xtrim(name, maxlen=draw.randrange(1, LENGTH + MORE), approximate=False)
    return LENGTH + MORE


def burst(client, name, _sink, draw):
    with client.pipeline(transaction=True) as pipe:
        for entry in make_records(LENGTH, MORE):
            pipe.xadd(
                name, {"value": entry.value}, maxlen=draw.randrange(1, MORE), approximate=False
            )
        pipe.execute()
    return LENGTH + MORE


def recreate_stream(client, name, sink, _draw):
    client.delete(name)
    sink.append(make_records(LENGTH + 1, MORE))  # no stream has `LENGTH`, so it is never whole
    return LENGTH + 1 + MORE


def restore(client, name, sink, draw):
    older = client.xrange(name, count=draw.randrange(1, LENGTH - 2))
    client.delete(name)
    with client.pipeline() as pipe:
        for position, fields in older:
            pipe.xadd(name, fields, position)
        pipe.execute()
    sink.append(make_records(LENGTH + 1, MORE))
    return LENGTH + 1 + MORE


@pytest.mark.parametrize("on_data_loss", ["fail", "earliest"])
@pytest.mark.parametrize("cut", [trim, burst, recreate_stream, restore])
def test_a_stream_cut_at_a_random_moment_loses_nothing_silently(
    server, record_figures, cut, on_data_loss
):
    with Redis.from_url(server.url) as client:

        def now(log, sink, draw, reading):
            if draw.random() < 0.5:
                reading.source.lag()
            return cut(client, log.rpartition("/")[2], sink, draw)

        def url(number):
            return f"{server.url}/{cut.__name__}-{on_data_loss}-{number}"

        what = (
            f"{server.version}: {cut.__name__.replace('_', ' ')} under a reader, on_data_loss"
            f" {on_data_loss}"
        )
        attack(url, now, record_figures, what, on_data_loss=on_data_loss)


def test_a_reader_skips_only_deleted_entries(server, record_figures):
    draw = random.Random(3)
    with Redis.from_url(server.url) as client:
        for number in range(FIGURES.attack_rounds):
            log = f"{server.url}/xdel-{number}"
            with closing(open_sink(log)) as sink, closing(Reading(log)) as reading:
                places = sink.append(make_records(0, LENGTH))
                reading.read(draw.randrange(1, LENGTH))
                deleted = draw.sample(range(LENGTH - 1), 20)
                client.xdel(f"xdel-{number}", *(places[at].position for at in deleted))
                known = set(reading.found)
                reading.read(LENGTH - 1)
                assert not reading.lost or set(deleted) & known, reading.lost
                if not reading.lost:
                    assert set(reading.found) == known | (set(range(LENGTH)) - set(deleted))
    record_figures(
        f"{server.version}: XDEL of 20 entries", rounds=FIGURES.attack_rounds, lost_in_silence=0
    )


# Kafka.


def delete_records(log, sink, draw, _reading):
    bootstrap, name = log.removeprefix("kafka://").split("/")
    sink.append(make_records(LENGTH, MORE))
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(name, 0): draw.randrange(1, LENGTH + MORE)})
    return LENGTH + MORE


def recreate_topic(log, _sink, _draw, _reading):
    bootstrap, name = log.removeprefix("kafka://").split("/")
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([name])
        wait_for(lambda: name not in admin.list_topics(), "the topic is gone")
        admin.create_topics(
            {name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
        )
    with closing(open_sink(log)) as fresh:
        fresh.append(make_records(LENGTH + 1, 2 * LENGTH))  # longer than the old one
    return 3 * LENGTH + 1


@pytest.mark.kafka
@pytest.mark.parametrize("cut", [delete_records, recreate_topic])
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_topic_cut_at_a_random_moment_loses_nothing_silently(
    make_topic, record_figures, cut, client
):
    what = f"Kafka by {client}: {cut.__name__.replace('_', ' ')} under a reader"
    attack(lambda _: make_topic(), cut, record_figures, what, client=client)


@pytest.mark.kafka
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_topic_recreated_before_the_set_end_is_noticed(make_topic, record_figures, client):
    """A reader that has to stop at an end does not reach it on another topic."""
    noticed = 0
    for number in range(FIGURES.attack_rounds):
        draw = random.Random(number)
        log = make_topic()
        with closing(open_sink(log)) as sink:
            sink.append(make_records(0, LENGTH))
        with closing(Reading(log, client=client)) as reading:
            reading.source.stop_at_end()
            reading.read(draw.randrange(LENGTH // 2), most=20)
            recreate_topic(log, None, draw, reading)
            wait_for(
                lambda one=reading: one.read_once(LENGTH) or one.lost or one.source.at_end,
                "the loss or the end",
            )
            assert reading.lost
            noticed += 1
    record_figures(
        f"Kafka by {client}: recreated before the end",
        rounds=FIGURES.attack_rounds,
        noticed=noticed,
    )


# Files.


def rewrite(path, _kept, draw):
    path.write_bytes(lines(500_000, 500_000 + draw.randrange(LARGE, 2 * LARGE)))


def cut_and_grow(path, kept, draw):
    with path.open("r+b") as file:
        file.truncate(len(kept) * draw.randrange(1, 99) // 100)
        file.seek(0, 2)
        file.write(b"\n" + lines(700_000, 700_000 + 2 * LARGE))


def truncate(path, kept, draw):
    with path.open("r+b") as file:
        file.truncate(len(kept) * draw.randrange(1, 99) // 100)


def replace(path, _kept, _draw):
    other = path.with_suffix(".new")
    other.write_bytes(lines(900_000, 900_000 + LARGE))
    other.rename(path)


LARGE = 30_000


def lines(first, end):
    return b"".join(b'{"n": %06d}\n' % number for number in range(first, end))


@pytest.mark.parametrize("cut", [rewrite, cut_and_grow, truncate, replace])
def test_a_file_cut_at_a_random_moment_loses_nothing_silently(tmp_path, record_figures, cut):
    draw = random.Random(cut.__name__)
    seen = {"noticed": 0, "whole": 0}
    path = tmp_path / "events.jsonl"
    for _ in range(FIGURES.attack_rounds):
        kept = lines(0, LARGE)
        path.write_bytes(kept)
        with closing(Reading(path.as_uri())) as reading:
            reading.read(draw.randrange(LARGE), most=500)
            cut(path, kept, draw)
            reading.read(LARGE - 1, most=500)
            seen[reading.judge(range(LARGE))] += 1
    what = f"file: {cut.__name__.replace('_', ' ')} under a reader"
    record_figures(what, rounds=FIGURES.attack_rounds, **seen, lost_in_silence=0)


# A learner.


def flood(url, first, count, keep, **fields):
    """Append events in one transaction, of which the stream keeps only the last."""
    server, _, name = url.rpartition("/")
    messages = make_messages(first, count)
    with Redis.from_url(server) as client, client.pipeline(transaction=True) as pipe:
        for message in messages:
            pipe.xadd(name, {"value": message, **fields}, maxlen=keep, approximate=False)
        pipe.execute()
    return messages


@pytest.mark.parametrize("hold", [running, stopped, frozen, without_lease, paused])
def test_a_learner_stops_when_its_stream_is_trimmed(
    server, redis_url, make_life, record_figures, hold
):
    for number in range(FIGURES.attack_rounds):
        name = f"trimmed-{hold.__name__}-{number}"
        life = make_life(f"{server.url}/{name}", redis_url, name, checkpoint=CHECKPOINT)
        life.feed(500)
        process = life.start("run")
        life.catch_up()
        with hold(life, process):
            flood(life.log, 50_000, 20_000, 2_000)
        assert process.ended() == 3, process.said()
        assert "entries behind it were trimmed" in process.said()
        life.check_reads_a_prefix()
        life.close()
    how = hold.__name__.replace("_", " ")
    what = f"{server.version}: 18,000 of 20,000 entries trimmed, learner {how}"
    record_figures(what, rounds=FIGURES.attack_rounds, exit_3=FIGURES.attack_rounds)


def test_a_learner_records_the_gap_and_continues(server, make_life, record_figures):
    for number in range(FIGURES.attack_rounds):
        name = f"gap-{number}"
        source = {"url": f"{server.url}/{name}", "on_data_loss": "earliest"}
        life = make_life(source["url"], server.url, name, source=source)
        life.feed(500)
        process = life.start("run")
        life.catch_up()
        left = flood(life.log, 501, 20_000, 2_000)[-2_000:]
        life.messages += left
        life.catch_up()
        assert 'events_lost_total{reason="retention"}' in process.metrics()
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
        life.prove()
        kinds = [type(entry).__name__ for entry in life.snapshot().lineage.entries]
        assert kinds == ["Run", "Lost", "Run"]
    what = (
        f"{server.version}: the same with on_data_loss earliest: gap in the lineage, the rest"
        " learned"
    )
    record_figures(what, rounds=FIGURES.attack_rounds, gaps=FIGURES.attack_rounds, different=0)


@pytest.mark.kafka
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_stopped_learner_notices_retention_when_it_resumes(
    make_topic, redis_url, make_life, record_figures, client
):
    for number in range(FIGURES.attack_rounds):
        life = make_life(make_topic(), redis_url, f"stopped-{client}-{number}")
        life.feed(500)
        process = life.start(client=client)
        life.catch_up()
        process.signal(signal.SIGSTOP)
        life.append(make_messages(501, 500))
        bootstrap, name = life.log.removeprefix("kafka://").split("/")
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.delete_records({TopicPartition(name, 0): 900})
        process.signal(signal.SIGCONT)
        assert process.ended() == 3, process.said()
        assert re.search("wanted [5-8][0-9]{2}, it holds 900 to 1000", process.said())
    what = f"Kafka by {client}: retention under a learner stopped by SIGSTOP"
    record_figures(what, rounds=FIGURES.attack_rounds, exit_3=FIGURES.attack_rounds)


def test_a_learner_reads_large_entries_under_a_memory_limit(server, make_life, record_figures):
    """400 entries of 4 MB, and an address space of 200 MB more than the idle learner has."""
    life = make_life(f"{server.url}/large", server.url, "large", max_poll_records=500)
    life.feed(100)
    process = life.start()
    life.catch_up()
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
    used = pages * resource.getpagesize()
    resource.prlimit(process.pid, resource.RLIMIT_AS, (used + (200 << 20),) * 2)
    before = rss_mb(process.pid)
    entries = 20 * FIGURES.attack_rounds
    for first in range(101, 101 + entries, 20):
        life.messages += flood(life.log, first, 20, None, filler=bytes(4 << 20))
    sizes = []
    goal = tally(life.messages)["events"]
    wait_for(
        lambda: sizes.append(rss_mb(process.pid)) or life._has(goal), "all are learned", END_SECONDS
    )
    most = max(sizes)
    assert most - before < 100
    process.signal(signal.SIGTERM)
    assert process.ended() == 0
    life.prove()
    with Redis.from_url(server.url) as client:
        client.delete("large")
    what = f"{server.version}: entries of 4 MB under a memory limit"
    record_figures(what, entries=entries, more_mb_resident=round(most - before), different=0)
