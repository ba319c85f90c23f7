"""Compiled kernels: kept where they can be, made anew where they cannot."""

import os
import subprocess
import sys
from pathlib import Path

TOLD = """
import os
from service.kernel_cache import use_kernel_cache
use_kernel_cache()
print(os.environ["NUMBA_CACHE_DIR"])
"""


def folder(cache):
    environment = os.environ | {"ONEPASS_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", TOLD], env=environment, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()), done.stderr


def test_a_folder_of_the_sources(tmp_path):
    found, told = folder(tmp_path)
    assert (found.parent, found.is_dir(), told) == (tmp_path / "kernels", True, "")
    assert folder(tmp_path)[0] == found


def test_where_nothing_can_be_written_it_ends_with_the_process(tmp_path):
    (tmp_path / "file").touch()
    found, told = folder(tmp_path / "file")
    assert "kernels are not cached" in told
    assert "ONEPASS_CACHE_DIR" in told
    assert tmp_path not in found.parents
    assert not found.exists()
