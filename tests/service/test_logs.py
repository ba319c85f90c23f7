"""Logs: one line per record, only allowed fields, no secrets, no flood."""

import io
import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import logs
from service.config.loader import parse
from service.logs import redact
from service.server.api_keys import new_key
from service.sources.urls import FORMS as LOGS
from service.storage.connection import FORMS as STORES
from tests.looped import looped

CANARY = "canary-9d21"
ALLOWED = {"time", "level", "logger", "message", "trace", *logs.FIELDS}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def handler(*, structured=True):
    made = logging.StreamHandler(io.StringIO())
    made.setFormatter(logs.LogFormatter(structured=structured))
    made.addFilter(logs.RepeatFilter())
    return made


def record(message, *arguments, name="onepass", fault=None, **fields):
    made = logging.LogRecord(name, logging.WARNING, "file", 1, message, arguments, fault)
    made.__dict__.update(fields)
    return made


def log_lines(*records, structured=True):
    """Return the lines that the records become."""
    handling = handler(structured=structured)
    for one in records:
        handling.handle(one)
    return handling.stream.getvalue().split("\n")[:-1]


@given(
    st.text(),
    st.text(),
    st.dictionaries(st.sampled_from(["request_id", "other", "args_", "route"]), st.text()),
)
def test_any_message_is_one_line_of_allowed_fields(message, value, fields):
    (line,) = log_lines(record("%s and %s", message, value, **fields))
    document = json.loads(line)
    assert document.keys() <= ALLOWED
    assert len(line.splitlines()) == 1
    assert not logs.CONTROL.search(document["message"])


@given(st.text())
def test_a_plain_record_is_one_line(message):
    (line,) = log_lines(record("%s", message), structured=False)
    assert len(line.splitlines()) == 1


def test_a_traceback_stays_in_its_line_without_secrets():
    key = new_key()
    try:
        raise RuntimeError(f"Bearer {key}\n{CANARY}")
    except RuntimeError:
        (line,) = log_lines(record("failed", fault=sys.exc_info(), status=500, ms=1.5))
    document = json.loads(line)
    assert (document["status"], document["ms"]) == (500, 1.5)
    assert "RuntimeError" in "".join(document["trace"])
    assert key not in line


SECRETS = {
    "key": f"key {new_key()} given",
    "bearer": f"Authorization: Bearer {CANARY}",
    "basic": f"authorization: basic {CANARY}==",
    "url": f"redis://user:{CANARY}@host:6379/0 is away",
    "url with slash and at": f"rediss://u:{CANARY}/@x@host:1/0 is away",
    "query": f"redis://host/0?db=1&password={CANARY}&x=1",
    "kafka option": f"sasl.password={CANARY}, sasl.username=me",
    "json": json.dumps({"sasl.password": CANARY, "user": "me"}),
    "repr": repr({"password": CANARY}),
}


@looped("text", SECRETS.values(), ids=SECRETS)
@looped("structured", [True, False])
def test_text_that_looks_like_a_secret_is_not_logged(text, structured):
    for one in (record(text), record("%s", text), record("x", route=text)):
        lines = "".join(log_lines(one, structured=structured))
        assert CANARY not in lines
        assert "op_" not in lines or "op_***" in lines


def test_other_text_is_logged_unchanged():
    text = (
        "Redis at redis://127.0.0.1:6379/0 is away; the password was refused: see"
        " store.password_file"
    )
    assert json.loads(log_lines(record(text))[0])["message"] == text


def test_passwords_of_the_settings_are_never_logged(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_known", set())
    file = tmp_path / "password"
    file.write_text(f"{CANARY}-file\nmore\n")
    settings = {
        "name": "m",
        "learner": "pa1",
        "source": {
            "url": "kafka://h:1/t",
            "security": {"protocol": "SASL_SSL", "username": "u", "password": f"{CANARY}-sasl"},
        },
        "dead_letters": {"url": f"redis://:{CANARY}%2Durl@h:1/0/s"},
        "store": {"url": "redis://h:1/0", "password_file": str(file)},
    }
    logs.register_secrets(parse(settings, "test"))
    for end in ("-sasl", "-file", "-url", "%2Durl"):
        assert CANARY not in log_lines(record(f"it said {CANARY}{end} again"))[0]


def test_repeated_lines_are_counted_beyond_a_limit(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(logs.time, "monotonic", clock)
    handling = handler()
    for n in range(logs.MOST + 57):
        handling.handle(record("away for the %sth time", n))
    handling.handle(record("another"))
    clock.now += 61
    handling.handle(record("away for the %sth time", 99))
    handling.handle(record("away for the %sth time", 100))
    lines = [json.loads(line)["message"] for line in handling.stream.getvalue().splitlines()]
    assert len(lines) == logs.MOST + 3
    assert lines[-2:] == ["away for the 99th time (and 57 more)", "away for the 100th time"]


def test_the_memory_of_repeated_lines_is_bounded():
    calm = logs.RepeatFilter()
    for n in range(10 * logs.MESSAGES):
        assert calm.filter(record(f"line {n}"))
    assert len(calm._seen) == logs.MESSAGES


@pytest.mark.parametrize("forms", [LOGS, STORES])
def test_documented_url_forms_are_not_redacted(forms):
    assert redact(forms) == forms
