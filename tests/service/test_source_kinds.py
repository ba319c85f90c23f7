"""What only one kind of log can get wrong, and the addresses that choose among them."""

import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from redis import Redis
from test_source_contract import finish, take, values

from service.embedded.process import free_port
from service.sources import dead_url, open_sink, open_source
from service.sources.contract import Entry, SourceDown, SourceLost


def parts(url):
    server, _, name = url.rpartition("/")
    return server.removeprefix("kafka://"), name


def test_kafka_delivers_all_partitions_each_in_order(make_topic):
    url = make_topic(partitions=3)
    with closing(open_sink(url)) as sink:
        sink.append([Entry(b"%d" % number, b"key %d" % (number % 20)) for number in range(300)])
    with closing(open_source(url, "earliest")) as source:
        assert sum(source.lag().values()) == 300
        source.until_end()
        records = finish(source)
        assert source.lag() == {"0": 0, "1": 0, "2": 0}
    assert sorted(int(record.value) for record in records) == list(range(300))
    for partition in "012":
        of_one = [int(record.value) for record in records if record.partition == partition]
        assert of_one
        assert of_one == sorted(of_one)


def test_kafka_absent_is_down_at_once():
    began = time.monotonic()
    address = f"127.0.0.1:{free_port()}"
    for make in (lambda url: open_source(url, "earliest"), open_sink):
        with pytest.raises(SourceDown, match=address):
            make(f"kafka://{address}/events")
    assert time.monotonic() - began < 5


def test_kafka_topic_missing_is_down(kafka):
    with pytest.raises(SourceDown, match="does not exist"):
        open_source(f"kafka://{kafka.bootstrap}/no-such-topic", "earliest")


def test_kafka_tombstone_is_an_empty_value(topic):
    bootstrap, name = parts(topic)
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        producer.send(name, key=b"k", value=None).get(timeout=20)
    with closing(open_source(topic, "earliest")) as source:
        assert values(take(source, 1)) == [b""]


def test_kafka_aborted_records_are_passed_over(topic):
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
            producer.send(name, value).get(timeout=20)
            end()
    with closing(open_source(topic, "earliest")) as source:
        source.until_end()
        assert values(finish(source)) == [b"a", b"c"]
        assert source.positions() == {"0": "8"}
        assert source.lag() == {"0": 0}


def test_kafka_deleted_records_are_lost(topic):
    bootstrap, name = parts(topic)
    with closing(open_sink(topic)) as sink:
        sink.append([Entry(b"%d" % number) for number in range(10)])
    with closing(open_source(topic, "earliest")) as source:
        take(source, 1)
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.delete_records({TopicPartition(name, 0): 5})
        with pytest.raises(SourceLost, match=f"{name} partition 0: wanted 2, it holds 5 to 10"):
            source.seek({"0": "2"})
        source.seek({"0": "5"})
        assert values(take(source, 5)) == [b"5", b"6", b"7", b"8", b"9"]
        source.seek({})
        assert len(take(source, 5)) == 5


def test_kafka_records_deleted_before_they_were_fetched_are_lost(topic):
    bootstrap, name = parts(topic)
    with closing(open_source(topic, "earliest")) as source:
        with closing(open_sink(topic)) as sink:
            sink.append([Entry(b"%d" % number) for number in range(10)])
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.delete_records({TopicPartition(name, 0): 5})
        for _ in range(2):
            with pytest.raises(SourceLost, match="wanted 0, it holds 5 to 10"):
                take(source, 10)


def test_kafka_unreadable_record_is_down_each_time_and_never_a_hang(topic):
    """After a failed CRC the client's next poll spins for ever, unless the consumer is built anew."""
    bootstrap, name = parts(topic)
    with closing(open_sink(topic)) as sink:
        sink.append([Entry(b"good")])
        sink.append([Entry(b"a value to spoil")])
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        folder = Path(admin.describe_log_dirs()[0]["log_dirs"][0]["log_dir"])
    segment = folder / f"{name}-0" / f"{0:020}.log"
    if not segment.exists():
        pytest.skip("the broker's files are not on this machine")
    with segment.open("r+b") as file:
        file.seek(file.read().index(b"a value to spoil"))
        file.write(b"A")
    with closing(open_source(topic, "earliest")) as source:
        assert values(take(source, 1)) == [b"good"]
        for _ in range(3):
            with pytest.raises(SourceDown, match="cannot be read"):
                take(source, 1)
        assert source.positions() == {"0": "1"}


def test_redis_absent_is_down_at_once():
    began = time.monotonic()
    server = f"redis://user:secret@127.0.0.1:{free_port()}/0/events"
    with closing(open_sink(server)) as sink, pytest.raises(SourceDown) as refused:
        sink.append([Entry(b"")])
    assert "secret" not in str(refused.value)
    with pytest.raises(SourceDown) as refused:
        open_source(server, "earliest")
    assert "secret" not in str(refused.value)
    assert time.monotonic() - began < 5


def test_redis_stream_made_anew_is_lost(redis_url):
    with (
        Redis.from_url(redis_url) as client,
        closing(open_source(f"{redis_url}/events", "earliest")) as source,
    ):
        client.xadd("events", {"value": b"old"}, id="7-0")
        take(source, 1)
        client.delete("events")
        client.xadd("events", {"value": b"new"}, id="5-0")
        with pytest.raises(SourceLost, match="7-0"):
            source.lag()
        with pytest.raises(SourceLost, match="7-0"):
            source.seek({"0": "7-0"})


def test_redis_deleted_entries_keep_nobody_waiting(redis_url):
    with (
        Redis.from_url(redis_url) as client,
        closing(open_source(f"{redis_url}/events", "earliest")) as source,
    ):
        for serial in range(1, 4):
            client.xadd("events", {"value": b"%d" % serial}, id=f"{serial}-0")
        client.xadd("events", {"other": b"no value"}, id="4-0")
        client.xadd("events", {"value": b"the end"}, id="5-0")
        source.until_end()
        client.xdel("events", "2-0", "5-0")
        assert values(finish(source)) == [b"1", b"3", b""]


def test_redis_lag_counts_long_streams(redis_url):
    with closing(open_sink(f"{redis_url}/events")) as sink:
        sink.append([Entry(b"%d" % number) for number in range(2_500)])
        with closing(open_source(f"{redis_url}/events", "earliest")) as source:
            take(source, 700, most=300)
            assert source.lag() == {"0": 1_800}
            sink.append([Entry(b"")] * 1_000)
            take(source, 2_000, most=300)  # beyond what has been counted
            assert source.lag() == {"0": 800}


@pytest.mark.parametrize(
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
def test_bad_address_is_refused_without_repeating_it(url):
    for use in (lambda: open_source(url, "earliest"), lambda: open_sink(url), lambda: dead_url(url)):
        with pytest.raises(ValueError, match="redis") as refused:
            use()
        assert "sec" not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_dead_letters_lie_beside_the_source():
    assert dead_url("kafka://a:1,b:2/events") == "kafka://a:1,b:2/events.dead"
    assert dead_url("redis://u:p@h:6379/0/events") == "redis://u:p@h:6379/0/events.dead"
    assert dead_url("file:///tmp/events.jsonl") is None
