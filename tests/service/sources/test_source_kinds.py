"""Errors that only one kind of log can have, and the URLs that choose a kind."""

import subprocess
import sys
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from redis import Redis

from service.embedded.process import free_port
from service.sources import create_log, open_sink, open_source
from service.sources.base import (
    BEGINNING,
    Bookmark,
    Entry,
    Gap,
    Options,
    SourceLostError,
    SourceUnavailableError,
)
from service.sources.kafka import confluent, kafka_python
from service.sources.urls import log_name, url_beside
from tests.looped import looped
from tests.service.sources.polling import finish, take, values
from tests.waiting import HANG_SECONDS, wait_for

both_clients = pytest.mark.parametrize("client", ["kafka-python", "confluent"])


def parts(url):
    server, _, name = url.rpartition("/")
    return server.removeprefix("kafka://"), name


@both_clients
def test_kafka_delivers_all_partitions_each_in_order(make_topic, client):
    url = make_topic(partitions=3)
    with closing(open_sink(url, Options(client=client))) as sink:
        sink.append([Entry(b"%d" % number, b"key %d" % (number % 20)) for number in range(300)])
    with closing(open_source(url, "earliest", Options(client=client))) as source:
        assert sum(source.lag().values()) == 300
        source.stop_at_end()
        records = finish(source)
        assert source.lag() == {"0": 0, "1": 0, "2": 0}
    assert sorted(int(record.value) for record in records) == list(range(300))
    for partition in "012":
        of_one = [int(record.value) for record in records if record.partition == partition]
        assert of_one
        assert of_one == sorted(of_one)


@both_clients
def test_an_absent_kafka_is_unavailable_at_once(client, monkeypatch):
    """A client that waited for the broker would wait for minutes."""
    monkeypatch.setattr(kafka_python, "BOOTSTRAP_MS", 10_000 * HANG_SECONDS)
    monkeypatch.setattr(kafka_python, "KafkaAdminClient", None)
    monkeypatch.setattr(confluent, "REQUEST_SECONDS", 10 * HANG_SECONDS)
    address = f"127.0.0.1:{free_port()}"
    url, options = f"kafka://{address}/events", Options(client=client)
    for use in (
        lambda: open_source(url, "earliest", options),
        lambda: open_sink(url, options),
        lambda: create_log(url),
    ):
        with pytest.raises(SourceUnavailableError, match=address):
            use()


@both_clients
def test_a_missing_kafka_topic_is_unavailable(kafka, client):
    with pytest.raises(SourceUnavailableError, match="does not exist"):
        open_source(f"kafka://{kafka.bootstrap}/no-such-topic", "earliest", Options(client=client))


@both_clients
def test_a_kafka_tombstone_is_an_empty_value(topic, client):
    bootstrap, name = parts(topic)
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        producer.send(name, key=b"k", value=None).get(timeout=HANG_SECONDS)
    with closing(open_source(topic, "earliest", Options(client=client))) as source:
        assert values(take(source, 1)) == [b""]


@both_clients
def test_aborted_kafka_records_are_skipped(topic, client):
    bootstrap, name = parts(topic)
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        for value, end in [
            (b"a", producer.commit_transaction),
            (b"b", producer.abort_transaction),
            (b"c", producer.commit_transaction),
            (b"d", producer.abort_transaction),
        ]:
            producer.begin_transaction()
            producer.send(name, value).get(timeout=HANG_SECONDS)
            end()
    with closing(open_source(topic, "earliest", Options(client=client))) as source:
        source.stop_at_end()
        assert values(finish(source)) == [b"a", b"c"]
        assert source.bookmark().positions == {"0": "8"}
        assert source.lag() == {"0": 0}


@both_clients
def test_a_kafka_sink_without_a_topic_is_unavailable(kafka, client):
    with (
        closing(
            open_sink(f"kafka://{kafka.bootstrap}/no-such-topic", Options(client=client))
        ) as sink,
        pytest.raises(SourceUnavailableError, match="no-such-topic"),
    ):
        sink.append([Entry(b"x")])


@both_clients
def test_checkpointed_kafka_positions_are_committed_to_the_group(topic, client):
    bootstrap, name = parts(topic)
    with closing(open_sink(topic)) as sink:
        sink.append([Entry(b"%d" % number) for number in range(10)])
    group = f"group of {name}"
    with closing(open_source(topic, "earliest", Options(client=client, group=group))) as source:
        take(source, 7)
        source.checkpointed(source.bookmark().positions)
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            seen = wait_for(lambda: admin.list_group_offsets({group: None})[group], "the offsets")
        assert [(tp.topic, tp.partition, at.offset) for tp, at in seen.items()] == [(name, 0, 7)]
        source.seek(BEGINNING)
        assert source.lag() == {"0": 10}


def test_a_missing_confluent_client_says_what_to_install():
    """A new interpreter cannot find the package, as on a machine without the extra."""
    program = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "from service.sources import open_source\n"
        "from service.sources.base import Options\n"
        "open_source('kafka://127.0.0.1:1/events', 'earliest', Options(client='confluent'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1].startswith("ValueError: client: confluent needs")
    assert "onepass[fast]" in done.stderr.splitlines()[-1]


def test_an_absent_redis_is_unavailable_at_once(monkeypatch):
    pauses = []
    monkeypatch.setattr("redis.retry.sleep", pauses.append)
    server = f"redis://user:secret@127.0.0.1:{free_port()}/0/events"
    with closing(open_sink(server)) as sink, pytest.raises(SourceUnavailableError) as refused:
        sink.append([Entry(b"")])
    assert "secret" not in str(refused.value)
    with pytest.raises(SourceUnavailableError) as refused:
        open_source(server, "earliest")
    assert "secret" not in str(refused.value)
    assert sum(pauses) < 5


def test_a_recreated_redis_stream_is_noticed(redis_url):
    with (
        Redis.from_url(redis_url) as client,
        closing(open_source(f"{redis_url}/events", "earliest")) as source,
    ):
        client.xadd("events", {"value": b"old"}, id="7-0")
        take(source, 1)
        client.delete("events")
        client.xadd("events", {"value": b"new"}, id="5-0")
        with pytest.raises(SourceLostError, match="7-0"):
            source.lag()
        with pytest.raises(SourceLostError, match="7-0"):
            source.seek(Bookmark({"0": "7-0"}, {}))


def read_and_mark(url, count):
    with closing(open_source(url, "earliest")) as source:
        take(source, count)
        source.lag()
        return source.bookmark()


def add(client, ids, text):
    for serial in ids:
        client.xadd("events", {"value": b"%s %d" % (text, serial)}, id=f"{serial}-0")


def test_a_redis_stream_recreated_with_the_same_ids_is_noticed(redis_url):
    url = f"{redis_url}/events"
    with Redis.from_url(redis_url) as client:
        add(client, range(1, 9), b"old")
        bookmark = read_and_mark(url, 5)
        client.delete("events")
        add(client, range(1, 9), b"new")
    with (
        closing(open_source(url, "earliest")) as source,
        pytest.raises(SourceLostError, match="another stream"),
    ):
        source.seek(bookmark)
    with closing(open_source(url, "earliest", Options(on_data_loss="earliest"))) as source:
        source.seek(bookmark)
        assert source.gaps() == [Gap("0", "5-0", "1-0", 0, "recreated")]
        assert len(take(source, 8)) == 8
    with closing(open_source(url, "earliest", Options(on_data_loss="latest"))) as source:
        source.seek(bookmark)
        assert source.gaps() == [Gap("0", "5-0", "8-0", 0, "recreated")]
        assert source.lag() == {"0": 0}


def test_a_redis_trim_beyond_the_position_is_noticed(redis_url):
    url = f"{redis_url}/events"
    with Redis.from_url(redis_url) as client:
        add(client, range(1, 11), b"event")
        bookmark = read_and_mark(url, 3)
        client.xtrim("events", minid="4-0", approximate=False)
        with closing(open_source(url, "earliest")) as source:
            source.seek(bookmark)  # only entries that were read are gone
            assert values(take(source, 1)) == [b"event 4"]
        client.xtrim("events", minid="7-0", approximate=False)
        with (
            closing(open_source(url, "earliest")) as source,
            pytest.raises(SourceLostError, match="3 entries"),
        ):
            source.seek(bookmark)
    with closing(open_source(url, "earliest", Options(on_data_loss="earliest"))) as source:
        source.seek(bookmark)
        assert source.gaps() == [Gap("0", "3-0", "7-0", 3, "retention")]
        assert values(take(source, 4)) == [b"event 7", b"event 8", b"event 9", b"event 10"]
    with closing(open_source(url, "earliest", Options(on_data_loss="latest"))) as source:
        source.seek(bookmark)
        assert source.gaps() == [Gap("0", "3-0", "10-0", 7, "retention")]
        assert source.lag() == {"0": 0}


def test_a_redis_trim_while_reading_is_noticed(redis_url):
    with (
        Redis.from_url(redis_url) as client,
        closing(open_source(f"{redis_url}/events", "earliest")) as source,
    ):
        add(client, range(1, 11), b"event")
        take(source, 3)
        assert source.lag() == {"0": 7}
        client.xtrim("events", minid="7-0", approximate=False)
        with pytest.raises(SourceLostError, match="3 entries"):
            source.lag()


def test_a_redis_position_whose_entry_was_deleted_is_accepted(redis_url):
    url = f"{redis_url}/events"
    with Redis.from_url(redis_url) as client:
        add(client, range(1, 9), b"event")
        bookmark = read_and_mark(url, 5)
        client.xdel("events", "5-0")
    with closing(open_source(url, "earliest")) as source:
        source.seek(bookmark)
        assert values(take(source, 3)) == [b"event 6", b"event 7", b"event 8"]


def test_deleted_redis_entries_do_not_delay_the_end(redis_url):
    with (
        Redis.from_url(redis_url) as client,
        closing(open_source(f"{redis_url}/events", "earliest")) as source,
    ):
        for serial in range(1, 4):
            client.xadd("events", {"value": b"%d" % serial}, id=f"{serial}-0")
        client.xadd("events", {"other": b"no value"}, id="4-0")
        client.xadd("events", {"value": b"the end"}, id="5-0")
        source.stop_at_end()
        client.xdel("events", "2-0", "5-0")
        assert values(finish(source)) == [b"1", b"3", b""]


def test_redis_lag_counts_long_streams(redis_url):
    with closing(open_sink(f"{redis_url}/events")) as sink:
        sink.append([Entry(b"%d" % number) for number in range(2_500)])
        with closing(open_source(f"{redis_url}/events", "earliest")) as source:
            take(source, 700, most=300)
            assert source.lag() == {"0": 1_800}
            sink.append([Entry(b"")] * 1_000)
            take(source, 2_000, most=300)  # beyond the entries that were counted
            assert source.lag() == {"0": 800}


@looped(
    "url",
    [
        "",
        "events.jsonl",
        "http://127.0.0.1/events",
        "kafka://127.0.0.1/events",
        "kafka://127.0.0.1:9092",
        "kafka://127.0.0.1:9092/a/b",
        "kafka://user:secret@127.0.0.1:9092/events",
        "redis://user:secret@127.0.0.1:6379/events",
        "redis://user:secret@127.0.0.1/0/events",
        "redis://user:sec/ret@127.0.0.1:6379/0/events",
        "file://events.jsonl",
    ],
)
def test_a_bad_url_is_refused_without_repeating_it(url):
    for use in (
        lambda: open_source(url, "earliest"),
        lambda: open_sink(url),
        lambda: url_beside(url, ".dead"),
    ):
        with pytest.raises(ValueError, match="redis") as refused:
            use()
        assert "sec" not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_dead_letters_get_a_url_beside_the_source():
    assert url_beside("kafka://a:1,b:2/events", ".dead") == "kafka://a:1,b:2/events.dead"
    assert url_beside("redis://u:p@h:6379/0/events", ".dead") == "redis://u:p@h:6379/0/events.dead"
    assert url_beside("file:///tmp/events.jsonl", ".alarms") is None


def test_a_log_has_one_name_whatever_its_address():
    assert (
        log_name("redis://h:6379/0/events")
        == log_name("rediss://u:p@other:6380/0/events")
        == "redis:events"
    )
    assert log_name("kafka://a:1,b:2/events") == log_name("kafka://c:3/events") == "kafka:events"
