"""Models moved by files on a real Redis: their history comes along, and hostile files never reach
the store.
"""

from contextlib import closing

import msgspec
import numpy as np
import pytest
import yaml
from redis import Redis

from service.checkpoint import lineage as lineage_module
from service.checkpoint.export import unpack
from service.checkpoint.lineage import Rolled, history
from service.checkpoint.snapshot import Snapshot, UnwritableSnapshotError, encode
from service.config.settings import Backup
from service.sources.base import Bookmark
from service.storage.file_backup import FileBackup
from tests.service.cli.command_line import run_command
from tests.service.operations.checkpoint_history import World


@pytest.fixture
def world(tmp_path, redis_url, monkeypatch):
    """A world whose history has seven segments of two entries, and open last entries."""
    monkeypatch.setattr(lineage_module, "SEALED_AFTER", 2)
    with closing(World(tmp_path, redis_url)) as world:
        for generation in range(7):
            world.recorder.note(Rolled(generation, generation, 0.0))
            world.learn(5)
        yield world


@pytest.fixture
def run(world, capsys):
    def run(action, *arguments, status=0):
        got, out, err = run_command(
            capsys, "checkpoints", action, *arguments, "--config", world.config
        )
        assert got == status, err
        assert "Traceback" not in err
        if status:
            assert err.count("\n") == 1
        return out, err

    return run


def read_history(world):
    found = world.begin()
    return list(history(found.snapshot.lineage, world.store.segment))


def flush(redis_url):
    with Redis.from_url(redis_url) as client:
        client.flushdb()


def newest(world) -> Snapshot:
    return world.store.read(world.store.newest()).with_digest()


def back_up(world, folder):
    """Write the newest generation as a file backup, as a learner does."""
    FileBackup(Backup(folder=folder), "m").offer(7, newest(world), world.store.segment)
    (path,) = folder.glob("*.onepass")
    return path


def test_an_imported_backup_brings_its_history(world, run, tmp_path, redis_url):
    before = read_history(world)
    path = back_up(world, tmp_path / "copies")
    flush(redis_url)
    assert run("import", path)[1] == ""
    assert read_history(world) == before


def test_a_backup_without_its_history_is_imported_with_a_warning(world, run, tmp_path, redis_url):
    path = back_up(world, tmp_path / "copies")
    for segment in path.parent.glob("*.history"):
        segment.unlink()
    assert run("import", path, "--replace")[1] == "", (
        "the store still has the history, so there must be no warning"
    )
    flush(redis_url)
    out, err = run("import", path)
    assert "is generation 1 now" in out
    assert "the history is incomplete (segment" in err
    assert "`onepass audit` will not reach back" in err
    assert err.count("\n") == 1
    assert world.begin().snapshot.events > 0


def test_a_long_history_is_not_part_of_the_header(world, run, tmp_path, monkeypatch, redis_url):
    before, file = read_history(world), tmp_path / "m.onepass"
    sealed = world.recorder.lineage()[0].sealed
    with monkeypatch.context() as patch:
        patch.setattr("service.checkpoint.snapshot.LONGEST_HEADER", 2800)
        run("export", "--to", file)
        snapshot, segments = unpack(file.read_bytes())
        every = tuple(history(snapshot.lineage, segments.get))
        with pytest.raises(UnwritableSnapshotError):
            encode(
                snapshot._replace(lineage=msgspec.structs.replace(snapshot.lineage, entries=every))
            )
        assert snapshot.lineage.sealed == sealed == next(iter(segments))
        assert len(segments) == 6
        flush(redis_url)
        assert run("import", file)[1] == ""
    assert read_history(world) == before


def test_an_export_of_an_incomplete_history_warns(world, run, tmp_path, redis_url):
    names = list(lineage_module.segments_of(world.recorder.lineage()[0], world.store.segment))
    with Redis.from_url(redis_url) as client:
        client.delete(f"{{m:m}}:l:{names[3]}")
    file = tmp_path / "m.onepass"
    out, err = run("export", "--to", file)
    assert "generation 7 to" in out
    assert f"the history is incomplete (segment {names[3][:12]}" in err
    assert list(unpack(file.read_bytes())[1]) == names[:3]


def counts(events, errors):
    return {"progress/events": np.array([events]), "progress/errors": np.array([errors])}


HOSTILE = {
    "a strange array": (lambda s: s._replace(arrays=s.arrays | {"evil/x": np.zeros(1)}), "evil/x"),
    "a class of a binary model": (lambda s: s._replace(classes=["a"]), "1 classes"),
    "another log": (
        lambda s: s._replace(bookmark=Bookmark({"kafka:other/0": "3"}, {})),
        "the log kafka:other",
    ),
    "a log without a name": (
        lambda s: s._replace(bookmark=Bookmark({"0": "3"}, {})),
        "a log without a name",
    ),
    "no position": (lambda s: s._replace(bookmark=Bookmark({}, {})), "no position in the log"),
    "no label": (
        lambda s: s._replace(model={name: s.model[name] for name in ("learner", "features")}),
        "'label'",
    ),
    "counts below 0": (lambda s: s._replace(arrays=s.arrays | counts(-1, 0)), "impossible"),
    "too many errors": (lambda s: s._replace(arrays=s.arrays | counts(3, 4)), "impossible"),
    "a long position": (
        lambda s: s._replace(bookmark=Bookmark({"file:events.jsonl/0": "9" * 5000}, {})),
        "length",
    ),
    "a long mark": (
        lambda s: s._replace(bookmark=s.bookmark._replace(marks={"0": "9" * 5000})),
        "length",
    ),
}


@pytest.fixture
def careless(monkeypatch):
    """Writes files as an attacker would, with content that `encode` refuses."""

    def write(path, snapshot):
        with monkeypatch.context() as patch:
            patch.setattr("service.checkpoint.snapshot._decode_header", lambda *_, **__: None)
            path.write_bytes(b"".join(encode(snapshot).buffers))
        return path

    return write


@pytest.mark.parametrize(("change", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(world, run, tmp_path, careless, change, words):
    file = careless(tmp_path / "evil.onepass", change(newest(world)))
    out, err = run("import", file, "--replace", status=2)
    assert out == ""
    assert words in err
    assert world.store.newest().generation == 7


@pytest.mark.parametrize("name", ["a strange array", "a class of a binary model", "no label"])
def test_a_learner_that_loads_an_unfit_checkpoint_stops_with_one_line(world, capsys, name):
    """This holds however the checkpoint came into the store."""
    world.store.restate(HOSTILE[name][0](newest(world)))
    world.store.close()
    world.config.write_text(yaml.safe_dump(world.values | {"api": {"port": 0}}))
    status, _, err = run_command(capsys, "learn", "--config", world.config)
    assert status == 3
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("onepass learn: stopped to protect the state: the checkpoint ")
    assert HOSTILE[name][1] in last
