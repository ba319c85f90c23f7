"""The configuration: what loads, what overrides it, and that every mistake is one line that says
what to do.
"""

from typing import get_args

import pytest
import yaml

from learners.learner import Learner
from service.config.loader import NOT_SETTINGS, load, read_yaml
from service.config.settings import Address, Features, Limits, Settings, without_password
from service.errors import SettingsError, as_settings_error

EXAMPLE = """
name: fraud
learner: {kind: scaled, scaler: gn, base: {kind: pa1, C: 0.1}}
features: {columns: [amount, age], text: [note], bits: 18}
label: {field: label, positive: fraud}
source: {url: "kafka://localhost:9092/payments", start: earliest, client: kafka-python}
dead_letters: {url: "kafka://localhost:9092/payments.dead"}
store: {url: "redis://localhost:6379/0"}
checkpoint: {interval_seconds: 1, interval_events: 100000, keep: 8}
api: {host: 127.0.0.1, port: 8000}
"""
PASSWORD = "hunter2-canary"


@pytest.fixture
def loaded(tmp_path):
    """`loaded(changes, environ)` loads the example with top-level keys replaced."""

    def read(changes=None, environ=None) -> Settings:
        path = tmp_path / "model.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(EXAMPLE) | (changes or {})))
        return load(path, environ or {})

    return read


def complaint(loaded, changes=None, environ=None) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(changes, environ)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_documented_example(tmp_path):
    path = tmp_path / "fraud.yaml"
    path.write_text(EXAMPLE)
    settings = load(path, {})
    assert settings.name == "fraud"
    assert settings.learner.model_dump(exclude_none=True) == {
        "kind": "scaled",
        "scaler": "gn",
        "base": {"kind": "pa1", "epsilon": 1.0, "update_on": "margin", "C": 0.1, "J": 1.0},
    }
    assert settings.features.columns == ("amount", "age")
    assert settings.features.text == ("note",)
    assert settings.features.bits == 18
    assert settings.label.positive == "fraud"
    assert settings.source.url == "kafka://localhost:9092/payments"
    assert settings.dead_letters.url == "kafka://localhost:9092/payments.dead"
    assert settings.store.model_dump(exclude_none=True, exclude_defaults=True) == {
        "url": "redis://localhost:6379/0"
    }
    due = settings.checkpoint
    assert (due.interval_seconds, due.interval_events, due.keep) == (1.0, 100_000, 8)
    assert (settings.api.host, settings.api.port) == ("127.0.0.1", 8000)


def test_the_documented_growing_classes(loaded):
    label = loaded({"label": {"field": "label", "classes": "grow", "max_classes": 64}}).label
    assert (label.classes, label.max_classes) == ("grow", 64)


@pytest.mark.parametrize(
    ("spelled", "label"),
    [("1", "1"), ("1.0", "1"), ("yes", "true"), ("no", "false"), ("0.5", "0.5"), ("'1.0'", "1.0")],
)
def test_a_label_is_spelled_as_the_decoder_spells_it(loaded, spelled, label):
    assert loaded({"label": yaml.safe_load(f"{{positive: {spelled}}}")}).label.positive == label


@pytest.mark.parametrize(
    "shorthand", ["pa1:C=0.1", {"kind": "pa1", "C": 0.1}, '{"kind": "pa1", "C": 0.1}']
)
def test_forms_of_a_learner(loaded, shorthand):
    learner = loaded({"learner": shorthand}).learner
    assert isinstance(learner, Learner)
    assert learner.model_dump() == {
        "kind": "pa1",
        "epsilon": 1.0,
        "update_on": "margin",
        "C": 0.1,
        "J": 1.0,
    }


def test_the_environment_overrides_the_file(loaded):
    settings = loaded(
        environ={
            "ONEPASS_STORE__URL": "redis://elsewhere:6380/1",
            "ONEPASS_CHECKPOINT__KEEP": "3",
            "ONEPASS_CHECKPOINT__INTERVAL_SECONDS": "0.25",
            "ONEPASS_LEARNER": "pa2:C=5",
            "ONEPASS_FEATURES__COLUMNS": "[x, y]",
            "ONEPASS_FEATURES__BIAS": "false",
            "ONEPASS_NAME": "2024",
            "PATH": "/bin",
        }
    )
    assert settings.store.url == "redis://elsewhere:6380/1"
    assert settings.checkpoint.keep == 3
    assert settings.checkpoint.interval_seconds == 0.25
    assert settings.learner.model_dump() == {
        "kind": "pa2",
        "epsilon": 1.0,
        "update_on": "margin",
        "C": 5.0,
        "J": 1.0,
    }
    assert settings.features.columns == ("x", "y")
    assert settings.features.bias is False
    assert settings.features.bits == 18, "what is not overridden stays"
    assert settings.name == "2024"


def test_a_group_that_is_not_in_the_file_can_come_from_the_environment(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text("name: m\nlearner: pa1\nsource: {url: 'file:///x.jsonl'}\n")
    environ = {
        "ONEPASS_STORE__URL": "redis://h:1/0",
        "ONEPASS_DEAD_LETTERS__URL": "redis://h:1/0/dead",
    }
    settings = load(path, environ)
    assert settings.store.url == "redis://h:1/0"
    assert settings.dead_letters.url == "redis://h:1/0/dead"


def test_every_setting_has_a_variable(loaded):
    """Read off the model itself, so that a setting added later is overridable too."""

    def variables(group, prefix):
        for name, field in group.model_fields.items():
            types = [field.annotation, *get_args(field.annotation)]
            inner = [
                part
                for part in types
                if hasattr(part, "model_fields") and name not in {"learner", "detectors"}
            ]
            variable = f"{prefix}{name.upper()}"
            yield from variables(inner[0], f"{variable}__") if inner else [variable]

    found = list(variables(Settings, "ONEPASS_"))
    assert "ONEPASS_STORE__BACKUP__FOLDER" in found
    for variable in found:
        try:
            loaded(environ={variable: "[[[]]]"})
        except SettingsError as error:
            assert "no such setting" not in str(error)  # noqa: PT017


def test_variables_that_are_not_settings(loaded):
    assert {"ONEPASS_DATA", "ONEPASS_CACHE_DIR", "ONEPASS_FAILPOINT"} == NOT_SETTINGS
    assert loaded(environ=dict.fromkeys(NOT_SETTINGS, "/somewhere")).name == "fraud"


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


@pytest.mark.parametrize(("changes", "environ", "wrong", "right"), TYPOS.values(), ids=TYPOS)
def test_a_typo_is_answered_with_the_nearest(loaded, changes, environ, wrong, right):
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


@pytest.mark.parametrize(("changes", "key"), OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_out_of_range(loaded, changes, key):
    assert f": {key}: " in complaint(loaded, changes)


def test_a_setting_that_is_missing(loaded):
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


@pytest.mark.parametrize(("changes", "word"), INCONSISTENT.values(), ids=INCONSISTENT)
def test_settings_that_contradict_each_other(loaded, changes, word):
    assert word in complaint(loaded, changes)


@pytest.mark.parametrize("text", ["", "[1]", "a: [", "just words", "\x00"])
def test_files_that_are_no_configuration(tmp_path, text):
    path = tmp_path / "model.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SettingsError, match="--config"):
        load(tmp_path / "none.yaml", {})


@pytest.mark.parametrize(
    "text", ["name: a\nname: b\n", "name: m\nlearner: {kind: pa1, C: 1,\n C: 2}\n"]
)
def test_a_key_that_is_there_twice(tmp_path, text):
    path = tmp_path / "twice.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"duplicate key in line [23]$"):
        load(path, {})


def test_what_is_merged_may_be_said_again():
    """YAML's own way to say it: what stands in the group wins."""
    assert read_yaml("{<<: {kind: pa1, C: 1.0}, C: 2.0}", "here") == {"kind": "pa1", "C": 2.0}


def test_a_variable_that_is_no_yaml(loaded):
    assert "ONEPASS_API__PORT" in complaint(loaded, environ={"ONEPASS_API__PORT": "{"})


def test_a_variable_under_something_that_is_no_group(loaded):
    assert "ONEPASS_STORE__URL" in complaint(
        loaded, {"store": "redis://h"}, {"ONEPASS_STORE__URL": "redis://h:1/0"}
    )


def test_what_a_constructor_refuses_is_one_line():
    with pytest.raises(SettingsError) as caught, as_settings_error():
        Features(bits=99)
    assert str(caught.value).startswith("bits: ")
    assert "\n" not in str(caught.value)


URLS = [
    f"redis://:{PASSWORD}@h:6379/0",
    f"redis://user:{PASSWORD}@h:6379/0/stream",
    f"rediss://user:x@{PASSWORD}@h:6379/0",
    f"redis://:x/{PASSWORD}@h:6379/0",
    f"redis://h:6379/0?password={PASSWORD}",
    f"redis://h:6379/0?db=1&password={PASSWORD}&x=1",
]


@pytest.mark.parametrize("url", URLS)
def test_an_address_is_shown_without_its_password(url):
    assert PASSWORD not in without_password(url)
    assert "@h:6379" in without_password(url) or "//h:6379" in without_password(url)


def test_an_address_without_a_password_is_shown_whole():
    for url in (
        "redis://h:6379/0",
        "kafka://a:1,b:2/topic",
        "file:///a/b.jsonl",
        "redis://h:1/0/s?protocol=3",
    ):
        assert without_password(url) == url


@pytest.mark.parametrize("url", URLS)
def test_passwords_are_not_shown_with_the_settings(loaded, url):
    settings = loaded(
        {
            "source": {"url": url},
            "dead_letters": {"url": url},
            "store": {"url": url, "password": PASSWORD},
        }
    )
    assert settings.store.url == url, "the client gets it as it is"
    assert settings.store.password.get_secret_value() == PASSWORD
    shown = [
        repr(settings),
        str(settings),
        str(settings.model_dump()),
        settings.model_dump_json(),
        repr(settings.store),
    ]
    assert all(PASSWORD not in text for text in shown)


def test_every_setting_that_is_an_address_is_hidden():
    """Whoever adds a `url: str` beside these would show it."""
    for field in Settings.model_fields.values():
        url = getattr(field.annotation, "model_fields", {}).get("url")
        assert url is None or (url.repr is False and url.metadata == list(Address.__metadata__[1:]))


@pytest.mark.parametrize("spelled", ["0123", "yes", "{", "a: b", "# x", " padded ", "'quoted'"])
def test_a_password_variable_is_taken_verbatim(loaded, spelled):
    assert (
        loaded(environ={"ONEPASS_STORE__PASSWORD": spelled}).store.password.get_secret_value()
        == spelled
    )


@pytest.mark.parametrize("changes", [{"port": PASSWORD}, {"max_body_bytes": PASSWORD}])
def test_a_complaint_does_not_repeat_the_value(loaded, changes):
    """A value put under the wrong key may be a secret."""
    assert PASSWORD not in complaint(loaded, {"api": changes})


def test_the_process_environment_is_the_default(tmp_path, monkeypatch):
    path = tmp_path / "model.yaml"
    path.write_text(EXAMPLE)
    monkeypatch.setenv("ONEPASS_CHECKPOINT__KEEP", "5")
    assert load(path).checkpoint.keep == 5


def test_defaults():
    assert Limits().max_abs == 1e100
    assert Features() == Features(columns=(), text=(), ngrams=1, bits=18, bias=True, flat=False)


@pytest.mark.parametrize(
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


def test_a_group_given_as_a_single_value_is_told_so(loaded):
    with pytest.raises(SettingsError, match=r"store\.backup: needs a group of settings"):
        loaded({"store": {"url": "redis://h:1/0", "backup": "/tmp/c"}})


def test_a_file_of_keys_that_is_not_there(loaded, tmp_path):
    path = tmp_path / "none.yaml"
    said = complaint(loaded, {"api": {"keys_file": str(path)}})
    assert "api.keys_file: no such file" in said
    assert f"onepass keys new --file {path} " in said


def test_administration_has_a_port_of_its_own(loaded):
    for admin in ({"port": 8000}, {"port": 8000, "host": "127.0.0.1"}):
        said = complaint(loaded, {"api": {"admin": admin}})
        assert "api: admin.port is the same as port" in said
    assert loaded({"api": {"admin": {}}}).api.admin.port == 8002
    loaded({"api": {"port": 0, "admin": {"port": 0}}})
    loaded({"api": {"admin": {"port": 8000, "host": "127.0.0.2"}}})
