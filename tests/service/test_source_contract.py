"""What every log must do, run against each kind of it."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer
from redis import Redis

from service.sources import open_sink, open_source
from service.sources.contract import Entry, SourceLost

SECONDS = 20
RANDOM = random.Random(5)
BYTES = [
    b"",
    "žluťoučký 語 🎲".encode(),
    RANDOM.randbytes(900_000),
    *(RANDOM.randbytes(RANDOM.randrange(200)) for _ in range(37)),
]
LIVE = [pytest.param("kafka", marks=pytest.mark.kafka), "redis"]
EVENTS = [b'{"features": {"a": %d, "b": "%d"}, "label": 1}' % (i, i * i) for i in range(40)]


class Log(NamedTuple):
    url: str
    append: Callable[[Sequence[bytes]], None]
    values: list[bytes]
    beyond: Callable[[str], str]
    """A position that the log has not reached, from the last one it has."""

    @property
    def is_file(self) -> bool:
        return self.url.startswith("file:")

    def open(self, start="earliest"):
        return closing(open_source(self.url, start))


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
    if request.param == "kafka":
        url = request.getfixturevalue("make_topic")()
    else:
        url = request.getfixturevalue("redis_url") + "/events"
    with closing(open_sink(url)) as sink:

        def append(values):
            sink.append([Entry(value) for value in values])

        yield Log(url, append, BYTES, lambda last: f"{int(last.partition('-')[0]) + 1}")


def take(source, count, most=7):
    """The next `count` records, polled `most` at a time."""
    deadline = time.monotonic() + SECONDS
    records = []
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        batch = source.poll(0.2, min(most, count - len(records)))
        assert len(batch) <= most
        records += batch
    return records


def finish(source):
    """All records up to the end that `until_end` has set."""
    deadline = time.monotonic() + SECONDS
    records = []
    while not source.exhausted:
        assert time.monotonic() < deadline, "not exhausted"
        records += source.poll(0.2, 7)
    assert source.poll(0, 7) == []
    return records


def values(records):
    return [record.value for record in records]


def test_delivers_what_was_appended_in_order(log):
    for start in range(0, len(log.values), 9):
        log.append(log.values[start : start + 9])
    with log.open() as source:
        records = take(source, len(log.values))
        assert values(records) == log.values
        assert {record.partition for record in records} == {"0"}
        assert source.poll(0.1, 10) == []


def test_fresh_source_goes_on_where_another_stopped(log):
    log.append(log.values)
    for cut in [0, len(log.values), *RANDOM.sample(range(1, len(log.values)), 4)]:
        with log.open() as source:
            before = take(source, cut)
            positions = source.positions()
        with log.open() as source:
            source.seek(positions)
            assert source.positions() == positions
            assert values(before + take(source, len(log.values) - cut)) == log.values
            assert source.poll(0.1, 10) == []


def test_after_of_every_record_is_a_place_to_go_on(log):
    log.append(log.values[:8])
    with log.open() as source:
        records = take(source, 8)
        for number, record in enumerate(records):
            source.seek({record.partition: record.after})
            assert take(source, 7 - number) == records[number + 1 :]


def test_empty_log_is_no_error(log):
    with log.open() as source:
        began = time.monotonic()
        assert source.poll(0.3, 10) == []
        assert time.monotonic() - began < 2
        assert source.lag() == {"0": 0}
        source.until_end()
        assert source.exhausted
        assert source.poll(5, 10) == []


def test_until_end_is_the_end_at_the_call(log):
    log.append(log.values[:20])
    with log.open() as source:
        source.seek({})
        source.until_end()
        first = take(source, 5)
        log.append(log.values[20:])
        assert values(first + finish(source)) == log.values[:20]
        positions = source.positions()
    with log.open() as source:
        source.seek(positions)
        assert values(take(source, 20)) == log.values[20:]


def test_lag_is_the_number_of_records_to_come(log):
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
def test_latest_begins_after_what_is_there(log):
    log.append(log.values[:3])
    with log.open("latest") as source:
        source.seek({})
        assert source.lag() == {"0": 0}
        log.append(log.values[3:6])
        assert values(take(source, 3)) == log.values[3:6]


def test_position_that_the_log_has_not_reached_is_lost(log):
    log.append(log.values[:3])
    with log.open() as source:
        last = take(source, 3)[-1].after
        with pytest.raises(SourceLost):
            source.seek({"0": log.beyond(last)})


def test_close_twice(log):
    source = open_source(log.url, "earliest")
    source.close()
    source.close()


@pytest.mark.parametrize("log", LIVE, indirect=True)
def test_sink_carries_key_and_headers(log):
    with closing(open_sink(log.url)) as sink:
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
