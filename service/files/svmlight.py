"""svmlight text (`+1 3:0.5 7:1 # remark`): feature 3 is the column named "3".

Indices count from 1 and increase along a row, so a row has each slot at most once. Numbers keep the
file's digits if they are valid JSON.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from service.errors import SettingsError
from service.files.datafile import DataFile, Labels, check_names, number
from service.files.records import records

MAX_INDEX = 1 << 22
"""Largest index. Every index up to the file's largest is a declared column. Beyond this limit,
hashing is better.
"""

# Values without an exponent and with few digits are finite and valid JSON, so a row of such values
# is not checked value by value.
_VALUE = rb"[1-9]\d{0,6}:-?(?:0|[1-9]\d{0,99})(?:\.\d+)?"
PLAIN = re.compile(rb"%b(?: %b)*" % (_VALUE, _VALUE))
INDEX = re.compile(rb"(\d+):")
JSON_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


def scan(path: Path, *, label: str) -> DataFile:
    check_names(label)
    labels = Labels()
    spellings: set[bytes] = set()
    count = largest = 0
    for line, raw in records(path, "svmlight"):
        try:
            head, body = _split(raw)
            if head not in spellings:
                labels.see(msgspec.json.decode(_number(head)))
                if len(spellings) < 10_000:
                    spellings.add(head)
            largest = max(largest, _check(body))
        except ValueError as error:
            raise SettingsError(f"{path}:{line}: {error}") from error
        count += 1
    if not largest:
        what = "has no features" if count else "is empty"
        raise SettingsError(f"{path}: {what}; give rows such as `+1 1:0.5 7:1`")
    return DataFile(
        path,
        "svmlight",
        count,
        label,
        columns=tuple(map(str, range(1, largest + 1))),
        labels=labels.names,
        more_labels=labels.more,
        signs=frozenset(labels.signs),
    )


def converter(file: DataFile) -> Callable[[bytes], bytes]:
    """Make a function that converts a row which `scan` has accepted."""
    tail = b'},"' + msgspec.json.encode(file.label)[1:-1] + b'":'

    def event(raw: bytes) -> bytes:
        head, body = _split(raw)
        if PLAIN.fullmatch(body):
            features = b'"' + body.replace(b" ", b',"').replace(b":", b'":')
        else:
            pairs = (pair.split(b":") for pair in body.split())
            features = b",".join(
                b'"%d":%b' % (int(index), _number(value)) for index, value in pairs
            )
        return b'{"features":{' + features + tail + _number(head) + b"}"

    return event


def _split(raw: bytes) -> tuple[bytes, bytes]:
    """Split a row into its label and its pairs, which single spaces then separate."""
    head, *pairs = raw.partition(b"#")[0].split()
    if pairs and pairs[0].startswith(b"qid:"):
        del pairs[0]
    return head, b" ".join(pairs)


def _check(body: bytes) -> int:
    """Check a row and return its largest index."""
    plain = PLAIN.fullmatch(body)
    indices = (
        [int(i) for i in INDEX.findall(body)] if plain else [_index(pair) for pair in body.split()]
    )
    if not indices:
        return 0
    if indices[0] == 0:
        raise ValueError("index 0; indices count from 1")
    if sorted(set(indices)) != indices:
        raise ValueError("indices must increase along the row, each at most once")
    if indices[-1] > MAX_INDEX:
        raise ValueError(
            f"index {indices[-1]} is over {MAX_INDEX}; write JSON lines, whose features are hashed"
        )
    return indices[-1]


def _index(pair: bytes) -> int:
    index, colon, value = pair.partition(b":")
    if not colon or not index.isdigit():
        raise ValueError(f"{pair.decode(errors='replace')!r} is not index:value")
    _number(value)
    return int(index)


def _number(text: bytes) -> bytes:
    """Encode a number as JSON."""
    spelled = text.decode(errors="replace")
    value = number(spelled)
    if value is None:
        raise ValueError(f"{spelled!r} is not a number")
    if not math.isfinite(value):
        raise ValueError(f"{spelled!r} is not a finite number")
    return text if JSON_NUMBER.fullmatch(text) else repr(value).encode()
