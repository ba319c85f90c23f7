"""Bounds what one compressed batch may grow to when kafka-python unpacks it: half a megabyte can hold a gigabyte.

The library unpacks whole batches without a limit and offers no place to set one, so its four decoders are replaced
where it looks them up. A batch beyond the bound fails as a corrupt one does.
"""

import io
import zlib
from collections.abc import Iterable, Iterator

import lz4.frame  # type: ignore[import-untyped]
import snappy  # type: ignore[import-untyped]
import zstandard
from kafka.errors import CorruptRecordError  # type: ignore[import-untyped]
from kafka.record import default_records, legacy_records  # type: ignore[import-untyped]

MOST = 64 << 20
"""Bytes; 64 times the largest batch that a broker takes unless told otherwise."""
PIECE = 1 << 20
TOO_LARGE = f"a compressed batch is larger than {MOST >> 20} MiB when unpacked"
XERIAL = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16


def bound() -> None:
    for module in (default_records, legacy_records):
        module.gzip_decode = _gzip
        module.snappy_decode = _snappy
        module.lz4_decode = _lz4
    default_records.zstd_decode = _zstd


def _joined(pieces: Iterable[bytes]) -> bytearray:
    """All pieces, as long as they are within the bound."""
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > MOST:
            raise CorruptRecordError(TOO_LARGE)
    return whole


def _gzip(packed: bytes) -> bytearray:
    return _joined(_gunzipped(bytes(packed)))


def _gunzipped(left: bytes) -> Iterator[bytes]:
    while left:  # one member after the other
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = member.decompress(left, PIECE)
            if not piece and not member.eof:
                raise CorruptRecordError("a gzip batch is cut short")
            yield piece
            left = member.unconsumed_tail
        left = member.unused_data


def _lz4(packed: bytes) -> bytearray:
    return _joined(_lz4_pieces(packed))


def _lz4_pieces(left: bytes) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    while not frame.eof:
        piece = frame.decompress(left, max_length=PIECE)
        if not piece and frame.needs_input:
            raise CorruptRecordError("an lz4 batch is cut short")
        yield piece
        left = b""  # it keeps what it has not unpacked yet


def _zstd(packed: bytes) -> bytearray:
    unpacker = zstandard.ZstdDecompressor(max_window_size=MOST)
    with unpacker.stream_reader(io.BytesIO(packed), read_across_frames=True) as stream:
        return _joined(iter(lambda: stream.read(PIECE), b""))


def _snappy(packed: bytes) -> bytearray:
    return _joined(_snappy_blocks(packed) if packed.startswith(XERIAL) else [_snappy_block(packed)])


def _snappy_blocks(packed: bytes) -> Iterator[bytes]:
    at = XERIAL_HEADER
    while at < len(packed):
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        yield _snappy_block(packed[at + 4 : end])
        at = end


def _snappy_block(block: bytes) -> bytes:
    """A block begins with its unpacked length, seven bits a byte, the lowest first."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > MOST:
        raise CorruptRecordError(TOO_LARGE)
    return bytes(snappy.decompress(block))
