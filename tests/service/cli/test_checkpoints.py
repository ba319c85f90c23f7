"""`onepass checkpoints` on a real Redis: what it says, what it changes, and what it refuses."""

import hashlib
import json
import os
import struct
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import yaml
from redis import Redis

from learners.state import state_digest
from service.checkpoint import lineage as lineage_module
from service.checkpoint.export import unpack
from service.checkpoint.lineage import Lineage, Lost, Rolled, Run, history
from service.checkpoint.snapshot import Snapshot, decode, encode
from service.cli.checkpoints import ACTIONS
from service.cli.tables import format_age, format_size
from service.operations.inspect import compare_generations
from service.sources.base import BEGINNING
from tests.service.operations.checkpoint_history import World, asked, events

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def world(tmp_path, redis_url):
    """Generations 1 to 5, of 40 records each; the first is a base, deltas follow."""
    with closing(World(tmp_path, redis_url)) as world:
        for _ in range(5):
            world.learn(40)
        yield world


@pytest.fixture
def ask(world, capsys):
    def ask(action, *arguments, status=0):
        got, out, err = asked(capsys, "checkpoints", action, *arguments, "--config", world.config)
        assert got == status, err
        if status:
            assert out == ""
            assert err.startswith("onepass checkpoints: ")
            assert err.count("\n") == 1
        return err if status else out

    return ask


@pytest.fixture
def ask_json(ask):
    return lambda *arguments: json.loads(ask(*arguments, "--json"))


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_an_example(capsys, action):
    status, out, err = asked(capsys, "checkpoints", action, "--help")
    assert (status, err) == (0, "")
    assert f"example:\n  onepass checkpoints {action} " in out


def test_list(world, ask, ask_json):
    generations = ask_json("list")
    assert [entry["generation"] for entry in generations] == [5, 4, 3, 2, 1]
    newest = generations[0]
    assert newest["events"] == int(world.model.progress.events[0])
    assert newest["error_rate"] == world.model.progress.error_rate
    assert [entry["parts"] for entry in generations] == [5, 4, 3, 2, 1]
    assert newest["state_digest"] is None, "a delta has not all of the state"
    assert newest["origin"] == "learned"
    assert 0 <= newest["age_seconds"] < 60
    out = ask("list")
    assert out.split()[:9] == [
        "generation",
        "age",
        "events",
        "error",
        "rate",
        "size",
        "parts",
        "origin",
        "state",
    ]
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[-3] for row in rows] == ["base+4", "base+3", "base+2", "base+1", "base"]
    assert [row[-1] for row in rows] == ["-"] * 4 + [generations[-1]["state_digest"][:12]]


def test_list_of_nothing(tmp_path, redis_url, capsys):
    with closing(World(tmp_path, redis_url)) as world:
        line = ("--config", world.config)
        assert asked(capsys, "checkpoints", "list", *line)[:2] == (0, "no checkpoint yet\n")
        assert asked(capsys, "checkpoints", "list", *line, "--json")[:2] == (0, "[]\n")
        status, _, err = asked(capsys, "checkpoints", "show", *line)
        assert status == 2
        assert "no checkpoint yet" in err


def test_broken_generations_are_said(ask, ask_json, redis_url):
    with Redis.from_url(redis_url) as client:
        client.lset("{m:m}:head", 1, b"nonsense")
    generations = ask_json("list")
    assert [entry.get("generation") for entry in generations] == [5, None, 3, 2, 1]
    assert "damaged" in generations[1]["broken"]
    assert "broken: " in ask("list")
    with Redis.from_url(redis_url) as client:
        for place in range(5):
            client.lset("{m:m}:head", place, b"nonsense")
    assert "damaged" in ask("show", status=3)


def test_lost_bytes_of_a_generation_are_noticed(ask, redis_url):
    with Redis.from_url(redis_url) as client:
        keys = list(client.scan_iter("{m:m}:g:1:*"))
        assert keys
        client.delete(*keys)
    assert "generation 1" in ask("show", "--generation", 1, status=3)


def test_show(world, ask, ask_json):
    shown = ask_json("show")
    assert shown["generation"] == 5
    assert shown["model"]["learner"]["kind"] == "pa1"
    assert shown["positions"] == {"file:events.jsonl/0": "200"}
    assert shown["rejects"] == {"malformed": 10}
    assert shown["lost"] == []
    assert shown["lineage"]["runs"] == 1
    assert shown["lineage"]["records"] == 200
    assert shown["lineage"]["broken"] is None
    assert shown["state_digest"] == state_digest(world.model.state), (
        "also of a generation that is a delta"
    )
    weights = next(array for array in shown["arrays"] if array["name"] == "state/updates")
    assert (weights["shape"], weights["bytes"]) == ([1], 8)
    assert ask_json("show", "--generation", "2")["positions"] == {"file:events.jsonl/0": "80"}
    out = ask("show", "--generation", 2)
    for word in (
        "generation 2, learned",
        "position   file:events.jsonl/0: 80",
        "malformed 4",
        "80 records in 1 run,",
    ):
        assert word in out


def test_show_with_a_history_that_is_sealed_or_gone(tmp_path, redis_url, capsys, monkeypatch):
    monkeypatch.setattr(lineage_module, "SEALED_AFTER", 2)
    with closing(World(tmp_path, redis_url)) as world:
        for generation in range(6):
            world.learn(5)
            world.recorder.note(Rolled(generation, generation, 0.0))
        world.learn(5)
        line = ("checkpoints", "show", "--config", world.config)
        told = json.loads(asked(capsys, *line, "--json")[1])["lineage"]
        assert told["runs"] == 7
        assert told["sealed_segments"] == 6
        assert told["rolled_back"] == 6
        with Redis.from_url(redis_url) as client:
            client.delete(*client.scan_iter("{m:m}:l:*"))
        status, out, _ = asked(capsys, *line)
        assert status == 0, "the state is good all the same"
        assert "broken     segment" in out
        status, _, err = asked(
            capsys, "checkpoints", "export", "--to", tmp_path / "x", "--config", world.config
        )
        assert status == 0
        assert "the history is incomplete (segment" in err
        assert err.count("\n") == 1
        assert unpack((tmp_path / "x").read_bytes())[1] == {}


def test_show_for_people(ask, ask_json, world):
    world.recorder.note(Rolled(1, 2, 0.0))
    world.learn(1)
    out = ask("show")
    assert f"learner    {json.dumps(ask_json('show')['model']['learner'])}\n" in out
    assert "(the record before the position)" in out
    assert "0 sealed segments (" in out
    assert "rolled back 1 time\n" in out
    assert "frozen 0 times\n" in out
    assert "in 2 runs" in out, "a word of the operator lies between them"


def test_the_model_is_frozen_is_said(ask, ask_json, capsys, world):
    assert "frozen since" not in ask("list")
    assert ask_json("show")["frozen"] is None
    ask("freeze")
    line = next(line for line in ask("list").splitlines() if line.startswith("frozen since"))
    assert line.endswith("at generation 5: nothing is learned until unfreeze")
    assert [entry["generation"] for entry in ask_json("list")] == [5, 4, 3, 2, 1]
    assert ask_json("show")["frozen"]["generation"] == 5
    assert f"now        {line.partition(' (')[0]}" in ask("show")
    out = ask("rollback", "--to", 2, "--keep-offsets")
    assert "it is frozen since" in out
    assert "at generation 5: nothing is learned until unfreeze" in out
    assert "by itself" not in out
    world.config.write_text(yaml.safe_dump(world.values | {"name": "typo"}))
    status, out, err = asked(capsys, "checkpoints", "freeze", "--config", world.config)
    assert status == 0
    assert "typo has no checkpoint" in err
    assert asked(capsys, "checkpoints", "list", "--config", world.config)[1].startswith(
        "no checkpoint yet\nfrozen since"
    )


def test_an_unknown_generation_names_the_nearest(ask):
    assert "generation 9 is not kept; the nearest are 3, 4, 5" in ask(
        "show", "--generation", 9, status=2
    )
    assert "the nearest are 1, 2, 3" in ask("diff", 0, 5, status=2)


def test_diff(ask, ask_json):
    found = ask_json("diff", 2, 5)
    shown = {generation: ask_json("show", "--generation", generation) for generation in (2, 5)}
    assert found["events"] == shown[5]["events"] - shown[2]["events"] == 114
    assert found["errors"] == shown[5]["errors"] - shown[2]["errors"]
    assert found["error_rate"] == found["errors"] / 114
    assert found["positions"] == [
        {"partition": "file:events.jsonl/0", "from": "80", "to": "200", "moved": 120}
    ]
    assert found["rejects"] == {"malformed": 6}
    assert found["settings"] == {}
    assert {array["name"] for array in found["arrays"]} >= {"state/updates"}
    out = ask("diff", 2, 5)
    assert "events     +114" in out
    assert "80 -> 200 (+120)" in out
    assert "unchanged  " in out
    back = ask_json("diff", 5, 2)
    assert (back["events"], back["error_rate"]) == (-114, None)
    same = ask_json("diff", 3, 3)
    assert all(array["norm"] == 0.0 and array["changed"] == 0 for array in same["arrays"])


def small(model, **arrays) -> Snapshot:
    counts = {"progress/events": np.array([0]), "progress/errors": np.array([0])}
    arrays = {f"state/{name}": np.array(array) for name, array in arrays.items()}
    return Snapshot(model, ["a"], BEGINNING, Lineage(), {}, None, counts | arrays)


def test_diff_names_settings_slots_and_strange_values():
    before = small(
        {"learner": {"C": 0.1, "kind": "pa1"}},
        w=[[0.0, 1.0, 2.0], [0.0, 0.0, np.nan]],
        n=[1],
        gone=[1.0],
        same=[np.nan, 0.0],
    )
    after = small(
        {"learner": {"C": 0.2, "kind": "pa1", "J": 1}},
        w=[[3.0, 1.0, 2.5], [0.0, 0.0, np.inf]],
        n=[5],
        new=[1.0, 2.0],
        same=[np.nan, 0.0],
    )
    found = compare_generations((1, before), (2, after))
    assert found["settings"] == {"learner.C": [0.1, 0.2], "learner.J": [None, 1]}
    arrays = {array["name"].removeprefix("state/"): array for array in found["arrays"]}
    assert arrays["w"]["changed"] == 2
    assert arrays["w"]["slots"] == 3
    assert [(one["row"], one["slot"]) for one in arrays["w"]["largest"]] == [(1, 2), (0, 0), (0, 2)]
    assert arrays["w"]["largest"][0] == {"row": 1, "slot": 2, "from": "nan", "to": "inf"}
    assert arrays["w"]["norm"] == "nan"
    assert arrays["n"]["norm"] == 4.0
    assert arrays["same"]["changed"] == 0
    assert arrays["gone"] == {"name": "state/gone", "from": "<f8[1]", "to": None}
    assert arrays["new"]["to"] == "<f8[2]"
    json.loads(json.dumps(found, allow_nan=False))


def test_diff_for_people(ask, ask_json):
    """What has a number per slot comes first, with the names of columns; counters are one line
    each, at the end.
    """
    found = ask_json("diff", 2, 5)
    kinds = [array["per_slot"] for array in found["arrays"]]
    assert kinds == sorted(kinds, reverse=True)
    assert True in kinds
    names = {
        one.get("name")
        for array in found["arrays"]
        for one in array["largest"]
        if array["per_slot"]
    }
    assert "size" in names
    assert names <= {"bias", "size", None}, "None: hashed"
    lines = ask("diff", 2, 5).splitlines()
    assert any(line.strip().startswith("size (slot 1): ") for line in lines)
    assert any(line.strip().startswith("slot ") for line in lines), "hashed"
    updates = next(line for line in lines if "state/updates" in line)
    assert updates.startswith("number     state/updates: ")
    assert lines.index(updates) > max(
        n for n, line in enumerate(lines) if line.startswith("array ")
    )


def test_rollback_from_then(world, ask, ask_json):
    out = ask("rollback", "--to", 2, "--rewind")
    assert "generation 6 has the state of generation 2" in out
    assert "learned again" in out
    newest, second = ask_json("show"), ask_json("show", "--generation", 2)
    assert (newest["generation"], newest["origin"]) == (6, "rollback to 2")
    for same in ("state_digest", "events", "errors", "positions", "marks", "rejects"):
        assert newest[same] == second[same]
    world.begin()
    entries = list(history(world.recorder.lineage()[0], world.store.segment))
    assert entries[0] == Run("0", "0", "80", 80)
    assert (entries[1].back_to, entries[1].newest) == (2, 5)
    world.learn(120)
    assert ask_json("show")["state_digest"] == ask_json("show", "--generation", 5)["state_digest"]
    assert ask_json("show")["lineage"]["rolled_back"] == 1


def test_rollback_keeping_the_position(world, ask, ask_json):
    out = ask("rollback", "--to", 2, "--keep-offsets")
    assert "stays unlearned" in out
    assert "partition 0 from 80 to 200, 120 events" in out
    newest, second = ask_json("show"), ask_json("show", "--generation", 2)
    assert newest["state_digest"] == second["state_digest"]
    assert newest["positions"] == ask_json("show", "--generation", 5)["positions"]
    lost = {"partition": "0", "start": "80", "end": "200", "events": 120, "reason": "rolled_back"}
    assert newest["lost"] == [lost]
    found = world.begin()
    assert [type(entry) for entry in found.snapshot.lineage.entries] == [Run, Rolled, Lost]
    world.learn(10)
    assert world.recorder.lineage()[0].entries[-1] == Run("0", "200", "210", 10)


def test_rollback_from_a_generation_that_is_damaged(ask, ask_json, redis_url):
    """Its positions are lost, so there is only one way."""
    with Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter("{m:m}:g:5:*"))
    ask("show", status=3)
    assert "generation 5" in ask("rollback", "--to", 4, "--keep-offsets", status=3)
    ask("rollback", "--to", 4, "--rewind")
    assert ask_json("show")["positions"] == {"file:events.jsonl/0": "160"}


def test_rollback_to_what_the_log_no_longer_has(world, ask, ask_json):
    world.path.write_text("\n".join(events(60)) + "\n")
    err = ask("rollback", "--to", 2, "--rewind", status=2)
    assert "cannot be learned again: " in err
    assert "position 80 is not among its 60 rows" in err
    assert "--keep-offsets" in err
    assert "--force" in err
    assert world.store.newest().generation == 5
    out = ask("rollback", "--to", 2, "--rewind", "--force")
    assert "positions: those of generation 2, though " in out
    assert "source.on_data_loss" in out
    assert "learned again" not in out
    assert ask_json("show")["origin"] == "rollback to 2"


def test_rollback_beside_a_log_that_is_away(world, capsys):
    world.path.unlink()
    line = ("rollback", "--to", 2, "--rewind", "--config", world.config)
    status, out, err = asked(capsys, "checkpoints", *line)
    assert status == 0
    assert "could not check" in err
    assert err.count("\n") == 1
    assert "learned again" in out


def test_rollback_beside_a_stream_that_was_made_anew(tmp_path, redis_url, capsys):
    with closing(World(tmp_path, redis_url)) as world:
        config = world.config
        config.write_text(
            yaml.safe_dump(
                world.values | {"source": {"url": f"{redis_url}/events"}, "api": {"port": 0}}
            )
        )
    with Redis.from_url(redis_url) as client:
        for _ in range(2):
            for line in events(50):
                client.xadd("events", {"value": line})
            learn = ("learn", "--until-end", "--config", str(config))
            subprocess.run(
                [sys.executable, "-m", "service", *learn],
                check=True,
                capture_output=True,
                timeout=60,
            )
        client.delete("events")
        client.xadd("events", {"value": "x"}, id="1-1")
    status, _, err = asked(
        capsys, "checkpoints", "rollback", "--to", 1, "--rewind", "--config", config
    )
    assert status == 2
    assert "it is another stream" in err
    assert "source.on_data_loss" not in err, "that is advice for a learner"
    assert (
        asked(capsys, "checkpoints", "rollback", "--to", 1, "--keep-offsets", "--config", config)[0]
        == 0
    )


def test_rollback_where_the_position_is_the_same(ask):
    ask("rollback", "--to", 2, "--rewind")
    out = ask("rollback", "--to", 2, "--keep-offsets")
    assert "\nalready at those positions: nothing is left out\n" in out
    assert "unlearned" not in out


def test_a_position_kept_that_lies_before_is_said(ask):
    """The state has learned beyond it."""
    ask("rollback", "--to", 1, "--rewind")
    said = ask("rollback", "--to", 3, "--keep-offsets", status=2)
    assert "partition 0 up to 120, and the newest positions are at 40" in said
    assert "would be learned twice" in said
    out = ask("rollback", "--to", 3, "--keep-offsets", "--force")
    assert (
        "partition 0 from 120 to 40, which is backwards: unless the log was recreated, it is"
        " learned twice" in out
    )


def test_rollback_fences_who_learns(world, ask):
    ask("rollback", "--to", 2, "--rewind")
    with pytest.raises(Exception, match="taken over"):
        world.learn(10)
    assert world.begin().manifest.generation == 6


WRONG = {
    "no way said": (("rollback", "--to", 2, "--config", "m.yaml"), "--rewind --keep-offsets"),
    "both ways": (("rollback", "--to", 2, "--rewind", "--keep-offsets"), "not allowed with"),
    "no generation": (("rollback", "--rewind"), "--to"),
    "no action": ((), "ACTION"),
    "no file": (("export",), "--to"),
    "no config": (("list",), "--config"),
}


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_wrong_usage(capsys, line):
    arguments, word = line
    status, out, err = asked(capsys, "checkpoints", *arguments)
    assert (status, out) == (2, "")
    assert word in err
    assert err.count("\n") == 1


def test_the_newest_is_no_generation_to_go_back_to(ask):
    assert "nothing to go back" in ask("rollback", "--to", 5, "--rewind", status=2)


def test_export_and_import(ask, ask_json, tmp_path):
    file = tmp_path / "kept" / "m.onepass"
    file.parent.mkdir()
    assert "generation 3" in ask("export", "--generation", 3, "--to", file)
    assert [path.name for path in file.parent.iterdir()] == ["m.onepass"]
    third = ask_json("show", "--generation", 3)
    inside, segments = unpack(file.read_bytes())
    assert inside.state_digest == third["state_digest"]
    assert segments == {}
    assert "--force" in ask("export", "--to", file, status=2)
    assert "not a folder" in ask("export", "--to", tmp_path / "none" / "m.onepass", status=2)
    assert unpack(file.read_bytes())[0].events == third["events"]
    assert "--replace" in ask("import", file, status=2)
    assert "is generation 6 now" in ask("import", file, "--replace")
    newest = ask_json("show")
    assert newest["origin"] == "import m.onepass"
    for same in ("state_digest", "events", "positions", "lineage"):
        assert newest[same] == third[same]
    ask("export", "--to", file, "--force")
    assert unpack(file.read_bytes())[0].events == newest["events"]


def test_a_file_stands_alone(tmp_path, redis_url, capsys, monkeypatch):
    """With its whole history, into a store that knows nothing."""
    monkeypatch.setattr(lineage_module, "SEALED_AFTER", 2)
    file = tmp_path / "m.onepass"
    with closing(World(tmp_path, redis_url)) as world:
        for generation in range(6):
            world.learn(5)
            world.recorder.note(Rolled(generation, generation, 0.0))
        world.learn(5)
        before = list(history(world.recorder.lineage()[0], world.store.segment))
        assert (
            asked(capsys, "checkpoints", "export", "--to", file, "--config", world.config)[0] == 0
        )
        with Redis.from_url(redis_url) as client:
            client.flushdb()
        assert asked(capsys, "checkpoints", "import", file, "--config", world.config)[0] == 0
        found = world.begin()
        assert found.manifest.generation == 1
        assert list(history(found.snapshot.lineage, world.store.segment)) == before
        assert len(found.snapshot.lineage.entries) <= 2


def of_a_log(data, log):
    """The golden snapshot's position is of no log; those that learners wrote were."""
    (length,) = struct.unpack("<Q", data[8:16])
    head = data[16 : 16 + length].replace(b'"positions":{"0"', b'"positions":{"%s/0"' % log)
    body = data[:8] + struct.pack("<Q", len(head)) + head + data[16 + length : -32]
    return body + hashlib.sha256(body).digest()


def test_a_file_of_the_first_format(tmp_path, redis_url, capsys):
    config = tmp_path / "m.yaml"
    values = {
        "name": "m",
        "learner": {
            "kind": "scaled",
            "base": {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1:C=0.5"},
        },
        "features": {"columns": ["a", "b"], "bits": 2},
        "label": {"classes": "grow", "max_classes": 3},
        "source": {"url": "file:///nowhere.jsonl"},
        "store": {"url": redis_url},
    }
    config.write_text(yaml.safe_dump(values))
    old = tmp_path / "old.onepass"
    old.write_bytes(of_a_log((GOLDEN / "snapshot-1.bin").read_bytes(), b"file:nowhere.jsonl"))
    assert asked(capsys, "checkpoints", "import", old, "--config", config)[0] == 0
    shown = json.loads(asked(capsys, "checkpoints", "show", "--json", "--config", config)[1])
    assert shown["state_digest"] == decode(old.read_bytes()).state_digest
    assert (shown["events"], shown["origin"]) == (40, "import old.onepass")
    again = tmp_path / "again.onepass"
    assert asked(capsys, "checkpoints", "export", "--to", again, "--config", config)[0] == 0
    assert unpack(again.read_bytes())[0].state_digest == shown["state_digest"]
    status, _, err = asked(capsys, "audit", "--config", config)
    assert status == 3
    assert "its lineage has 0" in err


def test_files_that_are_refused(world, ask, tmp_path):
    file = tmp_path / "m.onepass"
    ask("export", "--to", file)
    damaged = tmp_path / "damaged.onepass"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    assert "damaged" in ask("import", damaged, "--replace", status=2)
    assert "cannot be read" in ask("import", tmp_path / "none", "--replace", status=2)
    damaged.write_bytes((GOLDEN / "delta-2.bin").read_bytes())
    assert "only what changed" in ask("import", damaged, "--replace", status=2)
    values = world.values | {"learner": "pa1:C=0.2"}
    world.config.write_text(yaml.safe_dump(values))
    differs = "learner.C is 0.2 in the configuration and 0.1 in the checkpoint"
    assert differs in ask("import", file, "--replace", status=2)
    assert differs in ask("rollback", "--to", 2, "--rewind", status=2)
    assert differs in ask("rollback", "--to", 2, "--keep-offsets", status=2)
    snapshot, _ = unpack(file.read_bytes())
    arrays = {name: array for name, array in snapshot.arrays.items() if name != "state/updates"}
    damaged.write_bytes(b"".join(encode(snapshot._replace(arrays=arrays)).buffers))
    world.config.write_text(yaml.safe_dump(world.values))
    assert "arrays do not fit this learner: updates" in ask(
        "import", damaged, "--replace", status=2
    )
    assert world.store.newest().generation == 5


def test_a_disk_without_room(ask, monkeypatch, tmp_path):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space" in ask("export", "--to", tmp_path / "m.onepass", status=1)
    assert not list(tmp_path.glob("*.onepass"))
    assert not list(tmp_path.glob(".*"))


def test_freeze_and_unfreeze(world, ask):
    assert "was not frozen" in ask("unfreeze")
    first = ask("freeze")
    assert "frozen since" in first
    assert "at generation 5" in first
    again = ask("freeze")
    assert again.partition(" (")[0] == first.partition(" (")[0], "the first word counts"
    with pytest.raises(Exception, match="taken over"):
        world.learn(10)
    assert "resumes learning; it was frozen since" in ask("unfreeze")
    assert "was not frozen" in ask("unfreeze")
    world.begin()
    assert world.learn(10).generation == 6


def test_a_store_that_is_down(tmp_path, capsys, redis_url):
    with closing(World(tmp_path, redis_url)) as world:
        world.config.write_text(
            yaml.safe_dump(world.values | {"store": {"url": "redis://127.0.0.1:1/0"}})
        )
        for action in ("list", "show", "freeze"):
            status, out, err = asked(capsys, "checkpoints", action, "--config", world.config)
            assert (status, out) == (1, "")
            assert err.startswith("onepass checkpoints: Redis at ")
            assert err.count("\n") == 1


def test_words_for_people():
    assert [format_age(seconds) for seconds in (0.4, 59, 119, 120, 7_200, 200_000)] == [
        "0 s",
        "59 s",
        "119 s",
        "2 min",
        "2 h",
        "2 d",
    ]
    sizes = [format_size(count) for count in (0, 999, 1000, 1_234_567, 5e9)]
    assert sizes == ["0 B", "999 B", "1.0 kB", "1.2 MB", "5.0 GB"]


def test_beside_a_learner_that_runs(tmp_path, redis_url, capsys):
    """It is fenced, begins from what the operator said, and goes on."""
    with closing(World(tmp_path, redis_url)) as world:
        source = {"url": f"{redis_url}/events"}
        world.config.write_text(
            yaml.safe_dump(world.values | {"source": source, "api": {"port": 0}})
        )

    def newest(check):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            out = asked(capsys, "checkpoints", "list", "--json", "--config", world.config)[1]
            generations = json.loads(out)
            if generations and check(generations):
                return generations
            time.sleep(0.1)
        raise AssertionError(f"not in time: {generations}")

    def produce(lines):
        with Redis.from_url(redis_url) as client:
            for line in lines:
                client.xadd("events", {"value": line})

    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_STORE")
    }
    learner = subprocess.Popen(
        [sys.executable, "-m", "service", "learn", "--config", str(world.config)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        produce(events(100))
        first = newest(lambda generations: generations[0]["events"] == 95)[0]
        produce(events(100))
        newest(lambda generations: generations[0]["events"] == 190)
        line = ("rollback", "--to", first["generation"], "--keep-offsets", "--config", world.config)
        assert asked(capsys, "checkpoints", *line)[0] == 0
        assert newest(lambda generations: generations[0]["origin"] != "learned")[0]["events"] == 95
        produce(events(20))
        newest(
            lambda generations: (
                generations[0]["origin"] == "learned" and generations[0]["events"] == 95 + 19
            )
        )
        line = ("rollback", "--to", first["generation"], "--rewind", "--config", world.config)
        assert asked(capsys, "checkpoints", *line)[0] == 0
        newest(lambda generations: generations[0]["events"] == 95 + 95 + 19)
        assert asked(capsys, "audit", "--config", world.config)[:1] == (0,)
    finally:
        learner.terminate()
        _, err = learner.communicate(timeout=30)
    assert learner.returncode == 0, err
