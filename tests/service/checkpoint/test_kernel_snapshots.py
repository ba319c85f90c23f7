"""Checkpoints of kernel models in a real Redis: shown, compared, exported, and refused if they are
impossible.
"""

import json
from contextlib import closing

import numpy as np
import pytest
import yaml
from redis import Redis

from service.checkpoint.snapshot import encode
from service.model.checkpoint_checks import MismatchError
from tests.service.cli.command_line import run_command
from tests.service.operations.checkpoint_history import World

KERNEL = {"kind": "k-perceptron", "max_support": 66, "bias": "r2"}
FEATURES = {"columns": ["size"], "bits": 6}
"""66 slots, as many as there is room for rows, so that counts of rows could be mistaken for counts
of slots.
"""
GROW = {"classes": "grow", "max_classes": 3}
MODELS = {
    "plain": {"learner": KERNEL},
    "scaled": {"learner": {"kind": "scaled", "base": KERNEL}},
    "one_vs_rest": {
        "learner": {"kind": "one_vs_rest", "max_classes": 3, "base": KERNEL},
        "label": GROW,
    },
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def world(request, tmp_path, redis_url):
    with closing(World(tmp_path, redis_url, features=FEATURES, **request.param)) as world:
        for _ in range(3):
            world.learn(40)
        yield world


@pytest.fixture
def plain(tmp_path, redis_url):
    with closing(World(tmp_path, redis_url, features=FEATURES, **MODELS["plain"])) as world:
        world.learn(40)
        yield world


@pytest.fixture
def ask(capsys):
    def ask(world, action, *arguments, status=0):
        got, out, err = run_command(
            capsys, "checkpoints", action, *arguments, "--config", world.config
        )
        assert got == status, err
        assert "Traceback" not in err
        return err if status else out

    return ask


def newest(world):
    return world.store.read(world.store.newest()).with_digest()


def sizes(world, generation):
    (manifest,) = [each for each in world.store.generations() if each.generation == generation]
    arrays = world.store.read(manifest).arrays
    (size,) = [array for name, array in arrays.items() if name.endswith("support/size")]
    return size.reshape(-1).tolist()


def test_show_and_diff_report_stored_rows(world, ask):
    assert "support/values" in ask(world, "show")
    found = json.loads(ask(world, "diff", 1, 3, "--json"))
    labels = newest(world).classes or ["spam"]
    before, after = sizes(world, 1), sizes(world, 3)
    assert found["stored"] == [
        {"label": label, "from": a, "to": b}
        for label, a, b in zip(labels, before, after, strict=False)
    ]
    per_slot = {
        array["name"].rpartition("/")[2] for array in found["arrays"] if array.get("per_slot")
    }
    assert per_slot == (
        {"mean", "spread", "upto"} if world.values["learner"]["kind"] == "scaled" else set()
    )
    out = ask(world, "diff", 1, 3)
    for label, a, b in zip(labels, before, after, strict=False):
        assert f"stored     rows of {label}: {a} -> {b}\n" in out
    assert max(map(len, out.splitlines()[:-1])) < 120, "single values must not be listed"
    assert "stored" not in ask(world, "diff", 3, 3)


def test_export_and_import_bring_the_same_bits(world, ask, tmp_path, redis_url):
    before = newest(world).state_digest
    ask(world, "export", "--to", tmp_path / "m.onepass")
    with Redis.from_url(redis_url) as client:
        client.flushdb()
    ask(world, "import", tmp_path / "m.onepass")
    world.begin()
    assert newest(world).state_digest == before
    assert world.learn(40)


def put(name, place, value):
    def change(snapshot):
        array = snapshot.arrays[f"state/{name}"].copy()
        array[place] = value
        return snapshot._replace(arrays=snapshot.arrays | {f"state/{name}": array})

    return change


def lengthen(name, size):
    def change(snapshot):
        array = snapshot.arrays[f"state/{name}"]
        return snapshot._replace(arrays=snapshot.arrays | {f"state/{name}": np.resize(array, size)})

    return change


HOSTILE = {
    "more rows than told": put("support/size", 0, 60),
    "more rows than room": put("support/size", 0, 67),
    "fewer than none": put("support/size", 0, -1),
    "rows beyond the room": lengthen("support/a", 67),
    "entries beyond the room": lengthen("support/values", 66 * 64 + 1),
    "a slot beyond the features": put("support/slots", 0, 66),
    "a slot below 0": put("support/slots", 0, -5),
    "the bias": put("support/slots", 0, 0),
    "more slots than features": put("support/dim", 0, 2**40),
    "fewer slots than features": put("support/dim", 0, 3),
    "an end beyond the entries": put("support/ends", 1, 2**40),
    "an end before the last": put("support/ends", 2, 0),
    "no number as a coefficient": put("support/a", 0, np.nan),
    "an endless value": put("support/values", 0, np.inf),
    "a square of other values": put("support/squares", 0, 99.0),
    "nodes where there is no room": put("support/trees/ends", 1, 1),
    "a norm that is no number": put("square", 0, np.nan),
    "a bias that is no number": put("bias", 0, np.nan),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_an_impossible_state_is_refused_by_restore_and_by_import(plain, ask, tmp_path, change):
    hostile = change(newest(plain))
    before = (
        plain.model.snapshot(hostile.bookmark, hostile.lineage, whole=True)
        .with_digest()
        .state_digest
    )
    with pytest.raises(MismatchError, match="the checkpoint does not fit this model"):
        plain.model.restore(hostile)
    assert (
        plain.model.snapshot(hostile.bookmark, hostile.lineage, whole=True)
        .with_digest()
        .state_digest
        == before
    )
    file = tmp_path / "evil.onepass"
    file.write_bytes(b"".join(encode(hostile).buffers))
    err = ask(plain, "import", file, "--replace", status=2)
    assert err.count("\n") == 1
    assert plain.store.newest().generation == 1


def test_a_learner_that_loads_an_impossible_state_stops_with_one_line(plain, capsys):
    plain.store.restate(HOSTILE["a slot beyond the features"](newest(plain)))
    plain.store.close()
    plain.config.write_text(yaml.safe_dump(plain.values | {"api": {"port": 0}}))
    status, _, err = run_command(capsys, "learn", "--config", plain.config)
    assert status == 3
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith(
        "onepass learn: stopped to protect the state: the checkpoint "
    )
    assert "the state of k-perceptron is inconsistent" in err.splitlines()[-1]
