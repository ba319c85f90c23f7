"""Damage a topic's file on the broker's disk in place: a broker reads a batch without
checking it.
"""

import struct
import zlib
from pathlib import Path

import crc32c
import lz4.frame
import pytest
import snappy
import zstandard
from kafka import KafkaAdminClient
from kafka.record.util import encode_varint

ATTRIBUTES = 21
CRC = 17
HEADER = struct.Struct(">qiibIhiqqqhii")
AROUND_VALUE = 72
"""Bytes that an uncompressed batch of one record adds to its value, for values from 8
KiB to 1 MiB.
"""
AROUND_SMALL = 70
"""Bytes that it adds to a value between 64 bytes and 8 KiB."""
MIB = b"\0" * (1 << 20)
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def segment(bootstrap, topic, partition=0):
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        folder = Path(admin.describe_log_dirs()[0]["log_dirs"][0]["log_dir"])
    path = folder / f"{topic}-{partition}" / f"{0:020}.log"
    if not path.exists():
        pytest.skip("the broker's files are not on this machine")
    return path


def batch_at(data, number):
    """Return where batch `number`, counted from 0, begins and ends."""
    start = 0
    for _ in range(number):
        start += 12 + struct.unpack_from(">i", data, start + 8)[0]
    return start, start + 12 + struct.unpack_from(">i", data, start + 8)[0]


def batch_of(path, offset):
    """Return the number of the batch that begins with this offset."""
    data = path.read_bytes()
    number = 0
    while struct.unpack_from(">q", data, batch_at(data, number)[0])[0] != offset:
        number += 1
    return number


def spoil(path, number):
    """Flip a bit of the batch, so that its checksum fails."""
    data = bytearray(path.read_bytes())
    _, end = batch_at(data, number)
    data[end - 2] ^= 1
    write(path, data)


def set_codec(path, number, codec):
    """Declare another compression, with a checksum that fits."""
    data = bytearray(path.read_bytes())
    start, end = batch_at(data, number)
    data[start + ATTRIBUTES + 1] = codec
    struct.pack_into(">I", data, start + CRC, crc32c.crc32c(bytes(data[start + ATTRIBUTES : end])))
    write(path, data)


def plant(path, number, batch):
    """Overwrite a batch with another one of the same size."""
    data = bytearray(path.read_bytes())
    start, end = batch_at(data, number)
    assert end - start == len(batch)
    data[start:end] = batch
    write(path, data)


def write(path, data):
    with path.open("r+b") as file:
        file.write(data)


def bomb(codec, mib, offset):
    """Return a batch of one record of `mib` MiB of zeros."""
    return packed_batch(codec, list(_record(mib << 20)), offset)


def header_bomb(codec, headers, offset):
    """Return a batch of one record with this many headers, each of an empty name and no value."""
    inner, length, number = bytearray(), bytearray(), bytearray()
    for part in (0, 0, 0, -1, 0):  # attributes, time, offset, no key, empty value
        encode_varint(part, inner.append)
    encode_varint(headers, inner.append)
    encode_varint(-1, number.append)
    every = b"\0" + bytes(number)
    encode_varint(len(inner) + headers * len(every), length.append)
    return packed_batch(codec, [bytes(length + inner), every * headers], offset)


def filler(batch):
    """Return a value whose uncompressed batch is as large as `batch`, which can then
    overwrite it.
    """
    value = len(batch) - AROUND_VALUE
    return b"\1" * (value if value >= 8 << 10 else len(batch) - AROUND_SMALL)


def packed_batch(codec, chunks, offset):
    packed = b"".join(_pack(codec, chunks))
    times = (1_700_000_000_000, 1_700_000_000_000)
    head = HEADER.pack(
        offset, HEADER.size - 12 + len(packed), 0, 2, 0, codec, 0, *times, -1, -1, -1, 1
    )
    batch = bytearray(head + packed)
    struct.pack_into(">I", batch, CRC, crc32c.crc32c(bytes(batch[ATTRIBUTES:])))
    return bytes(batch)


def _record(size):
    inner = bytearray()
    for number in (0, 0, 0, -1, size):  # attributes, time, offset, no key, length of the value
        encode_varint(number, inner.append)
    length = bytearray()
    encode_varint(len(inner) + size + 1, length.append)
    yield bytes(length + inner)
    for _ in range(size >> 20):
        yield MIB
    yield b"\0"  # no headers


def _pack(codec, chunks):
    if codec == SNAPPY:
        yield b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
        for chunk in chunks:
            block = snappy.compress(chunk)
            yield struct.pack(">i", len(block)) + block
        return
    if codec == LZ4:
        packer = lz4.frame.LZ4FrameCompressor(
            block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB
        )
        yield packer.begin()
    elif codec == ZSTD:
        packer = zstandard.ZstdCompressor().compressobj()
    else:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()
