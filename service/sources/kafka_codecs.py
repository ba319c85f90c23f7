"""Bounds what one compressed batch may grow to when kafka-python unpacks it: half a megabyte can hold a gigabyte.

The library unpacks whole batches without a limit and offers no place to set one, so its four decoders are replaced
where it looks them up. A batch beyond the bound fails as a corrupt one does.
"""

import io
import zlib

import lz4.frame  # type: ignore[import-untyped]
import snappy  # type: ignore[import-untyped]
import zstandard
from kafka.errors import CorruptRecordError  # type: ignore[import-untyped]
from kafka.record import default_records, legacy_records  # type: ignore[import-untyped]

MOST = 64 << 20
"""Bytes; 64 times the largest batch that a broker takes unless told otherwise."""
XERIAL = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16


def bound() -> None:
    for module in (default_records, legacy_records):
        module.gzip_decode = _gzip
        module.snappy_decode = _snappy
        module.lz4_decode = _lz4
    default_records.zstd_decode = _zstd


def _checked(unpacked: bytes) -> bytes:
    if len(unpacked) > MOST:
        raise CorruptRecordError(f"a compressed batch is larger than {MOST >> 20} MiB when unpacked")
    return unpacked


def _gzip(packed: bytes) -> bytes:
    unpacked = b""
    left = bytes(packed)
    while left:  # one member after the other
        member = zlib.decompressobj(wbits=31)
        unpacked = _checked(unpacked + member.decompress(left, MOST + 1 - len(unpacked)))
        if not member.eof:
            raise CorruptRecordError("a gzip batch is cut short")
        left = member.unused_data
    return unpacked


def _lz4(packed: bytes) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    unpacked = _checked(frame.decompress(packed, max_length=MOST + 1))
    if not frame.eof:
        raise CorruptRecordError("an lz4 batch is cut short")
    return unpacked


def _zstd(packed: bytes) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=MOST)
    with unpacker.stream_reader(io.BytesIO(packed), read_across_frames=True) as stream:
        return _checked(stream.read(MOST + 1))


def _snappy(packed: bytes) -> bytes:
    if not packed.startswith(XERIAL):
        return _snappy_block(packed, 0)
    unpacked = bytearray()
    at = XERIAL_HEADER
    while at < len(packed):
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        unpacked += _snappy_block(packed[at + 4 : end], len(unpacked))
        at = end
    return bytes(unpacked)


def _snappy_block(block: bytes, before: int) -> bytes:
    """A block begins with its unpacked length, seven bits a byte, the lowest first."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if before + length > MOST:
        raise CorruptRecordError(f"a compressed batch is larger than {MOST >> 20} MiB when unpacked")
    return bytes(snappy.decompress(block))
