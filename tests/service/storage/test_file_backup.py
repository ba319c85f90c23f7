"""File backups are complete or absent, whatever fails and whenever; damage is noticed, and an older
backup is used.
"""

import errno
import hashlib
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from service.checkpoint.snapshot import decode, encode
from service.checkpoint.store import CorruptCheckpointError
from service.storage import file_backup as module
from tests.looped import check_each
from tests.service.storage.backups import HISTORY, SEGMENTS, folder_of, save_generations, snapshot


def names(path):
    return sorted(file.name for file in path.iterdir())


def check_whole(path):
    """Every file with the name of a backup is a complete one."""
    for file in path.glob("*.onepass"):
        decode(file.read_bytes())
    for file in path.glob("*.history"):
        assert hashlib.sha256(file.read_bytes()).hexdigest() == file.stem


def test_the_newest_backup_is_read(tmp_path):
    backup = folder_of(tmp_path / "not" / "yet", keep=3)
    assert backup.newest() is None
    save_generations(backup, 1, 2, 3, 4, 12, segments=SEGMENTS)
    generation, found = backup.newest()
    assert (generation, found.events) == (12, 12)
    (segment,) = SEGMENTS
    assert names(tmp_path / "not" / "yet") == [
        f"{segment}.history",
        "m-000000000003.onepass",
        "m-000000000004.onepass",
        "m-000000000012.onepass",
    ]
    assert backup.segment(segment) == HISTORY


def test_models_that_share_a_folder_keep_apart(tmp_path):
    one, two = folder_of(tmp_path, "a", keep=1), folder_of(tmp_path, "a-000000000007", keep=1)
    save_generations(one, 1)
    save_generations(two, 2)
    save_generations(one, 3)
    assert names(tmp_path) == ["a-000000000003.onepass", "a-000000000007-000000000002.onepass"]
    assert one.newest()[0] == 3
    assert two.newest()[0] == 2


def test_a_backup_is_due_after_each_interval(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    backup = folder_of(tmp_path, interval_seconds=60)
    assert backup.due()
    save_generations(backup, 1)
    assert not backup.due()
    now = 59.9
    assert not backup.due()
    now = 60.0
    assert backup.due()
    monkeypatch.setattr(
        module, "write_atomically", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
    )
    with pytest.raises(OSError, match="full"):
        save_generations(backup, 2)
    assert not backup.due(), "a full disk must not be tried at every checkpoint"


def test_a_segment_must_be_named_by_its_hash(tmp_path):
    backup = folder_of(tmp_path / "copies")
    (tmp_path / "x.history").write_bytes(b"secret")
    assert backup.segment("../x") is None
    assert backup.segment("0" * 64) is None
    with pytest.raises(OSError, match="not the name"):
        save_generations(backup, 1, segments={"../x": b""})


def test_backups_of_an_abandoned_history_are_set_aside(tmp_path, caplog):
    backup = folder_of(tmp_path)
    save_generations(backup, 5, 6)
    save_generations(backup, 2)
    assert names(tmp_path) == [
        "m-000000000002.onepass",
        "m-000000000005.onepass.left",
        "m-000000000006.onepass.left",
    ]
    assert backup.newest()[0] == 2
    assert "set aside" in caplog.text


def fail_at(monkeypatch, turn, error):
    """Let the n-th call that touches the disk fail."""
    calls = []

    def patch_call(owner, name):
        real = getattr(owner, name)

        def call(*arguments, **options):
            calls.append(name)
            if len(calls) == turn:
                raise error
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((os, "fsync"), (os, "open"), (os, "close")):
        patch_call(owner, name)
    for name in ("open", "replace", "unlink", "exists"):
        patch_call(module.Path, name)
    return calls


class Died(BaseException):
    """The process is gone."""


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "broken disk"), Died()], ids=["error", "death"]
)
def test_a_failure_at_any_step_leaves_only_complete_files(tmp_path, monkeypatch, error):
    check_each(
        (
            f"step {turn}",
            partial(check_failure_at, tmp_path / str(turn), monkeypatch, turn, error),
        )
        for turn in range(1, 30)
    )


def check_failure_at(folder, monkeypatch, turn, error):
    backup = folder_of(folder, keep=2)
    save_generations(backup, 1, 2)
    with monkeypatch.context() as patch:
        calls = fail_at(patch, turn, error)
        outcome = None
        try:
            save_generations(backup, 3, segments=SEGMENTS)
        except (OSError, Died) as failure:
            outcome = failure
        # Either the step itself failed, or there were fewer steps.
        assert (outcome is error) == (len(calls) >= turn)
    check_whole(folder)
    generation, found = folder_of(folder).newest()
    assert generation == found.events
    assert generation in {2, 3}
    assert generation == 3 or outcome is not None
    save_generations(folder_of(folder, keep=2), 4, segments=SEGMENTS)
    assert not list(folder.glob("*.part")), "the parts that a dead process left must be removed"
    assert folder_of(folder).newest()[0] == 4
    assert folder_of(folder).segment(next(iter(SEGMENTS))) == HISTORY


KILLED = """
import os, signal, sys
from pathlib import Path
from service.storage.file_backup import FileBackup
from service.config.settings import Backup
from service.checkpoint.snapshot import decode, encode
real = os.fsync
turns = iter(range(int(sys.argv[2])))
def fsync(descriptor):
    if next(turns, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    real(descriptor)
os.fsync = fsync
folder = FileBackup(Backup(folder=Path(sys.argv[1])), "m")
generation, snapshot = folder.newest()
while True:
    generation += 1
    folder.save(generation, encode(snapshot), {})
"""


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_a_killed_process_leaves_only_complete_files(tmp_path, turn):
    save_generations(folder_of(tmp_path), 1)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(turn)], check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    check_whole(tmp_path)
    # Each of the generations 2, 3, … syncs file and folder: two calls.
    assert folder_of(tmp_path).newest()[0] == 1 + (turn + 1) // 2
    save_generations(folder_of(tmp_path), 9)
    assert not list(tmp_path.glob("*.part"))


@contextmanager
def little_space():
    """Limit files of this process to 4096 bytes: the kernel itself refuses, as on a full disk.

    It is no fixture, which would still hold while pytest writes its own report.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_an_error_and_keeps_older_backups(tmp_path):
    backup = folder_of(tmp_path)
    save_generations(backup, 1)
    large = encode(snapshot(2, size=10_000))
    with pytest.raises(OSError, match="too large"), little_space():
        backup.save(2, large, {})
    assert names(tmp_path) == ["m-000000000001.onepass"]
    assert backup.newest()[0] == 1
    save_generations(backup, 3)
    assert backup.newest()[0] == 3


def test_an_impossible_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    backup = folder_of(tmp_path / "file" / "copies")
    with pytest.raises(OSError, match="Not a directory"):
        save_generations(backup, 1)
    with pytest.raises(CorruptCheckpointError, match="cannot be read"):
        backup.newest()


def test_every_damaged_backup_is_skipped_and_named(tmp_path, caplog):
    backup = folder_of(tmp_path)
    save_generations(backup, 1, 2)
    newest = tmp_path / "m-000000000002.onepass"
    whole = newest.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        newest.write_bytes(damaged)
        caplog.clear()
        assert backup.newest()[0] == 1
        assert str(newest) in caplog.text
    for length in (0, 1, 47, len(whole) - 1):
        newest.write_bytes(whole[:length])
        assert backup.newest()[0] == 1


def test_a_delta_is_not_used_as_a_backup(tmp_path):
    backup = folder_of(tmp_path)
    save_generations(backup, 1)
    delta = snapshot(2)
    delta.arrays["slots"] = np.array([0])
    backup.save(2, encode(delta), {})
    assert backup.newest()[0] == 1


def test_a_folder_with_only_damaged_backups_is_an_error(tmp_path):
    backup = folder_of(tmp_path)
    save_generations(backup, 1, 2)
    for path in tmp_path.iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(CorruptCheckpointError, match="none of the 2 copies"):
        backup.newest()
