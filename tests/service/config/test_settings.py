"""A configuration loads, and the environment overrides it."""

from typing import get_args

import yaml

from learners.learner import Learner
from service.config.loader import NOT_SETTINGS, load, read_yaml
from service.config.settings import Features, Limits, Settings
from service.errors import SettingsError
from tests.looped import looped
from tests.service.config.example_settings import (
    EXAMPLE,
    loaded_fixture,  # noqa: F401  # a fixture
)


def test_the_documented_example_loads(tmp_path):
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


def test_the_documented_growing_classes_load(loaded):
    label = loaded({"label": {"field": "label", "classes": "grow", "max_classes": 64}}).label
    assert (label.classes, label.max_classes) == ("grow", 64)


@looped(
    ("spelled", "label"),
    [("1", "1"), ("1.0", "1"), ("yes", "true"), ("no", "false"), ("0.5", "0.5"), ("'1.0'", "1.0")],
)
def test_a_label_setting_is_spelled_as_the_decoder_spells_labels(loaded, spelled, label):
    assert loaded({"label": yaml.safe_load(f"{{positive: {spelled}}}")}).label.positive == label


@looped("shorthand", ["pa1:C=0.1", {"kind": "pa1", "C": 0.1}, '{"kind": "pa1", "C": 0.1}'])
def test_all_forms_of_a_learner_are_equal(loaded, shorthand):
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
    assert settings.features.bits == 18, "a setting without a variable must stay"
    assert settings.name == "2024"


def test_a_group_missing_in_the_file_can_come_from_the_environment(tmp_path):
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
    """The settings are read from the model itself, so that settings added later are covered."""

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


def test_reserved_variables_are_not_settings(loaded):
    assert {"ONEPASS_DATA", "ONEPASS_CACHE_DIR", "ONEPASS_FAILPOINT"} == NOT_SETTINGS
    assert loaded(environ=dict.fromkeys(NOT_SETTINGS, "/somewhere")).name == "fraud"


def test_a_merged_yaml_key_may_be_overridden():
    """As YAML defines it, the group's own value wins."""
    assert read_yaml("{<<: {kind: pa1, C: 1.0}, C: 2.0}", "here") == {"kind": "pa1", "C": 2.0}


def test_load_reads_the_process_environment_by_default(tmp_path, monkeypatch):
    path = tmp_path / "model.yaml"
    path.write_text(EXAMPLE)
    monkeypatch.setenv("ONEPASS_CHECKPOINT__KEEP", "5")
    assert load(path).checkpoint.keep == 5


def test_defaults_are_the_documented_ones():
    assert Limits().max_abs == 1e100
    assert Features() == Features(columns=(), text=(), ngrams=1, bits=18, bias=True, flat=False)
