"""Compiled kernels are cached where possible and recompiled where not; no error of the cache
prevents a start.
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


def run_code(code, cache, **options):
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
    done = run_code(TOLD, cache)
    return Path(done.stdout.strip()), done.stderr


def compute(cache, **options):
    """Run a kernel in a new process; return how many versions came from the cache, and the lines it
    logged.
    """
    done = run_code(COMPUTES, cache, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout.split()[-1]), done.stderr.splitlines()


def small_files():
    """Limit the size of files: a write fails as on a full disk, even for root, and without mounting
    a disk.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


@contextmanager
def full_disk(path, free=0):
    """Mount a disk of 256 KiB with this many bytes free."""
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


def check_one_warning(lines, where):
    (line,) = [json.loads(line) for line in lines]
    assert line["level"] == "WARNING"
    assert "kernels are not cached" in line["message"]
    assert str(where) in line["message"]
    assert "ONEPASS_CACHE_DIR" in line["message"]


def test_the_cache_folder_depends_on_the_sources(tmp_path):
    found, told = folder(tmp_path)
    assert (found.parent, found.is_dir(), told) == (tmp_path / "kernels", True, "")
    assert folder(tmp_path)[0] == found


def test_compiled_kernels_are_loaded_from_the_cache(tmp_path):
    assert compute(tmp_path) == (0, [])
    assert compute(tmp_path) == (2, [])


def test_an_impossible_folder_is_one_warning_and_nothing_is_written(tmp_path):
    (tmp_path / "file").touch()
    hits, lines = compute(tmp_path / "file")
    assert hits == 0
    check_one_warning(lines, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_is_one_warning(tmp_path):
    hits, lines = compute(tmp_path, preexec_fn=small_files)
    assert hits == 0
    check_one_warning(lines, tmp_path)
    assert compute(tmp_path) == (0, []), "the next process found an incomplete file"
    assert compute(tmp_path) == (2, [])


@pytest.mark.parametrize("free", [0, 4096], ids=["full at the start", "room for an index alone"])
def test_a_full_disk_is_one_warning(tmp_path, free):
    with full_disk(tmp_path / "disk", free) as disk:
        hits, lines = compute(disk)
        assert hits == 0
        check_one_warning(lines, disk)
        (disk / "filler").unlink()
        compute(disk)
        assert compute(disk) == (2, [])


@pytest.mark.parametrize(("suffix", "content"), [(".nbi", b""), (".nbc", b"\x80\x04")])
def test_a_damaged_file_is_compiled_again(tmp_path, suffix, content):
    """A power cut leaves such a file: with its name, but without its content."""
    compute(tmp_path)
    (damaged, *_) = tmp_path.rglob(f"*sq_norm*{suffix}")
    damaged.write_bytes(content)
    hits, lines = compute(tmp_path)
    assert hits < 2
    check_one_warning(lines, tmp_path)
    assert compute(tmp_path) == (2, []), "the damaged file must have been replaced"


def test_only_one_process_writes_at_a_time(tmp_path):
    """Otherwise two processes that compile two versions of a kernel could use the same
    file name.
    """
    assert run_code(WRITES, tmp_path).stdout.split() == ["locked", "locked"]
