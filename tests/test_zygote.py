"""The zygote forks processes of `onepass` and reports how they ended."""

import signal
from concurrent.futures import ThreadPoolExecutor

from tests.waiting import wait_for
from tests.zygote import Fork, zygote

THREADS = 8


def test_several_threads_get_the_same_status(tmp_path):
    """A watcher asks while the test does, but the system reports a status only once."""
    process = Fork(["learners"], tmp_path / "out", tmp_path / "err")
    wait_for(lambda: zygote().status(process.pid) is not None, "the process ends")
    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(zygote().status, [process.pid] * THREADS)) == [0] * THREADS
    assert process.ended() == 0
    assert "perceptron" in (tmp_path / "out").read_text()


def test_a_killed_process_has_a_negative_status(tmp_path):
    process = Fork(["demo", "--seconds", "600", "--port", "0"], tmp_path / "out", tmp_path / "err")
    process.signal(signal.SIGKILL)
    assert process.ended() == -signal.SIGKILL
    assert Fork(["learners", "nothing"], tmp_path / "out", tmp_path / "err").ended() == 2
