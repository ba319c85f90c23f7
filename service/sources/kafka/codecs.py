"""Limit the memory for compressed batches in kafka-python: half a megabyte can hold a gigabyte.

The library unpacks whole batches without a limit and has no setting for one. So `install` replaces
its four decoders. A batch beyond the limit fails like a corrupt one. So does a record with more
headers than anybody writes: each header takes two bytes in the log and 64 in memory. Many batches
within the limit must not add up either, so one poll unpacks only about as much as one batch may
have.
"""

import io
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import lz4.frame  # type: ignore[import-untyped]
import snappy  # type: ignore[import-untyped]
import zstandard
from kafka.errors import CorruptRecordError  # type: ignore[import-untyped]
from kafka.record import default_records, legacy_records  # type: ignore[import-untyped]
from kafka.record.util import decode_varint  # type: ignore[import-untyped]

MOST = 64 << 20
"""Bytes of an unpacked batch: 64 times a broker's default limit for a packed one."""
PIECE = 1 << 20
TOO_LARGE = f"a compressed batch is larger than {MOST >> 20} MiB when unpacked"
MOST_HEADERS = 1_000
"""Headers of one record."""
XERIAL = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16


_thread = threading.local()
# The library's own reader, which sees each record first.
_read_record = default_records.DefaultRecordBatch._read_msg  # noqa: SLF001


class AllowanceError(Exception):
    """This poll has unpacked enough. The rest must be fetched again."""


class Allowance:
    """What one poll may unpack: at least two batches, so that every poll advances."""

    def __init__(self) -> None:
        self._left = MOST + 1
        self.refused = False
        """Whether a batch was left packed. The consumer that met it cannot be used any more."""

    def check(self) -> None:
        if self._left <= 0:
            self.refused = True
            raise AllowanceError

    def take(self, size: int) -> None:
        self._left -= size


@contextmanager
def allowance() -> Iterator[Allowance]:
    """Limit what this thread unpacks inside the block."""
    _thread.allowance = Allowance()
    try:
        yield _thread.allowance
    finally:
        _thread.allowance = None


def install() -> None:
    """Replace the decoders of kafka-python by limited ones."""
    default_records.DefaultRecordBatch._read_msg = _read_bounded  # noqa: SLF001
    for module in (default_records, legacy_records):
        module.gzip_decode = _gzip
        module.snappy_decode = _snappy
        module.lz4_decode = _lz4
    default_records.zstd_decode = _zstd


def _read_bounded(batch: Any) -> Any:
    """Check the number of headers of one record, then read it as the library does."""
    data = batch._buffer  # noqa: SLF001
    length, at = decode_varint(data, batch._pos)  # noqa: SLF001
    if length > 2 * MOST_HEADERS:  # a shorter record has no room for more headers
        for _ in ("attributes", "time", "offset"):
            _, at = decode_varint(data, at)
        for _ in ("key", "value"):
            size, at = decode_varint(data, at)
            at += max(0, size)
        headers, _ = decode_varint(data, at)
        if headers > MOST_HEADERS:
            raise CorruptRecordError(f"a record has {headers:,} headers, over {MOST_HEADERS:,}")
    return _read_record(batch)


def _join(pieces: Iterable[bytes]) -> bytearray:
    """Join the pieces, up to the limit."""
    allowed: Allowance | None = getattr(_thread, "allowance", None)
    if allowed is not None:
        allowed.check()
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > MOST:
            raise CorruptRecordError(TOO_LARGE)
    if allowed is not None:
        allowed.take(len(whole))
    return whole


def _gzip(packed: bytes) -> bytearray:
    return _join(_gzip_pieces(bytes(packed)))


def _gzip_pieces(left: bytes) -> Iterator[bytes]:
    while left:  # gzip data can have several members
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = member.decompress(left, PIECE)
            if not piece and not member.eof:
                raise CorruptRecordError("a gzip batch is cut short")
            yield piece
            left = member.unconsumed_tail
        left = member.unused_data


def _lz4(packed: bytes) -> bytearray:
    return _join(_lz4_pieces(packed))


def _lz4_pieces(left: bytes) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    while not frame.eof:
        piece = frame.decompress(left, max_length=PIECE)
        if not piece and frame.needs_input:
            raise CorruptRecordError("an lz4 batch is cut short")
        yield piece
        left = b""  # the decompressor keeps what it has not unpacked yet


def _zstd(packed: bytes) -> bytearray:
    unpacker = zstandard.ZstdDecompressor(max_window_size=MOST)
    with unpacker.stream_reader(io.BytesIO(packed), read_across_frames=True) as stream:
        return _join(iter(lambda: stream.read(PIECE), b""))


def _snappy(packed: bytes) -> bytearray:
    return _join(_snappy_blocks(packed))


def _snappy_blocks(packed: bytes) -> Iterator[bytes]:
    if not packed.startswith(XERIAL):
        yield _snappy_block(packed)
        return
    at = XERIAL_HEADER
    while at < len(packed):
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        yield _snappy_block(packed[at + 4 : end])
        at = end


def _snappy_block(block: bytes) -> bytes:
    """Unpack a block. It begins with its unpacked length, seven bits per byte, lowest first."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > MOST:
        raise CorruptRecordError(TOO_LARGE)
    return bytes(snappy.decompress(block))
