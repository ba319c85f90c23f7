"""Every mistake in a configuration is refused in one line that says what to do."""

import pytest

from service.config.loader import load
from service.config.settings import Features
from service.errors import SettingsError, as_settings_error
from tests.looped import looped
from tests.service.config.example_settings import (
    complaint,
    loaded_fixture,  # noqa: F401  # a fixture
)

TYPOS = {
    "top level": ({"lerner": "pa1"}, {}, "lerner", "learner"),
    "group": ({"checkpoint": {"kep": 3}}, {}, "checkpoint.kep", "checkpoint.keep"),
    "group of the whole": ({"stor": {"url": "redis://h:1/0"}}, {}, "stor", "store"),
    "optional group": ({"dead_letters": {"ulr": "x"}}, {}, "dead_letters.ulr", "dead_letters.url"),
    "learner kind": ({"learner": "perceptrn"}, {}, "perceptrn", "perceptron"),
    "learner kind in a mapping": ({"learner": {"kind": "pa_1"}}, {}, "pa_1", "pa1"),
    "learner parameter": ({"learner": "pa1:epsilom=2"}, {}, "epsilom", "epsilon"),
    "learner parameter's case": ({"learner": {"kind": "pa1", "c": 1}}, {}, "'c'", "'C'"),
    "inner kind": ({"learner": {"kind": "scaled", "base": "pal"}}, {}, "pal", "pa"),
    "inner parameter": (
        {"learner": {"kind": "scaled", "base": {"kind": "sgd-log", "lm": 1}}},
        {},
        "lm",
        "lam",
    ),
    "variable": ({}, {"ONEPASS_STORE__UL": "x"}, "ONEPASS_STORE__UL", "ONEPASS_STORE__URL"),
    "variable of a group": (
        {},
        {"ONEPASS_STOR__URL": "x"},
        "ONEPASS_STOR__URL",
        "ONEPASS_STORE__URL",
    ),
    "variable with one underscore": (
        {},
        {"ONEPASS_STORE_URL": "x"},
        "ONEPASS_STORE_URL",
        "ONEPASS_STORE__URL",
    ),
    "variable that is no setting": ({}, {"ONEPASS_DAT": "x"}, "ONEPASS_DAT", "ONEPASS_DATA"),
}


@looped(("changes", "environ", "wrong", "right"), TYPOS.values(), ids=TYPOS)
def test_a_typo_is_answered_with_the_nearest_name(loaded, changes, environ, wrong, right):
    message = complaint(loaded, changes, environ)
    assert wrong in message
    assert "did you mean" in message
    assert right in message.split("did you mean")[1]


OUT_OF_RANGE = {
    "name": ({"name": "a b"}, "name"),
    "name empty": ({"name": ""}, "name"),
    "name long": ({"name": "x" * 65}, "name"),
    "bits": ({"features": {"bits": 29}}, "features.bits"),
    "bits below": ({"features": {"bits": -1}}, "features.bits"),
    "ngrams": ({"features": {"ngrams": 0}}, "features.ngrams"),
    "max_classes": ({"label": {"classes": "grow", "max_classes": 1}}, "label.max_classes"),
    "classes": ({"label": {"classes": "many"}}, "label.classes"),
    "port": ({"api": {"port": 65536}}, "api.port"),
    "keep": ({"checkpoint": {"keep": 0}}, "checkpoint.keep"),
    "interval_seconds": ({"checkpoint": {"interval_seconds": 0}}, "checkpoint.interval_seconds"),
    "interval_events": ({"checkpoint": {"interval_events": 0}}, "checkpoint.interval_events"),
    "start": ({"source": {"url": "file:///x", "start": "middle"}}, "source.start"),
    "max_abs": ({"limits": {"max_abs": 1e300}}, "limits.max_abs"),
    "max_abs infinite": ({"limits": {"max_abs": float("inf")}}, "limits.max_abs"),
    "max_bytes": ({"limits": {"max_bytes": 0}}, "limits.max_bytes"),
    "C": ({"learner": "pa1:C=-1"}, "learner"),
    "C not a number": ({"learner": "pa1:C=much"}, "learner"),
    "wrong type": ({"checkpoint": {"keep": "many"}}, "checkpoint.keep"),
    "no mapping": ({"store": None}, "store"),
    "list for a text": ({"name": ["a"]}, "name"),
    "text for a list": ({"features": {"columns": "amount"}}, "features.columns"),
}


@looped(("changes", "key"), OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_values_out_of_range_are_refused(loaded, changes, key):
    assert f": {key}: " in complaint(loaded, changes)


def test_a_missing_setting_is_named(loaded):
    assert "source.url" in complaint(loaded, {"source": {}})


INCONSISTENT = {
    "a column twice": ({"features": {"columns": ["a", "a"]}}, "twice"),
    "nothing at all": ({"features": {"bits": 0}}, "no feature"),
    "text without slots": ({"features": {"columns": ["a"], "text": ["t"], "bits": 0}}, "bits"),
    "column and text": ({"features": {"columns": ["a", "t"], "text": ["t"]}}, "not both: t"),
    "grow with positive": ({"label": {"classes": "grow", "positive": "a"}}, "grow"),
    "negative alone": ({"label": {"negative": "a"}}, "needs positive"),
    "label is the features": ({"label": {"field": "features"}}, "'features'"),
    "label is the weight": ({"label": {"field": "weight"}}, "'weight'"),
    "voting with always moving": (
        {"learner": {"kind": "averaged", "mode": "vote", "base": "sgd-log"}},
        "avg",
    ),
}


@looped(("changes", "word"), INCONSISTENT.values(), ids=INCONSISTENT)
def test_contradicting_settings_are_refused(loaded, changes, word):
    assert word in complaint(loaded, changes)


@looped("text", ["", "[1]", "a: [", "just words", "\x00"])
def test_files_that_are_no_configuration_are_refused(tmp_path, text):
    path = tmp_path / "model.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="--config"):
        load(tmp_path / "none.yaml", {})


@pytest.mark.parametrize(
    "text", ["name: a\nname: b\n", "name: m\nlearner: {kind: pa1, C: 1,\n C: 2}\n"]
)
def test_a_duplicate_key_is_refused_with_its_line(tmp_path, text):
    path = tmp_path / "twice.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"duplicate key in line [23]$"):
        load(path, {})


def test_a_variable_that_is_not_yaml_is_named(loaded):
    assert "ONEPASS_API__PORT" in complaint(loaded, environ={"ONEPASS_API__PORT": "{"})


def test_a_variable_under_a_setting_that_is_no_group_is_named(loaded):
    assert "ONEPASS_STORE__URL" in complaint(
        loaded, {"store": "redis://h"}, {"ONEPASS_STORE__URL": "redis://h:1/0"}
    )


def test_an_error_of_a_constructor_is_one_line():
    with pytest.raises(SettingsError) as caught, as_settings_error():
        Features(bits=99)
    assert str(caught.value).startswith("bits: ")
    assert "\n" not in str(caught.value)


@looped(
    ("security", "words"),
    [
        (
            {"protocol": "SASL_SSL", "username": "u"},
            "needs username, and password or password_file",
        ),
        ({"username": "u", "password": "p", "password_file": __file__}, "leave one out"),
        ({"protocol": "SSL", "ca_file": "/none/such.pem"}, "ca_file"),
        ({"username": "u", "password_file": "/none/such"}, "password_file"),
        ({"protocol": "SSL", "cert_file": __file__}, "go together"),
    ],
)
def test_security_that_cannot_work_is_refused_at_the_start(loaded, security, words):
    with pytest.raises(SettingsError, match=words):
        loaded({"source": {"url": "kafka://h:1/t", "security": security}})


def test_a_single_value_for_a_group_is_refused(loaded):
    with pytest.raises(SettingsError, match=r"store\.backup: needs a group of settings"):
        loaded({"store": {"url": "redis://h:1/0", "backup": "/tmp/c"}})


def test_a_missing_keys_file_is_refused_with_the_command_to_create_it(loaded, tmp_path):
    path = tmp_path / "none.yaml"
    said = complaint(loaded, {"api": {"keys_file": str(path)}})
    assert "api.keys_file: no such file" in said
    assert f"onepass keys new --file {path} " in said


def test_administration_needs_a_separate_port(loaded):
    for admin in ({"port": 8000}, {"port": 8000, "host": "127.0.0.1"}):
        said = complaint(loaded, {"api": {"admin": admin}})
        assert "api: admin.port is the same as port" in said
    assert loaded({"api": {"admin": {}}}).api.admin.port == 8002
    loaded({"api": {"port": 0, "admin": {"port": 0}}})
    loaded({"api": {"admin": {"port": 8000, "host": "127.0.0.2"}}})
