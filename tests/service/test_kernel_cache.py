"""Compiled kernels: kept where they can be, made anew where they cannot; nothing about the cache
stops a start.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

TOLD = """
import os
from service.kernel_cache import use_kernel_cache
use_kernel_cache()
print(os.environ["NUMBA_CACHE_DIR"])
"""
COMPUTES = """
import sys
from service.kernel_cache import use_kernel_cache
from service.logs import set_up
set_up(structured=True)
use_kernel_cache()
import numpy as np
from learners.jit import sq_norm
for number in (np.float64, np.int64):  # two versions of the kernel, each to be kept
    assert sq_norm(np.ones(3, number)) == 3.0
    print(sum(sq_norm.stats.cache_hits.values()), file=sys.stdout)
"""
WRITES = """
import fcntl
from pathlib import Path
from service.kernel_cache import use_kernel_cache
use_kernel_cache()
import numpy as np
from numba.core.caching import IndexDataCacheFile
from learners.jit import sq_norm

def watched(write):
    def around(self, *arguments):
        with (Path(sq_norm.stats.cache_path) / ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                print("free")
            except BlockingIOError:
                print("locked")
        write(self, *arguments)
    return around

IndexDataCacheFile._save_index = watched(IndexDataCacheFile._save_index)
IndexDataCacheFile._save_data = watched(IndexDataCacheFile._save_data)
sq_norm(np.ones(3))
"""


def ran(code, cache, **options):
    environment = os.environ | {"ONEPASS_CACHE_DIR": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def folder(cache):
    done = ran(TOLD, cache)
    return Path(done.stdout.strip()), done.stderr


def computed(cache, **options):
    """Run a kernel in a new process; how many versions came out of the cache, and the lines that it
    said.
    """
    done = ran(COMPUTES, cache, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout.split()[-1]), done.stderr.splitlines()


def small_files():
    """No file may grow beyond this: a write fails as on a full disk, also for root, and without a
    disk of its own.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


@contextmanager
def full_disk(path, free=0):
    """A disk of 256 KiB with so many bytes left."""
    path.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path)]
    if (
        os.geteuid() != 0
        or subprocess.run(mounted, capture_output=True, check=False).returncode != 0
    ):
        pytest.skip("a disk can be mounted by root alone")
    try:
        (path / "filler").write_bytes(bytes(shutil.disk_usage(path).free - free))
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def is_one_warning(lines, where):
    (line,) = [json.loads(line) for line in lines]
    assert line["level"] == "WARNING"
    assert "kernels are not cached" in line["message"]
    assert str(where) in line["message"]
    assert "ONEPASS_CACHE_DIR" in line["message"]


def test_a_folder_of_the_sources(tmp_path):
    found, told = folder(tmp_path)
    assert (found.parent, found.is_dir(), told) == (tmp_path / "kernels", True, "")
    assert folder(tmp_path)[0] == found


def test_what_was_compiled_is_found_again(tmp_path):
    assert computed(tmp_path) == (0, [])
    assert computed(tmp_path) == (2, [])


def test_without_a_folder_it_goes_on_and_writes_nowhere_else(tmp_path):
    (tmp_path / "file").touch()
    hits, lines = computed(tmp_path / "file")
    assert hits == 0
    is_one_warning(lines, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_is_one_warning(tmp_path):
    hits, lines = computed(tmp_path, preexec_fn=small_files)
    assert hits == 0
    is_one_warning(lines, tmp_path)
    assert computed(tmp_path) == (0, []), "the next one, with room, finds nothing half written"
    assert computed(tmp_path) == (2, [])


@pytest.mark.parametrize("free", [0, 4096], ids=["full at the start", "room for an index alone"])
def test_a_full_disk_is_one_warning(tmp_path, free):
    with full_disk(tmp_path / "disk", free) as disk:
        hits, lines = computed(disk)
        assert hits == 0
        is_one_warning(lines, disk)
        (disk / "filler").unlink()
        computed(disk)
        assert computed(disk) == (2, [])


@pytest.mark.parametrize(("suffix", "content"), [(".nbi", b""), (".nbc", b"\x80\x04")])
def test_a_damaged_file_is_compiled_again(tmp_path, suffix, content):
    """As a power cut leaves one: the name is there, the content is not."""
    computed(tmp_path)
    (damaged, *_) = tmp_path.rglob(f"*sq_norm*{suffix}")
    damaged.write_bytes(content)
    hits, lines = computed(tmp_path)
    assert hits < 2
    is_one_warning(lines, tmp_path)
    assert computed(tmp_path) == (2, []), "and is healed"


def test_only_one_process_writes_at_a_time(tmp_path):
    """Two that compile two versions of a kernel could otherwise give both the same file."""
    assert ran(WRITES, tmp_path).stdout.split() == ["locked", "locked"]
