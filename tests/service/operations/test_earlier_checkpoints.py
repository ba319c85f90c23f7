"""Checkpoints written before the renames of 0.1.0 load, and `audit` finds them identical.

Each file is an export of a model that learned `lines()` with that version. All models except the
kernel model had `drift.on_error: [raise]`, the old name of `boost`.
"""

import json
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from service.checkpoint.export import unpack
from service.checkpoint.lineage import Recorder
from service.checkpoint.store import Acquired
from service.config.loader import load
from service.features.decoder import Decoder, Event
from service.features.reject import Reject
from service.model.model import Model
from service.storage import RedisStore
from tests.service.cli.command_line import run_command

EARLIER = Path(__file__).parents[1] / "golden" / "earlier"
LEARNED = 720
"""Records that each model had learned when it was exported."""
BINARY = {"positive": "spam"}
FAMILIES = {
    "linear": {
        "learner": "pa1:C=0.1",
        "label": BINARY,
        "drift": {"on_error": ["boost"], "boost_factor": 3.0, "boost_events": 100},
    },
    "scaled": {
        "learner": {"kind": "scaled", "scaler": "gn", "base": "arow"},
        "label": BINARY,
        "drift": {"on_error": ["boost", "reset_scaler"]},
    },
    "one-vs-rest": {
        "learner": {"kind": "one_vs_rest", "max_classes": 8, "base": "pa1:C=0.1"},
        "label": {"classes": "grow", "max_classes": 8},
        "drift": {"on_error": ["boost"], "on_inputs": ["boost"], "boost_events": 64},
    },
    "kernel": {"learner": "forgetron", "label": BINARY, "drift": {}},
}
"""The settings of each model, under today's names."""
DIGESTS = {
    "linear": "809ec8460f4d0de8f345e9567036959a919e4f1de469f4dc9b1c09a0b2108f4e",
    "scaled": "1ede35bd1aa3bd08c944c44c3abeadda1926bab9fa684a95f5a5b49ce509a9a9",
    "one-vs-rest": "ec26e0a83fee8b15996614cfd16382d6cb9f5747760ecf43b25b1f11a787f6cc",
    "kernel": "bf4934ba5706a689087255599ef9d486fc5328e97b128ec8664a9d6780836fc6",
}
"""The state digests that the earlier version printed."""
KINDS = pytest.mark.parametrize("family", FAMILIES)


def event(n):
    """Return event n; from event 360 on, the features hint at another label than before, so the
    error rises.
    """
    label = ("ham", "spam", "news")[(n * 7 + n // 11) % 3 if n % 13 else 2]
    hint = label if n < 360 else {"ham": "spam", "spam": "news", "news": "ham"}[label]
    size = {"ham": -3, "spam": 2, "news": 5}[hint] + (n * 37 % 11 - 5) / 4
    return json.dumps(
        {
            "features": {"size": size, "colour": "rgb"[n % 3], "sender": hint + str(n % 5)},
            "label": label,
        }
    )


def lines(count=LEARNED):
    return ["no json" if n % 40 == 7 else event(n) for n in range(count)]


@pytest.fixture
def config(tmp_path, redis_url, family):
    log = tmp_path / "events.jsonl"
    log.write_text("\n".join(lines()) + "\n")
    values = {
        "name": family,
        "features": {"columns": ["size"], "bits": 6},
        "source": {"url": f"file://{log}"},
        "store": {"url": redis_url},
        "max_feature_names": 32,
        **FAMILIES[family],
    }
    values["drift"] = {"detectors": ["ddm:alarm=2.5"], **values["drift"]}
    path = tmp_path / "model.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def read_stored(family):
    return unpack((EARLIER / f"{family}.onepass").read_bytes())[0]


def make_model(settings):
    decoder = Decoder(
        settings.features, settings.label, settings.limits, settings.max_feature_names
    )
    return Model(
        settings.learner, settings.features, settings.label, decoder, settings.drift
    ), decoder


def learn(model, decoder, records):
    decoded = [decoder.event(line.encode()) for line in records]
    model.learn([event for event in decoded if isinstance(event, Event)])
    model.count_rejects([event.reason for event in decoded if isinstance(event, Reject)])


@KINDS
def test_the_file_has_the_old_names(family):
    """Otherwise the tests below would prove nothing."""
    drift = read_stored(family).model["drift"]
    assert {"raise_by", "raise_for"} <= drift.keys()
    assert ("raise" in drift["on_error"]) == (family != "kernel")


@KINDS
def test_an_earlier_checkpoint_is_imported_and_audited_to_the_bit(config, family, capsys):
    file = EARLIER / f"{family}.onepass"
    status, _, err = run_command(capsys, "checkpoints", "import", file, "--config", config)
    assert (status, err) == (0, "")
    status, out, err = run_command(capsys, "audit", "--config", config, "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["identical"]
    assert found["records"] == LEARNED
    assert (
        found["checkpoint"]["state_digest"] == found["rebuilt"]["state_digest"] == DIGESTS[family]
    )


@KINDS
def test_a_model_continues_from_an_earlier_checkpoint_to_the_bit(config, family):
    """Detectors, pending actions and boosted events are restored, not only the weights."""
    settings = load(config, {})
    restored, decoder = make_model(settings)
    restored.restore(read_stored(family))
    whole, other = make_model(settings)
    learn(whole, other, lines())
    later = [event(n) for n in range(LEARNED, LEARNED + 400)]
    learn(restored, decoder, later)
    learn(whole, other, later)
    bookmark = read_stored(family).bookmark
    one, same = (
        m.snapshot(bookmark, read_stored(family).lineage, whole=True) for m in (restored, whole)
    )
    assert one.with_digest().state_digest == same.with_digest().state_digest
    arrays = {name for name in one.arrays if name != "alarms"}
    assert all((one.arrays[name] == same.arrays[name]).all() for name in arrays)
    told = [(alarm.event, alarm.actions) for alarm in restored.alarms.latest()]
    assert told == [(alarm.event, alarm.actions) for alarm in whole.alarms.latest()]
    assert "raise" not in {action for _, actions in told for action in actions}


@pytest.mark.parametrize("family", ["scaled"])
def test_the_next_checkpoint_has_the_new_setting_names(config, family):
    settings = load(config, {})
    model, _ = make_model(settings)
    model.restore(read_stored(family))
    with closing(RedisStore(settings.store, settings.name, settings.checkpoint)) as store:
        assert store.acquire() is not Acquired.HELD_ELSEWHERE
        assert store.load() is None
        lineage, segments = Recorder(read_stored(family).lineage).lineage()
        store.save(model.snapshot(read_stored(family).bookmark, lineage, whole=True), segments)
        drift = store.read(store.newest()).model["drift"]
    assert drift["on_error"] == ["boost", "reset_scaler"]
    assert {"boost_factor", "boost_events"} <= drift.keys()
    assert not {"raise_by", "raise_for"} & drift.keys()
