"""What every kind of log must do; each test runs against each kind."""

import random
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer
from redis import Redis

from service.sources import open_sink, open_source
from service.sources.base import BEGINNING, Bookmark, Entry, Options, SourceLostError
from service.sources.kafka.group_offsets import GroupOffsetPublisher
from tests.service.sources.polling import finish, take, values

RANDOM = random.Random(5)
BYTES = [
    b"",
    "žluťoučký 語 🎲".encode(),
    RANDOM.randbytes(900_000),
    *(RANDOM.randbytes(RANDOM.randrange(200)) for _ in range(37)),
]
LIVE = [
    *(pytest.param(client, marks=pytest.mark.kafka) for client in ("kafka-python", "confluent")),
    "redis",
]
EVENTS = [b'{"features": {"a": %d, "b": "%d"}, "label": 1}' % (i, i * i) for i in range(40)]


class Log(NamedTuple):
    url: str
    append: Callable[[Sequence[bytes]], None]
    values: list[bytes]
    beyond: Callable[[str], str]
    """Return a position that the log has not reached, from its last one."""
    client: str = "kafka-python"

    @property
    def is_file(self) -> bool:
        return self.url.startswith("file:")

    def open(self, start="earliest", **options):
        return closing(open_source(self.url, start, Options(client=self.client, **options)))


@pytest.fixture(params=[*LIVE, "file"])
def log(request, tmp_path):
    if request.param == "file":
        path = tmp_path / "events.jsonl"
        path.touch()

        def write(values):
            with path.open("ab") as file:
                file.writelines(value + b"\n" for value in values)

        yield Log(path.as_uri(), write, EVENTS, lambda last: str(int(last) + 1))
        return
    if request.param == "redis":
        url, client = request.getfixturevalue("redis_url") + "/events", "kafka-python"
    else:
        url, client = request.getfixturevalue("make_topic")(), request.param
    with closing(open_sink(url, Options(client=client))) as sink:

        def append(values):
            sink.append([Entry(value) for value in values])

        yield Log(
            url,
            append,
            BYTES,
            lambda last: re.sub(r"^\d+", lambda at: str(int(at[0]) + 1), last),
            client,
        )


def test_records_are_delivered_in_order(log):
    for start in range(0, len(log.values), 9):
        log.append(log.values[start : start + 9])
    with log.open() as source:
        records = take(source, len(log.values))
        assert values(records) == log.values
        assert {record.partition for record in records} == {"0"}
        assert source.poll(0.1, 10) == []


def test_a_new_source_resumes_where_another_stopped(log):
    log.append(log.values)
    for cut in [0, len(log.values), *RANDOM.sample(range(1, len(log.values)), 4)]:
        with log.open() as source:
            before = take(source, cut)
            bookmark = source.bookmark()
        with log.open() as source:
            source.seek(bookmark)
            assert source.bookmark() == bookmark
            assert values(before + take(source, len(log.values) - cut)) == log.values
            assert source.poll(0.1, 10) == []


def test_a_bookmark_within_a_batch_equals_that_of_a_shorter_poll(log):
    """This includes the marks: a recreated log is noticed at every record."""
    log.append(log.values)
    with log.open() as whole, log.open() as part:
        take(whole, 4)
        take(part, 4)
        whole.lag()
        part.lag()
        records = whole.poll(2.0, 9)
        assert len(records) == 9
        for taken in range(1, len(records)):
            take(part, 1)
            found, expected = whole.bookmark(taken), part.bookmark()
            assert found == expected
            with log.open() as again:
                again.seek(found)
                assert take(again, 1) == [records[taken]]
        assert whole.bookmark(len(records)) == whole.bookmark()


def test_reading_can_resume_after_every_record(log):
    log.append(log.values[:8])
    with log.open() as source:
        records = take(source, 8)
        for number, record in enumerate(records):
            source.seek(Bookmark({record.partition: record.after}, {}))
            assert take(source, 7 - number) == records[number + 1 :]


def test_an_empty_log_is_no_error(log):
    with log.open() as source:
        assert source.poll(0.3, 10) == []
        for _ in range(1_000):  # a poll that paused would hit the hang limit
            assert source.poll(0, 10) == []
        assert source.lag() == {"0": 0}
        end = source.stop_at_end()
        assert end == source.bookmark().positions
        assert source.at_end
        assert source.poll(0.1, 10) == []


def test_stop_at_end_stops_at_the_end_at_the_call(log):
    log.append(log.values[:20])
    with log.open() as source:
        source.seek(BEGINNING)
        end = source.stop_at_end()
        first = take(source, 5)
        log.append(log.values[20:])
        assert values(first + finish(source)) == log.values[:20]
        bookmark = source.bookmark()
        assert bookmark.positions == end
        assert source.gaps() == []
    with log.open() as source:
        source.seek(bookmark)
        assert values(take(source, 20)) == log.values[20:]


def test_a_set_end_can_be_given_to_another_source(log):
    log.append(log.values[:20])
    with log.open() as source:
        end = source.stop_at_end()
        first = take(source, 5)
        bookmark = source.bookmark()
    log.append(log.values[20:])
    with log.open() as source:
        source.seek(bookmark)
        assert source.stop_at_end(end) == end
        assert values(first + finish(source)) == log.values[:20]
        source.seek(source.bookmark())
        assert source.stop_at_end(end) == end
        assert source.at_end
        if not log.is_file:  # a file has its own end
            source.seek(source.bookmark())
            assert values(take(source, 20)) == log.values[20:]


def test_an_end_beyond_the_log_is_refused(log):
    log.append(log.values[:3])
    with log.open() as source:
        end = source.stop_at_end()
        with pytest.raises(SourceLostError):
            source.stop_at_end({"0": log.beyond(end["0"])})


def test_a_mark_of_other_records_is_refused(log):
    """The position exists and the log is as long; only the records before the position differ."""
    log.append(log.values[:8])
    with log.open() as source:
        take(source, 4)
        bookmark = source.bookmark()
        source.seek(bookmark)
        checksum = re.compile(
            r"\d+" if log.is_file else r"\d+(?=:\d+:\d)" if log.url[0] == "r" else r"\d+$"
        )
        wrong = checksum.sub(lambda sum_: str(int(sum_[0]) ^ 1), bookmark.marks["0"], count=1)
        assert wrong != bookmark.marks["0"]
        with pytest.raises(SourceLostError):
            source.seek(bookmark._replace(marks=bookmark.marks | {"0": wrong}))
        source.seek(Bookmark(bookmark.positions, {}))
        assert values(take(source, 4)) == log.values[4:8]


def test_a_single_partition_can_be_read(log):
    log.append(log.values[:4])
    with log.open(only="0") as source:
        assert values(take(source, 4)) == log.values[:4]
        assert set(source.bookmark().positions) == {"0"}
    with pytest.raises(SourceLostError, match="no partition 1"), log.open(only="1"):
        pass


def test_checkpointed_positions_do_not_disturb_reading(log, monkeypatch):
    """This holds even if they are never confirmed."""
    answer = threading.Event()
    monkeypatch.setattr(GroupOffsetPublisher, "_commit_until_error", lambda *_: answer.wait())
    try:
        log.append(log.values[:8])
        with log.open(group="watchers") as source:
            first = take(source, 4)
            for _ in range(20):
                source.checkpointed(source.bookmark().positions)
            assert values(first + take(source, 4)) == log.values[:8]
    finally:
        answer.set()


def test_lag_is_the_number_of_unread_records(log):
    log.append(log.values[:20])
    with log.open() as source:
        assert source.lag() == {"0": 20}
        take(source, 6)
        assert source.lag() == {"0": 14}
        log.append(log.values[20:])
        assert source.lag() == {"0": 14 if log.is_file else 34}
        take(source, 14)
        log.append(log.values[:1])
        assert source.lag() == {"0": 0 if log.is_file else 21}


@pytest.mark.parametrize("log", LIVE, indirect=True)
def test_latest_begins_after_the_existing_records(log):
    log.append(log.values[:3])
    with log.open("latest") as source:
        source.seek(BEGINNING)
        assert source.lag() == {"0": 0}
        log.append(log.values[3:6])
        assert values(take(source, 3)) == log.values[3:6]


def test_a_position_beyond_the_log_is_refused(log):
    log.append(log.values[:3])
    with log.open() as source:
        last = take(source, 3)[-1].after
        with pytest.raises(SourceLostError):
            source.seek(Bookmark({"0": log.beyond(last)}, {}))


def test_a_source_can_be_closed_twice(log):
    source = open_source(log.url, "earliest", Options(client=log.client))
    source.close()
    source.close()


@pytest.mark.parametrize("log", LIVE, indirect=True)
def test_a_sink_returns_the_position_of_each_entry(log):
    with closing(open_sink(log.url, Options(client=log.client))) as sink:
        places = [
            place
            for start in range(0, 40, 8)
            for place in sink.append([*map(Entry, EVENTS[start : start + 8])])
        ]
        assert sink.append([]) == []
    with log.open() as source:
        records = take(source, len(EVENTS))
    assert values(records) == EVENTS
    assert [(record.partition, record.position) for record in records] == places


@pytest.mark.kafka
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_sink_returns_the_partition_of_each_entry(make_topic, client):
    url = make_topic(4)
    with closing(open_sink(url, Options(client=client))) as sink:
        places = sink.append([Entry(value, value) for value in EVENTS])
    with closing(open_source(url, "earliest")) as source:
        found = {
            (record.partition, record.position): record.value
            for record in take(source, len(EVENTS))
        }
    assert [found[place] for place in places] == EVENTS
    assert len({partition for partition, _ in places}) == 4


@pytest.mark.parametrize("log", LIVE, indirect=True)
def test_a_sink_writes_key_and_headers(log):
    with closing(open_sink(log.url, Options(client=log.client))) as sink:
        sink.append([Entry(b"v", b"k", (("why", b"malformed"), ("at", b"7"))), Entry(b"bare")])
    server, _, name = log.url.rpartition("/")
    if server.startswith("redis"):
        with Redis.from_url(server) as client:
            rows = [fields for _, fields in client.xrange(name)]
        assert rows == [
            {b"value": b"v", b"key": b"k", b"h:why": b"malformed", b"h:at": b"7"},
            {b"value": b"bare"},
        ]
        return
    reader = {"bootstrap_servers": server.removeprefix("kafka://"), "auto_offset_reset": "earliest"}
    with KafkaConsumer(name, **reader) as consumer:
        rows = [next(consumer), next(consumer)]
    assert [(row.key, row.value, row.headers) for row in rows] == [
        (b"k", b"v", [("why", b"malformed"), ("at", b"7")]),
        (None, b"bare", []),
    ]
