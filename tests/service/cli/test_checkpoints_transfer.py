"""`onepass checkpoints export` and `import` move a model in a file from store to store."""

import hashlib
import json
import os
import struct
from contextlib import closing
from pathlib import Path

import yaml
from redis import Redis

from service.checkpoint import lineage as lineage_module
from service.checkpoint.export import unpack
from service.checkpoint.lineage import Rolled, history
from service.checkpoint.snapshot import decode, encode
from tests.service.cli.command_line import run_command
from tests.service.cli.five_generations import (  # noqa: F401  # fixtures
    ask_fixture,
    ask_json_fixture,
    world_fixture,
)
from tests.service.operations.checkpoint_history import World

GOLDEN = Path(__file__).parents[1] / "golden"


def test_export_and_import_keep_the_state(ask, ask_json, tmp_path):
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


def test_an_export_needs_no_other_store(tmp_path, redis_url, capsys, monkeypatch):
    """It contains the whole history, so it can be imported into an empty store."""
    monkeypatch.setattr(lineage_module, "SEALED_AFTER", 2)
    file = tmp_path / "m.onepass"
    with closing(World(tmp_path, redis_url)) as world:
        for generation in range(6):
            world.learn(5)
            world.recorder.note(Rolled(generation, generation, 0.0))
        world.learn(5)
        before = list(history(world.recorder.lineage()[0], world.store.segment))
        assert (
            run_command(capsys, "checkpoints", "export", "--to", file, "--config", world.config)[0]
            == 0
        )
        with Redis.from_url(redis_url) as client:
            client.flushdb()
        assert run_command(capsys, "checkpoints", "import", file, "--config", world.config)[0] == 0
        found = world.begin()
        assert found.manifest.generation == 1
        assert list(history(found.snapshot.lineage, world.store.segment)) == before
        assert len(found.snapshot.lineage.entries) <= 2


def add_log_name(data, log):
    """Add a log's name to the position: the golden snapshot lacks it, but learners
    always wrote it.
    """
    (length,) = struct.unpack("<Q", data[8:16])
    head = data[16 : 16 + length].replace(b'"positions":{"0"', b'"positions":{"%s/0"' % log)
    body = data[:8] + struct.pack("<Q", len(head)) + head + data[16 + length : -32]
    return body + hashlib.sha256(body).digest()


def test_a_file_of_the_first_format_is_imported(tmp_path, redis_url, capsys):
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
    old.write_bytes(add_log_name((GOLDEN / "snapshot-1.bin").read_bytes(), b"file:nowhere.jsonl"))
    assert run_command(capsys, "checkpoints", "import", old, "--config", config)[0] == 0
    shown = json.loads(run_command(capsys, "checkpoints", "show", "--json", "--config", config)[1])
    assert shown["state_digest"] == decode(old.read_bytes()).state_digest
    assert (shown["events"], shown["origin"]) == (40, "import old.onepass")
    again = tmp_path / "again.onepass"
    assert run_command(capsys, "checkpoints", "export", "--to", again, "--config", config)[0] == 0
    assert unpack(again.read_bytes())[0].state_digest == shown["state_digest"]
    status, _, err = run_command(capsys, "audit", "--config", config)
    assert status == 3
    assert "its lineage has 0" in err


def test_unsuitable_files_are_refused(world, ask, tmp_path):
    file = tmp_path / "m.onepass"
    ask("export", "--to", file)
    damaged = tmp_path / "damaged.onepass"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    assert "damaged" in ask("import", damaged, "--replace", status=2)
    assert "cannot be read" in ask("import", tmp_path / "none", "--replace", status=2)
    damaged.write_bytes((GOLDEN / "delta-2.bin").read_bytes())
    assert "only the changes" in ask("import", damaged, "--replace", status=2)
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


def test_export_to_a_full_disk_leaves_no_file(ask, monkeypatch, tmp_path):
    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert "No space" in ask("export", "--to", tmp_path / "m.onepass", status=1)
    assert not list(tmp_path.glob("*.onepass"))
    assert not list(tmp_path.glob(".*"))
