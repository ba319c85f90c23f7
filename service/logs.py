"""The log of a process on stderr: as JSON where a machine reads it, without secrets, and without floods.

Invariant: a line holds the allowed fields and nothing else, is one line whatever was logged, and no pattern or known
value of a secret is in it.
"""

import json
import logging
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

FIELDS = ("request_id", "key", "route", "status", "ms")
"""What a message may carry beside its words."""
LONGEST = 4096
LONGEST_TRACE = 16_384
MINUTE = 60.0
MOST = 20
"""The same line in a minute; further ones are counted, and the next line that is let through says how many."""
MESSAGES = 256
"""Lines that are counted at the same time."""
SHORTEST_SECRET = 4
"""A shorter value is not looked for: it would be found in ordinary words."""

PATTERNS = (
    (re.compile(r"\bop_[A-Za-z0-9_-]{16,}"), "op_***"),
    (re.compile(r"\b(bearer|basic)\s+[^\s\"',]+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"//[^\s\"']*@"), "//***@"),
    (re.compile(r"\b(password|passwd|secret)=[^\s&,;\"']+", re.IGNORECASE), r"\1=***"),
    (re.compile(r"([\"'](?:[\w.]*password|passwd|secret)[\"']\s*:\s*[\"'])[^\"']*", re.IGNORECASE), r"\1***"),
)
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What could end a line, move a cursor, or turn text around."""

_known: set[str] = set()


def hide(settings: BaseModel) -> None:
    """From now on no password of these settings is logged, whoever repeats it."""
    _known.update(secret for secret in _secrets(settings) if len(secret) >= SHORTEST_SECRET)


def _secrets(group: BaseModel) -> Iterator[str]:
    for name in type(group).model_fields:
        value = getattr(group, name)
        if isinstance(value, BaseModel):
            yield from _secrets(value)
        elif isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif isinstance(value, Path) and name == "password_file":
            yield from _first_line(value)
        elif isinstance(value, str) and "://" in value:
            yield from _url_password(value)


def _first_line(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()[:1]
    except (OSError, UnicodeDecodeError):
        return []  # whoever needs it says so


def _url_password(url: str) -> list[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return []
    return [password, unquote(password)] if password else []


def redacted(text: str) -> str:
    for secret in _known:
        text = text.replace(secret, "***")
    for pattern, instead in PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _escaped(text: str) -> str:
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Line(logging.Formatter):
    """One message as one line."""

    def __init__(self, *, structured: bool) -> None:
        super().__init__()
        self._structured = structured

    def format(self, record: logging.LogRecord) -> str:
        message = redacted(record.getMessage())[:LONGEST]
        if more := getattr(record, "more", 0):
            message += f" (and {more:,} more)"
        trace = redacted(self.formatException(record.exc_info))[-LONGEST_TRACE:] if record.exc_info else ""
        moment = datetime.fromtimestamp(record.created, UTC)
        if not self._structured:
            line = (
                f"{moment.astimezone():%Y-%m-%d %H:%M:%S},{record.msecs:03.0f} {record.levelname} {_escaped(message)}"
            )
            return "\n".join([line, *map(_escaped, trace.splitlines())])
        said: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _escaped(message),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                said[name] = _escaped(redacted(value)) if isinstance(value, str) else value
        if trace:
            said["trace"] = list(map(_escaped, trace.splitlines()))
        return json.dumps(said, ensure_ascii=False)


class Calm(logging.Filter):
    """Lets a repeated line through `MOST` times a minute; lines that differ in their values alone are the same."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, int, str], list[float]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        words = str(record.msg)
        key = (record.name, record.levelno, record.getMessage() if words == "%s" else words)
        now = time.monotonic()
        with self._lock:
            began, count = self._seen.setdefault(key, [now, 0])
            self._seen.move_to_end(key)
            if len(self._seen) > MESSAGES:
                self._seen.popitem(last=False)
            if now - began >= MINUTE:
                record.more = max(0, int(count) - MOST)
                began, count = now, 0
            self._seen[key] = [began, count + 1]
        return count < MOST


def set_up(*, structured: bool, stream: TextIO | None = None) -> None:
    """The handler of every logger; where others have set one, as a test does, theirs stays."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Line(structured=structured))
    handler.addFilter(Calm())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it logs every refused reconnect; the worker says it once
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what it would say, the service says itself
