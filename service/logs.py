"""Logging to stderr: JSON if no terminal reads it, without secrets and without floods.

Invariant: a message is one line with only the allowed fields. It holds neither a known secret nor
a text that looks like one.
"""

import json
import logging
import re
import sys
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

FIELDS = ("request_id", "key", "route", "status", "ms")
"""Extra fields that a log record may carry."""
LONGEST = 4096
"""Characters of a message."""
LONGEST_TRACE = 16_384
"""Characters of a stack trace."""
MINUTE = 60.0
MOST = 20
"""Equal lines per minute. More are counted, and the first line of a later minute says how many."""
MESSAGES = 256
"""Different lines that are counted at the same time."""
SHORTEST_SECRET = 4
"""Characters: a shorter secret is not searched for, because ordinary words contain it."""

PATTERNS = (
    (re.compile(r"\bop_[A-Za-z0-9_-]{16,}"), "op_***"),
    (re.compile(r"\b(bearer|basic)\s+[^\s\"',]+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"//[^\s\"']*@"), "//***@"),
    (re.compile(r"\b(password|passwd|secret)=[^\s&,;\"']+", re.IGNORECASE), r"\1=***"),
    (
        re.compile(
            r"([\"'](?:[\w.]*password|passwd|secret)[\"']\s*:\s*[\"'])[^\"']*", re.IGNORECASE
        ),
        r"\1***",
    ),
)
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that could end a line, move the cursor or reverse text."""

_known: set[str] = set()


def register_secrets(settings: BaseModel) -> None:
    """Hide the passwords of these settings in every later log line."""
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
        return []  # the code that needs the file reports the error


def _url_password(url: str) -> list[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return []
    return [password, unquote(password)] if password else []


def redact(text: str) -> str:
    for secret in _known:
        text = text.replace(secret, "***")
    for pattern, instead in PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _escape(text: str) -> str:
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class LogFormatter(logging.Formatter):
    """Format a log record as one line."""

    def __init__(self, *, structured: bool) -> None:
        super().__init__()
        self._structured = structured

    def format(self, record: logging.LogRecord) -> str:
        message = redact(record.getMessage())[:LONGEST]
        if more := getattr(record, "more", 0):
            message += f" (and {more:,} more)"
        trace = ""
        if record.exc_info:
            trace = redact(self.formatException(record.exc_info))[-LONGEST_TRACE:]
        moment = datetime.fromtimestamp(record.created, UTC)
        if not self._structured:
            clock = f"{moment.astimezone():%Y-%m-%d %H:%M:%S},{record.msecs:03.0f}"
            line = f"{clock} {record.levelname} {_escape(message)}"
            return "\n".join([line, *map(_escape, trace.splitlines())])
        fields: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _escape(message),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                fields[name] = _escape(redact(value)) if isinstance(value, str) else value
        if trace:
            fields["trace"] = list(map(_escape, trace.splitlines()))
        return json.dumps(fields, ensure_ascii=False)


class RepeatFilter(logging.Filter):
    """Pass a repeated line `MOST` times a minute; lines with other values count as equal."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, int, str], list[float]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        template = str(record.msg)
        key = (record.name, record.levelno, record.getMessage() if template == "%s" else template)
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
    """Install the handler of all loggers, unless there is one already, as in a test."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LogFormatter(structured=structured))
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    warnings.showwarning = _log_warning
    # kafka-python logs every refused reconnect; the worker logs it once.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    # The service logs itself what uvicorn would log.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)


def _log_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Write a Python warning as a log line."""
    logging.getLogger("onepass").warning("%s", message)
