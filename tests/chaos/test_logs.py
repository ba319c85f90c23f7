"""A log that has changed: both clients notice each change, follow the policy, and report the exact
gap.
"""

from contextlib import closing

import pytest
from kafka import KafkaProducer, TopicPartition

from service.sources import open_source
from service.sources.base import Bookmark, Gap, Options, SourceLostError
from tests.chaos.kafka_files import segment, set_codec, spoil
from tests.chaos.topics import Topic, numbers, read, read_to_end
from tests.waiting import HANG_SECONDS

CLIENTS = ["kafka-python", "confluent"]


@pytest.fixture(params=CLIENTS)
def client(request):
    return request.param


@pytest.fixture
def topic(make_topic):
    return Topic(make_topic())


def bookmark_after(topic, client, count):
    with topic.open(client) as source:
        read(source, count)
        return source.bookmark()


# Retention.


def test_retention_beyond_the_bookmark_is_a_gap(topic, client):
    topic.append(*numbers(0, 10))
    bookmark = bookmark_after(topic, client, 2)
    with topic.admin() as admin:
        admin.delete_records({TopicPartition(topic.name, 0): 5})
    with (
        topic.open(client) as source,
        pytest.raises(SourceLostError, match="partition 0: wanted 2, it holds 5 to 10"),
    ):
        source.seek(bookmark)
    with topic.open(client, "earliest") as source:
        source.seek(bookmark)
        assert source.gaps() == [Gap("0", "2", "5", 3, "retention")]
        assert source.gaps() == []
        assert read(source, 5) == numbers(5, 10)
    with topic.open(client, "latest") as source:
        source.seek(bookmark)
        assert source.gaps() == [Gap("0", "2", "10", 8, "retention")]
        topic.append(b"10")
        assert read(source, 1) == [b"10"]


def test_retention_during_reading_is_a_gap(topic, client):
    """The events are hidden in a transaction until some are deleted, so that no client has fetched
    them before.
    """
    with (
        topic.open(client) as stopping,
        topic.open(client, "earliest") as going_on,
        KafkaProducer(bootstrap_servers=topic.bootstrap, transactional_id=topic.name) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        for value in numbers(0, 10):
            producer.send(topic.name, value)
        producer.flush()
        with topic.admin() as admin:
            admin.delete_records({TopicPartition(topic.name, 0): 5})
        producer.commit_transaction()
        with pytest.raises(SourceLostError, match="wanted 0, it holds 5 to 11"):
            read(stopping, 10)
        assert read(going_on, 5) == numbers(5, 10)
        assert going_on.gaps() == [Gap("0", "0", "5", 5, "retention")]


# Topic recreated.


@pytest.mark.parametrize("length", [3, 8, 12], ids=["shorter", "same", "longer"])
def test_a_recreated_topic_is_noticed(topic, length):
    topic.append(*numbers(0, 8))
    bookmark = bookmark_after(topic, "kafka-python", 5)
    topic.recreate(numbers(100, 100 + length))
    by_anchor = bookmark._replace(marks={"0": bookmark.marks["0"]})
    by_identity = bookmark._replace(marks={"": bookmark.marks[""]})
    for client in CLIENTS:
        with topic.open(client) as source:
            for way in [bookmark, by_identity] + ([by_anchor] if length >= 5 else []):
                with pytest.raises(SourceLostError, match="another topic"):
                    source.seek(way)
        with topic.open(client, "earliest") as source:
            source.seek(bookmark if length < 5 else by_anchor)
            assert source.gaps() == [Gap("0", "5", "0", 0, "recreated")]
            assert read(source, length) == numbers(100, 100 + length)
        with topic.open(client, "latest") as source:
            source.seek(bookmark)
            assert source.gaps() == [Gap("0", "5", str(length), 0, "recreated")]
            assert source.lag() == {"0": 0}


def test_a_topic_recreated_during_reading_is_noticed(topic, client):
    topic.append(*numbers(0, 8))
    with topic.open(client) as source:
        read(source, 8)
        topic.recreate(numbers(100, 112))
        with pytest.raises(SourceLostError, match="another topic"):
            read(source, 1_000)


def test_a_topic_of_another_cluster_is_another_log(topic, client):
    topic.append(*numbers(0, 8))
    bookmark = bookmark_after(topic, client, 5)
    other = "x" + bookmark.marks[""]
    with topic.open(client) as source, pytest.raises(SourceLostError, match="another topic"):
        source.seek(bookmark._replace(marks={"": other}))


def test_a_truncated_topic_is_noticed(topic, client):
    topic.append(*numbers(0, 8))
    marks = bookmark_after(topic, client, 8).marks
    cut = Bookmark({"0": "11"}, marks)
    with (
        topic.open(client) as source,
        pytest.raises(SourceLostError, match="wanted 11, it holds 0 to 8: its end was cut"),
    ):
        source.seek(cut)
    with topic.open(client, "latest") as source:
        source.seek(cut)
        assert source.gaps() == [Gap("0", "11", "8", 0, "truncated")]


def test_a_topic_truncated_and_grown_again_is_noticed(topic, client):
    """The topic is the same, but another record has the place of the bookmark's last one."""
    topic.append(*numbers(0, 8))
    bookmark = bookmark_after(topic, client, 5)
    strange = bookmark._replace(marks=bookmark.marks | {"0": "4:1:1"})
    with topic.open(client) as source, pytest.raises(SourceLostError, match="its end was cut off"):
        source.seek(strange)


# Partition added.


def test_an_added_partition_is_read_from_its_beginning(topic, client):
    topic.append(*numbers(0, 8))
    with topic.open(client) as source:
        read(source, 8)
        bookmark = source.bookmark()
        with topic.admin() as admin:
            admin.create_partitions({topic.name: 2})
        fill(topic, 1, numbers(50, 53))
        assert read(source, 3) == numbers(50, 53)
        assert source.bookmark().positions == {"0": "8", "1": "3"}
    with closing(open_source(topic.url, "latest", Options(client=client))) as source:
        source.seek(bookmark)
        assert source.lag() == {"0": 0, "1": 3}
        assert read(source, 3) == numbers(50, 53)
        source.seek(bookmark)
        assert source.stop_at_end(bookmark.positions) == {"0": "8", "1": "0"}
        assert source.at_end
    with topic.open(client, only="1") as source:
        source.seek(bookmark)
        assert read(source, 3) == numbers(50, 53)
        assert source.bookmark().positions == {"1": "3"}


def fill(topic, partition, values):
    with KafkaProducer(bootstrap_servers=topic.bootstrap) as producer:
        for value in values:
            producer.send(topic.name, value, partition=partition).get(timeout=HANG_SECONDS)


# Unreadable batches.


@pytest.mark.parametrize(
    ("harm", "policy"),
    [(spoil, "earliest"), (lambda path, number: set_codec(path, number, 7), "latest")],
    ids=["checksum", "unknown codec"],
)
def test_unreadable_batches_are_noticed_and_skipped(topic, client, harm, policy):
    """Of the batches of one event, 1, 4, 5 and the last are bad: one alone, a pair, and one with
    nothing behind it.
    """
    topic.append(*numbers(0, 8), batches=True)
    path = segment(topic.bootstrap, topic.name)
    for number in (1, 4, 5, 7):
        harm(path, number)
    with topic.open(client) as source:
        assert read(source, 1) == [b"0"]
        for _ in range(2):
            with pytest.raises(
                SourceLostError, match="partition 0: the batch at offset 1 cannot be read"
            ):
                read(source, 1)
        assert source.bookmark().positions == {"0": "1"}
        assert source.lag() == {"0": 7}
    with topic.open(client, policy) as source:
        end = source.stop_at_end()
        assert read_to_end(source) == [b"0", b"2", b"3", b"6"]
        assert source.bookmark().positions == end == {"0": "8"}
        assert source.gaps() == [
            Gap("0", str(at), str(at + 1), 1, "corrupt") for at in (1, 4, 5, 7)
        ]


def test_an_unreadable_batch_of_many_events_is_one_gap(topic, client):
    with KafkaProducer(bootstrap_servers=topic.bootstrap, linger_ms=200) as producer:
        for batch in (numbers(0, 3), numbers(3, 40), numbers(40, 43)):
            for sent in [producer.send(topic.name, value) for value in batch]:
                sent.get(timeout=HANG_SECONDS)
    spoil(segment(topic.bootstrap, topic.name), 1)
    with topic.open(client, "earliest") as source:
        source.stop_at_end()
        assert read_to_end(source) == numbers(0, 3) + numbers(40, 43)
        assert source.gaps() == [Gap("0", "3", "40", 37, "corrupt")]
        bookmark = source.bookmark()
        source.seek(bookmark)
        assert source.gaps() == []
