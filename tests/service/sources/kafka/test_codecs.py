"""Compressed batches: every codec is read, and a batch that unpacks to far more than a broker
accepts takes no memory.
"""

import json
import os
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.errors import CorruptRecordError
from kafka.record import default_records

from service.sources import open_sink, open_source
from service.sources.base import Entry, Options
from service.sources.kafka import bad_batches as kafka_batches
from tests.chaos.kafka_files import (
    GZIP,
    LZ4,
    MIB,
    SNAPPY,
    ZSTD,
    bomb,
    filler,
    header_bomb,
    plant,
    segment,
)
from tests.chaos.scale import CHAOS
from tests.looped import looped
from tests.service.sources.polling import take, values

ROOT = Path(__file__).parents[4]
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
READER = """
import json, sys, time
from service.sources import open_source
from service.sources.base import Options

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))

source = open_source(sys.argv[1], "earliest", Options(on_data_loss="earliest"))
before, began = peak(), time.monotonic()
source.stop_at_end()
values = []
while not source.at_end and time.monotonic() < began + 120:
    values += [record.value[:9].decode() for record in source.poll(0.2, 500)]
gaps = [list(gap) for gap in source.gaps()]
print(json.dumps([values, gaps, peak() - before]))
"""


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(topic, client, codec):
    bootstrap, name = topic.removeprefix("kafka://").split("/")
    sent = [os.urandom(50) * 100 for _ in range(50)]
    with KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, linger_ms=50
    ) as producer:
        for value in sent:
            producer.send(name, value)
    with closing(open_source(topic, "earliest", Options(client=client))) as source:
        assert values(take(source, 50)) == sent


BOMBS = [("gzip", 512 if CHAOS else 300), ("lz4", 200), ("zstd", 1024 if CHAOS else 400)]
BATCHES = 16 if CHAOS else 10
"""Batches of 60 MiB each: together far beyond the bound."""


@pytest.mark.parametrize(("codec", "mib"), BOMBS)
def test_a_batch_that_unpacks_beyond_the_bound_is_skipped_in_flat_memory(topic, codec, mib):
    read, gaps, grown = read_around(topic, [bomb(CODECS[codec], mib, 1)])
    assert read == ["before", "behind"]
    assert gaps == [["0", "1", "2", 1, "corrupt"]]
    assert grown < 200, f"{grown} MiB more for a batch that may unpack to 64"


def test_memory_does_not_grow_with_the_number_of_batches(topic):
    """A fetch of one megabyte holds more than a hundred of them, and a client once unpacked all of
    one poll at the same time.
    """
    one = bomb(ZSTD, 60, 1)
    batches = [struct.pack(">q", 1 + number) + one[8:] for number in range(BATCHES)]
    read, gaps, grown = read_around(topic, batches)
    assert read == ["before", *["\0" * 9] * BATCHES, "behind"]
    assert gaps == []
    assert grown < 500, f"{grown} MiB more for {BATCHES} batches that unpack to 60 each"


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_with_millions_of_headers_is_skipped(topic, codec):
    """Each header takes two bytes in the batch and 64 in the memory of the client."""
    headers = (4 if codec == "snappy" else 16) << 20
    read, gaps, grown = read_around(topic, [header_bomb(CODECS[codec], headers, 1)])
    assert read == ["before", "behind"]
    assert gaps == [["0", "1", "2", 1, "corrupt"]]
    assert grown < 200, f"{grown} MiB more for {headers >> 20} million headers"


def read_around(topic, batches):
    """Write these batches between two records, read all in another process, and return its values,
    its gaps and its growth in MiB.
    """
    bootstrap, name = topic.removeprefix("kafka://").split("/")
    assert max(map(len, batches)) < 1 << 20
    with closing(open_sink(topic)) as sink:
        for value in (b"before", *map(filler, batches), b"behind"):
            sink.append([Entry(value)])
    for place, batch in enumerate(batches, 1):
        plant(segment(bootstrap, name), place, batch)
    command = [sys.executable, "-W", "ignore", "-c", READER, topic]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


@looped(
    ("codec", "packed"),
    [
        ("gzip", b""),
        ("lz4", b""),
        ("zstd", b""),
        ("snappy", b"\xff\xff\xff\xff\x07" + b"\0" * 50),  # a block that claims 2 GiB
    ],
)
def test_a_batch_that_unpacks_beyond_the_bound_is_corrupt(codec, packed):
    assert kafka_batches.FETCH_BYTES  # the import sets the bound
    decode = getattr(default_records, f"{codec}_decode")
    packed = (
        packed
        or bomb(CODECS[codec], 65, 0)[default_records.DefaultRecordBatch.HEADER_STRUCT.size :]
    )
    with pytest.raises(CorruptRecordError, match="larger than 64 MiB"):
        decode(packed)


@looped("codec", CODECS)
def test_a_batch_that_unpacks_within_the_bound_is_read_whole(codec):
    decode = getattr(default_records, f"{codec}_decode")
    packed = bomb(CODECS[codec], 3, 0)[default_records.DefaultRecordBatch.HEADER_STRUCT.size :]
    assert MIB * 3 in bytes(decode(packed))


@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_a_truncated_batch_is_corrupt(codec):
    packed = bomb(CODECS[codec], 3, 0)[default_records.DefaultRecordBatch.HEADER_STRUCT.size :]
    with pytest.raises(CorruptRecordError, match="cut short"):
        getattr(default_records, f"{codec}_decode")(packed[:-9])
