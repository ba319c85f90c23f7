"""Typical mistakes, and what must not follow from them: a traceback, a leak, a loop, a
wrong model.
"""

import os
import socket

import pytest
import redis

from learners.registry import make
from service.app import Service
from service.config.loader import load, parse
from service.config.settings import Features, Label, Limits
from service.embedded.redis import redis_server
from service.errors import SettingsError
from service.features.decoder import Decoder
from service.features.reject import Reject
from service.files import scan
from service.model.model import Model
from service.sources import open_sink, open_source
from service.sources.base import Bookmark, Entry, SourceLostError, SourceUnavailableError
from service.sources.file import FileSource
from tests.looped import looped

SECRET = "s3cret-canary"
GOOD = {
    "name": "m",
    "learner": "pa1",
    "source": {"url": "redis://127.0.0.1:1/0/events"},
    "store": {"url": "redis://127.0.0.1:1/0"},
    "api": {"port": 0},
}


@looped("slip", ["@{}", "*{}", "%{}", '"{}', "!{}", "`{}", "{}: x: y", "[{}", "&{} *{}"])
def test_a_password_is_not_repeated_when_the_yaml_is_wrong(tmp_path, slip):
    path = tmp_path / "c.yaml"
    path.write_text(f"name: m\nstore:\n  password: {slip.format(SECRET, SECRET)}\n")
    with pytest.raises(SettingsError) as refusal:
        load(path, {})
    assert SECRET not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@looped(
    "text",
    [
        b"\xff\xfe",
        b"name: 2026-13-45",
        b"bits: 0x_",
        b"a: " + b"9" * 5000,
        b"a: " + b"[" * 5000,
        b"learner: &b {base: *b}",
    ],
)
def test_hostile_yaml_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_bytes(text)
    with pytest.raises(SettingsError) as refusal:
        load(path, {})
    assert len(str(refusal.value)) < 500


@looped("variable", ["2026-13-45", "[" * 3000, "{a: b: c}"])
def test_hostile_variables_are_refused_in_one_line(tmp_path, variable):
    path = tmp_path / "c.yaml"
    path.write_text("name: m\n")
    with pytest.raises(SettingsError, match="ONEPASS_LEARNER"):
        load(path, {"ONEPASS_LEARNER": variable})


def test_a_learner_that_contains_itself_is_refused():
    learner = {"kind": "averaged"}
    learner["base"] = learner
    with pytest.raises(SettingsError, match="deep"):
        parse(GOOD | {"learner": learner}, "test")


@looped(
    "learner",
    ["pa1:C=Infinity", "pa1:epsilon=NaN", "sgd-log:lam=Infinity", "sgd-log:horizon=1e400"],
)
def test_numbers_that_no_checkpoint_could_hold_are_refused(learner):
    with pytest.raises(ValueError, match=r"finite|integer|less"):
        make(learner)


@looped(
    "changes",
    [
        {"dead_letters": {"url": GOOD["source"]["url"]}},
        {
            "dead_letters": {"url": "redis://127.0.0.1:1/0/events"},
            "source": {"url": "redis://user:x@127.0.0.1:1/0/events"},
        },
        {"dead_letters": {"url": "file:///tmp/letters"}},
        {"dead_letters": {"url": "garbage"}},
        {"source": {"url": "garbage"}},
        {"source": {"url": "kafka://127.0.0.1:99999/t"}},
        {"source": {"url": "redis://127.0.0.1:1/0/events?foo=bar"}},
        {"store": {"url": "redis://127.0.0.1:1/0", "password_file": "/nowhere"}},
        {"api": {"host": "a..b"}},
        {"label": {"positive": "y", "negative": "y"}},
        {"features": {"columns": ["id", "x"], "flat": True}},
        {"learner": {"kind": "averaged", "base": {"kind": "scaled", "base": "pa1"}}},
    ],
    ids=str,
)
def test_a_configuration_that_cannot_work_is_refused_before_the_start(changes):
    with pytest.raises(SettingsError):
        Service(parse(GOOD | changes, "test"), "run")


def test_a_wrong_nesting_of_compositions_names_the_right_one():
    with pytest.raises(
        ValueError,
        match=r"base: .* not allowed here: .* scaled\(one_vs_rest\(selected\(averaged\(learner",
    ):
        make({"kind": "averaged", "base": {"kind": "scaled", "base": "pa1"}})


def test_a_port_that_another_process_has_is_refused():
    with socket.socket() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        first.listen()
        with pytest.raises(SettingsError, match=r"api\.port"):
            Service(parse(GOOD | {"api": {"port": first.getsockname()[1]}}, "test"), "run")


def test_a_dead_letter_that_cannot_be_written_is_not_repeated_in_the_error(tmp_path):
    with redis_server(tmp_path) as server:
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", 1)
        sink = open_sink(f"{server.url}/letters")
        with pytest.raises(SourceUnavailableError) as failure:
            sink.append([Entry(SECRET.encode())])
        sink.close()
    assert SECRET not in str(failure.value)


def test_a_position_of_another_kind_of_log_is_refused(redis_url):
    source = open_source(f"{redis_url}/events", "earliest")
    with pytest.raises(SourceLostError):
        source.seek(Bookmark({"0": "2000"}, {}))
    source.close()


def test_a_stream_id_is_refused_as_an_offset(topic):
    source = open_source(topic, "earliest")
    with pytest.raises(SourceLostError):
        source.seek(Bookmark({"0": "1794794928572-0"}, {}))
    source.close()


def test_a_test_file_without_a_usable_row_has_no_scores():
    features = Features(bits=4)
    model = Model(make("pa1"), features, Label(), Decoder(features, Label(), Limits()))
    y, scores = model.score_labelled([])
    assert y.size == scores.size == 0


def test_a_pipe_is_refused_as_a_data_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(SettingsError, match="regular"):
        scan(tmp_path / "pipe.csv")


def test_a_deeply_nested_line_is_one_reject(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_bytes(
        b'{"x": 1, "label": 1}\n{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b', "label": 1}\n'
    )
    source = FileSource(scan(path))
    decoder = Decoder(Features(bits=4), Label(), Limits())
    decoded = [decoder.event(record.value) for record in source.poll(0.0, 10)]
    source.close()
    assert [isinstance(event, Reject) for event in decoded] == [False, True]


def test_an_event_of_weight_0_takes_no_place_of_a_class():
    features, label = Features(bits=4), Label(classes="grow", max_classes=2)
    decoder = Decoder(features, label, Limits())
    model = Model(
        make({"kind": "one_vs_rest", "max_classes": 2, "base": "pa1"}), features, label, decoder
    )
    weightless = [
        decoder.event(b'{"features": {"a": 1}, "label": "%d", "weight": 0}' % n) for n in range(5)
    ]
    assert model.learn(weightless).refused == []
    assert model.labels.names == []
    assert model.learn([decoder.event(b'{"features": {"a": 1}, "label": "x"}')]).refused == []
    assert model.labels.names == ["x"]
