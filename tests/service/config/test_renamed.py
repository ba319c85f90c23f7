"""Settings that were renamed before 0.1.0: the loader names the new name, as the CHANGELOG does."""

import re
from pathlib import Path

import pytest
import yaml

from service.config.loader import _paths, _variable, load, parse
from service.config.renamed import RENAMED, current_spec
from service.config.settings import Drift, Settings
from service.errors import SettingsError
from tests.looped import looped

CHANGELOG = Path(__file__).parents[3] / "CHANGELOG.md"
ROW = re.compile(r"\| `([a-z_.]+)(: \[[a-z]+\])?` \| `([a-z_.]+)(: \[[a-z]+\])?` \|")
ROWS = [
    match.groups(default="")
    for match in map(ROW.fullmatch, CHANGELOG.read_text().splitlines())
    if match
]
"""(old path, its value if only that was renamed, new path, new value)."""
GOOD = {
    "name": "m",
    "learner": "pa1",
    "source": {"url": "redis://h:1/0/s"},
    "store": {"url": "redis://h:1/0"},
}


def configure(path, value):
    """Return a configuration in which this path has this value."""
    values = {key: dict(part) if isinstance(part, dict) else part for key, part in GOOD.items()}
    *groups, name = path.split(".")
    group = values
    for part in groups:
        group = group.setdefault(part, {})
    group[name] = value
    return values


def test_the_changelog_has_every_renamed_setting():
    assert {(old, new) for old, of, new, _ in ROWS if not of} == set(RENAMED.items())
    assert [of for _, of, _, _ in ROWS if of] == [": [raise]"] * 2


@looped(("old", "of", "new", "value"), ROWS, ids=[row[0] + row[1] for row in ROWS])
def test_the_loader_says_what_the_changelog_says(tmp_path, old, of, new, value):
    given = yaml.safe_load(of.removeprefix(": ")) if of else {} if old == "store.copies" else 1
    with pytest.raises(SettingsError) as refused:
        parse(configure(old, given), "m.yaml")
    assert str(refused.value) == f"m.yaml: {_parent(old)}{of} is now {_parent(new)}{value}"
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    with pytest.raises(SettingsError) as refused:
        load(path, {_variable(old): yaml.safe_dump(given)})
    assert f"{old}{of} is now {new}{value}" in str(refused.value)
    assert "\n" not in str(refused.value)
    if not of:
        assert _variable(new) in str(refused.value), "the new variable is not named"


def _parent(path):
    """Return the name that the loader reports first: for a renamed group that of the group."""
    return path.rpartition(".")[0] if path.startswith(("store.copies.", "store.backup.")) else path


@looped("new", [new for _, _, new, _ in ROWS])
def test_every_new_name_is_a_setting(new):
    assert new in _paths(Settings)


@looped("old", RENAMED)
def test_no_old_name_is_a_setting(old):
    assert old not in _paths(Settings)


def test_settings_of_an_old_checkpoint_are_read_under_the_new_names():
    today = Drift(
        on_error=["boost"], on_inputs=["boost", "reset_scaler"], boost_factor=3.0, boost_events=7
    )
    drift = today.model_dump(mode="json", exclude={"alarms", "boost_factor", "boost_events"})
    drift |= {
        "on_error": ["raise"],
        "on_inputs": ["raise", "reset_scaler"],
        "raise_by": 3.0,
        "raise_for": 7,
    }
    spec = {"learner": {"kind": "pa1"}, "drift": drift}
    assert Drift.model_validate(current_spec(spec)["drift"]) == today
    assert spec["drift"]["raise_by"] == 3.0, "the checkpoint's own settings must not change"
    for strange in (
        {},
        {"drift": None},
        {"drift": {"on_error": "raise"}},
        {"drift": {"on_error": [[1]]}},
    ):
        assert current_spec(strange) == strange
