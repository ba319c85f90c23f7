"""Interpreted kernels give the same bits as compiled ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from tests.learners.digests import digests

SCRIPT = Path(__file__).with_name("digests.py")


@pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="this run is interpreted: there is nothing to compare it with"
)
def test_interpreted_gives_the_same_bits():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(SCRIPT.parents[2])}
    with subprocess.Popen(
        [sys.executable, SCRIPT], env=environment, stdout=subprocess.PIPE
    ) as interpreted:
        compiled = digests()
        assert json.load(interpreted.stdout) == compiled
    assert interpreted.returncode == 0
