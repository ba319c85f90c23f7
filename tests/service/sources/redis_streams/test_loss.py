"""Entries that a Redis stream loses before they are read are noticed before any later entry is
delivered.
"""

import subprocess
import sys
from contextlib import closing

import pytest
from redis import Redis

from service.embedded.redis import RedisServer
from service.sources import open_source
from service.sources.base import Bookmark, Gap, Options, SourceLostError
from service.sources.redis_streams.anchors import MARK
from tests.service.sources.polling import finish, take, values
from tests.waiting import wait_for

MEGABYTE = 1 << 20


@pytest.fixture(scope="module", params=["Redis 6.2", "Redis 7"])
def server(request, tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"), appendonly=False)
    if request.param == "Redis 7":
        server.command = (request.getfixturevalue("system_redis"), *server.command[1:])
    server.start()
    yield server
    server.stop()


@pytest.fixture
def stream(server):
    with closing(Stream(server.url)) as stream:
        stream.client.flushdb()
        yield stream


class Stream:
    def __init__(self, url):
        self.url = f"{url}/events"
        self.client = Redis.from_url(url)
        self.close = self.client.close

    @property
    def counts(self):
        """Whether the server knows how many entries the stream ever had."""
        return int(self.client.info("server")["redis_version"].partition(".")[0]) >= 7

    def add(self, first, end, keep=None, **fields):
        """Add entries with their numbers as ids, all at once."""
        with self.client.pipeline(transaction=True) as pipe:
            for number in range(first, end):
                value = {"value": b"%d" % number, **fields}
                pipe.xadd("events", value, f"{number}-0", maxlen=keep, approximate=False)
            pipe.execute()

    def trim(self, first):
        self.client.xtrim("events", minid=f"{first}-0", approximate=False)

    def open(self, on_data_loss="fail", start="earliest"):
        return closing(open_source(self.url, start, Options(on_data_loss=on_data_loss)))


def numbers(records):
    return [int(value) for value in values(records)]


def read_until_lost(source):
    """Return the delivered numbers and the text of the loss."""
    found = []

    def lost():
        try:
            found.extend(numbers(source.poll(0.1, 500)))
        except SourceLostError as error:
            return str(error)
        return None

    return found, wait_for(lost, "that a loss is noticed")


def test_a_burst_that_trims_unread_entries_is_noticed(stream):
    stream.add(1, 501)
    with stream.open() as source:
        take(source, 500, most=500)
        assert source.poll(0.01, 500) == []
        stream.add(501, 20_501, keep=2_000)
        found, why = read_until_lost(source)
    assert found == []
    assert "500-0" in why
    assert ("18000 entries" if stream.counts else "some entries") in why


@pytest.mark.parametrize("on_data_loss", ["earliest", "latest"])
def test_the_policy_records_the_gap_before_later_entries(stream, on_data_loss):
    stream.add(1, 501)
    with stream.open(on_data_loss) as source:
        take(source, 500, most=500)
        stream.add(501, 20_501, keep=2_000)
        assert source.poll(1.0, 500) == []
        end, left = ("18501-0", 2_000) if on_data_loss == "earliest" else ("20500-0", 0)
        exact = 20_000 - left if stream.counts else 20_000 - 18_000 - left
        assert source.gaps() == [Gap("0", "500-0", end, exact, "retention")]
        stream.add(20_501, 20_511, keep=2_100)
        assert numbers(take(source, left + 10, most=500)) == [*range(20_501 - left, 20_511)]
        assert source.gaps() == []


def test_a_trim_in_the_middle_of_a_backlog_is_noticed(stream):
    stream.add(1, 2_001)
    with stream.open() as source:
        assert numbers(take(source, 100, most=100)) == [*range(1, 101)]
        stream.trim(300)
        found, why = read_until_lost(source)
    assert found == []
    assert ("199 entries" if stream.counts else "entries behind it were trimmed") in why


def test_a_trim_before_a_restart_is_noticed(stream):
    stream.add(1, 11)
    with stream.open() as source:
        take(source, 10)
        bookmark = source.bookmark()
    stream.add(11, 101, keep=20)
    with (
        stream.open() as source,
        pytest.raises(SourceLostError, match="entries behind it were trimmed"),
    ):
        source.seek(bookmark)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_trim_before_the_first_read_is_noticed(stream, start):
    stream.add(1, 11)
    with stream.open(start=start) as source:
        stream.add(11, 101, keep=20)
        found, _ = read_until_lost(source)
    assert found == []


def test_a_trim_before_the_source_opens_is_no_loss(stream):
    stream.add(1, 101, keep=20)
    with stream.open() as source:
        assert numbers(take(source, 20)) == [*range(81, 101)]
        assert source.gaps() == []


def test_a_trim_of_entries_already_read_is_no_loss(stream):
    stream.add(1, 101)
    with stream.open() as source:
        take(source, 60)
        stream.trim(60)
        assert numbers(take(source, 20)) == [*range(61, 81)]
        source.lag()
        stream.trim(81)  # the position is trimmed, too
        assert numbers(take(source, 20)) == [*range(81, 101)]
        stream.client.xtrim("events", maxlen=0, approximate=False)
        assert source.poll(0.01, 10) == []
        assert source.lag() == {"0": 0}
        assert source.gaps() == []


def test_a_trimmed_end_is_noticed(stream):
    stream.add(1, 101)
    with stream.open() as source:
        take(source, 10)
        source.stop_at_end()
        stream.add(101, 301, keep=100)
        with pytest.raises(SourceLostError):
            finish(source)


def test_a_stream_recreated_with_larger_ids_is_noticed(stream):
    stream.add(1, 101)
    with stream.open() as source:
        take(source, 50)
        stream.client.delete("events")
        stream.add(1_000, 1_100)
        found, _ = read_until_lost(source)
    assert found == []


# An older dump that was restored and grew again.


@pytest.mark.parametrize("read", [300, 501, 502, 900, 1_000])
def test_a_restored_dump_that_grew_again_is_noticed(stream, read):
    stream.add(1, 501)
    dump = stream.client.dump("events")
    stream.add(501, 1_001)
    with stream.open() as source:
        take(source, read, most=500)
        while source.lag() != {"0": 1_000 - read}:
            pass
        stream.client.restore("events", 0, dump, replace=True)
        stream.add(1_001, 1_701)
        found, _ = read_until_lost(source)
    assert found == [*range(read + 1, 501)][: len(found)]


def test_a_dump_restored_before_a_restart_is_noticed(stream):
    stream.add(1, 501)
    dump = stream.client.dump("events")
    stream.add(501, 1_001)
    with stream.open() as source:
        take(source, 900, most=500)
        bookmark = source.bookmark()
    stream.client.restore("events", 0, dump, replace=True)
    stream.add(1_001, 1_701)
    with stream.open() as source, pytest.raises(SourceLostError, match="older dump"):
        source.seek(bookmark)
    with stream.open("latest") as source:
        source.seek(bookmark)
        assert source.gaps() == [Gap("0", "900-0", "1700-0", 0, "truncated")]


# Entries deleted on purpose.


def test_deleted_entries_are_skipped(stream):
    stream.add(1, 101)
    with stream.open() as source:
        take(source, 50)
        assert source.lag() == {"0": 50}
        stream.client.xdel("events", "50-0", "60-0", "61-0", "62-0")
        expected = [number for number in range(51, 101) if number not in (60, 61, 62)]
        assert numbers(take(source, len(expected))) == expected
        assert source.lag() == {"0": 0}
        stream.add(101, 111)
        assert numbers(take(source, 10)) == [*range(101, 111)]
        assert source.gaps() == []


def test_a_deleted_last_entry_is_skipped(stream):
    stream.add(1, 101)
    with stream.open() as source:
        take(source, 50)
        assert source.lag() == {"0": 50}
        stream.client.xdel("events", "100-0")
        stream.add(101, 103)
        assert numbers(take(source, 51)) == [*range(51, 100), 101, 102]
        assert source.gaps() == []


# Bookmarks of earlier versions.


@pytest.mark.parametrize("fields", [0, 4, 6])
def test_an_old_bookmark_is_read(stream, fields):
    stream.add(1, 101)
    with stream.open() as source:
        take(source, 50)
        source.lag()
        bookmark = source.bookmark()
    mark = bookmark.marks["0"]
    assert MARK.fullmatch(mark)
    assert mark.count(":") == 5
    old = Bookmark(bookmark.positions, {"0": ":".join(mark.split(":")[:fields])} if fields else {})
    with stream.open() as source:
        source.seek(old)
        assert numbers(take(source, 50)) == [*range(51, 101)]
    stream.trim(70)
    with stream.open() as source:
        if fields:
            with pytest.raises(SourceLostError, match="19 entries"):
                source.seek(old)
        else:  # only the position is known of the stream
            source.seek(old)
            assert len(take(source, 31)) == 31


def test_the_golden_mark_of_the_first_version_is_read(stream):
    """A version without a second anchor wrote it."""
    stream.add(1, 101)
    golden = Bookmark({"0": "50-0"}, {"0": "464246691:50:100-0:"})
    with stream.open() as source:
        source.seek(golden)
        assert numbers(take(source, 50)) == [*range(51, 101)]
        wrong = Bookmark(golden.positions, {"0": "464246692:50:100-0:"})
        with pytest.raises(SourceLostError, match="another stream"):
            source.seek(wrong)


# Sizes.


@pytest.mark.parametrize("small", [0, 300])
def test_a_poll_is_bounded_in_bytes(stream, small):
    stream.add(1, small + 1)
    stream.add(small + 1, small + 41, filler=bytes(MEGABYTE))
    found = []
    with stream.open() as source:
        sizes = []
        while len(found) < small + 40:
            records = source.poll(0.2, 500)
            found += numbers(records)
            sizes.append(len([record for record in records if int(record.value) > small]))
        assert source.lag() == {"0": 0}
    assert found == [*range(1, small + 41)]
    if not small:
        assert max(sizes) == 8


def test_an_entry_too_large_for_the_memory_is_named(stream):
    stream.add(1, 4)
    stream.client.xadd("events", {"value": bytes(48 * MEGABYTE)}, "4-0")
    program = (
        "import resource, sys\n"
        "from contextlib import closing\n"
        "from service.sources import open_source\n"
        "from service.sources.base import SourceUnavailableError\n"
        "with closing(open_source(sys.argv[1], 'earliest')) as source:\n"
        "    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20), used + (40 << 20)))\n"
        "    while True:\n"
        "        try:\n"
        "            print([record.position for record in source.poll(0.1, 500)], flush=True)\n"
        "        except SourceUnavailableError as error:\n"
        "            sys.exit(str(error))\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, stream.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "4-0 of 50,331,653 bytes" in done.stderr, done.stderr
    assert "XDEL events 4-0" in done.stderr
    assert "1-0" in done.stdout
