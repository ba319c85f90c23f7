"""The host against the service: other users, clocks that jump, memory that runs out."""

import os
import random
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from service.__main__ import main
from service.embedded.redis import RedisServer
from tests.chaos.events import MODEL
from tests.chaos.measuring import Stopwatch
from tests.chaos.scale import FIGURES
from tests.faketime import FAKETIME
from tests.integration.processes import START_SECONDS, Process, free_port
from tests.waiting import HANG_SECONDS, wait_for

NOBODY = 65534
CGROUP = Path("/sys/fs/cgroup/memory")
ONLY_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root has other users and control groups"
)
REFUSED = {401, 429}
"""HTTP statuses; 429 follows too many requests with a wrong key."""
LEASE_SECONDS = 1.0


def write_config(config, redis_url, api):
    """Write a configuration that every user can read."""
    settings = {
        "name": "keys",
        **MODEL,
        "source": {"url": f"{redis_url}/keys"},
        "store": {"url": redis_url},
    }
    config.write_text(yaml.safe_dump({**settings, "api": api}))
    config.chmod(0o644)


@ONLY_ROOT
def test_a_service_of_another_user_stops_accepting_a_key_that_root_removed(
    redis_url, capsys, record_figures
):
    folder = Path(tempfile.mkdtemp(prefix="onepass-host-"))
    keys, config = folder / "keys.yaml", folder / "model.yaml"
    port = free_port()

    def new(name):
        assert main(["keys", "new", "--file", str(keys), "--name", name, "--scope", "metrics"]) == 0
        return capsys.readouterr().out.strip()

    try:
        first = new("first")
        folder.chmod(0o755)
        os.chown(keys, NOBODY, NOBODY)
        write_config(config, redis_url, {"port": port, "keys_file": str(keys)})
        service = Process(["run"], config, user=NOBODY)
        wait_for(
            lambda: request_status(port, first) == 200 or service.status is not None,
            "the service answers or ends",
            START_SECONDS,
        )
        assert service.status is None, service.said()
        for number in range(FIGURES.attack_rounds):
            name = f"key-{number}"
            key = new(name)
            wait_for(lambda key=key: request_status(port, key) == 200, "the new key is good")
            assert main(["keys", "remove", "--file", str(keys), "--name", name]) == 0
            wait_for(
                lambda key=key: request_status(port, key) in REFUSED, "the removed key is refused"
            )
            assert request_status(port, first) == 200
        service.kill()
    finally:
        shutil.rmtree(folder)
    record_figures(
        "root removes a key, the service is another user",
        rounds=FIGURES.attack_rounds,
        still_good=0,
    )


def request_status(port, key):
    """Return the HTTP status of /status, asked with a key; 0 while nobody listens. /status needs no
    kernels.
    """
    request = urllib.request.Request(f"http://127.0.0.1:{port}/status")
    request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


class ClockedRedis(RedisServer):
    """A real Redis whose clock libfaketime sets."""

    def __init__(self, folder):
        folder.mkdir()
        super().__init__(folder)
        self._offset = folder / "clock"
        self.ahead = 0
        self.move(0)
        faked = {
            "LD_PRELOAD": FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": self._offset,
            "FAKETIME_NO_CACHE": "1",
        }
        assignments = [f"{name}={value}" for name, value in faked.items()]
        self.command = ("/usr/bin/env", *assignments, "DONT_FAKE_MONOTONIC=1", *self.command)

    def move(self, seconds):
        """Move the clock by this many seconds in one step, as an administrator does; negative moves
        it back.
        """
        self.ahead += seconds
        unfinished = self._offset.with_suffix(".new")
        unfinished.write_text(f"{self.ahead:+d}\n")
        unfinished.replace(self._offset)


@pytest.fixture
def clocked(tmp_path):
    if not FAKETIME.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("no libfaketime: apt-get install libfaketime", pytrace=False)
        pytest.skip("CLOCKS WERE NOT TESTED: apt-get install libfaketime")
    server = ClockedRedis(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


def test_a_successor_need_not_wait_when_the_clock_is_set_back(make_life, clocked, record_figures):
    life = make_life(
        f"{clocked.url}/events",
        clocked.url,
        "back",
        store_settings={"lease_seconds": LEASE_SECONDS},
    )
    draw = random.Random(3)
    waits = []
    for _ in range(FIGURES.attack_rounds):
        life.feed(500)
        learner = life.start("learn")
        life.advance()
        learner.kill()
        clocked.move(-draw.randrange(1, 12) * 3600)
        life.feed(500)
        watch = Stopwatch()
        successor = life.start("learn")
        life.advance()
        waits.append(watch.seconds)
        successor.signal(signal.SIGTERM)
        assert successor.ended() == 0
    life.prove()
    record_figures(
        "Redis' clock set back by hours after kill -9",
        rounds=len(waits),
        longest_wait_seconds=round(max(waits), 1),
    )


def test_a_clock_that_jumps_under_a_pair_of_learners_costs_no_event(
    make_life, clocked, record_figures
):
    life = make_life(
        f"{clocked.url}/events",
        clocked.url,
        "jumps",
        store_settings={"lease_seconds": LEASE_SECONDS},
    )
    draw = random.Random(4)
    pair = [life.start("learn"), life.start("learn")]
    for _ in range(FIGURES.attack_rounds):
        life.feed(1000)
        for seconds in (3600, -7200, draw.randrange(-5, 6), 3600):
            clocked.move(seconds)
            time.sleep(draw.uniform(0.0, 0.5))
        life.advance()
    life.catch_up()
    took_over = sum(process.metrics().get("fenced_total", 0.0) for process in pair)
    for process in pair:
        process.signal(signal.SIGTERM)
    assert [process.ended() for process in pair] == [0, 0]
    life.prove()
    record_figures(
        "Redis' clock jumps under two learners",
        rounds=4 * FIGURES.attack_rounds,
        fenced=int(took_over),
        different=0,
    )


@pytest.fixture
def little_memory():
    """Make a control group that kills a process that takes more memory than it has."""
    if os.geteuid() != 0 or not (CGROUP / "cgroup.procs").exists():
        pytest.skip("control groups of memory (version 1) need root")
    group = CGROUP / f"onepass-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    yield group
    group.rmdir()


def test_a_large_model_that_runs_out_of_memory_leaves_a_whole_checkpoint(
    make_life, redis_url, little_memory, record_figures
):
    """The kernel kills the learner while its names, state and snapshots grow; the next learner has
    enough memory and resumes.
    """
    large = {"features": {**MODEL["features"], "bits": 20}}
    life = make_life(f"{redis_url}/events", redis_url, "memory", **large)
    life.feed(500)
    first = life.start("learn")
    life.advance()
    first.kill()
    ends = []
    for number in range(FIGURES.attack_rounds):
        limit = 40 + 10 * (number % 8)
        (little_memory / "memory.limit_in_bytes").write_text(f"{limit}M")
        life.feed(500)
        learner = life.start("learn", cgroup=str(little_memory))
        wait_for(
            lambda one=learner: one.status is not None or life.events() > life.mark,
            "the learner ends, or has enough memory for a checkpoint",
        )
        ends.append(learner.status)
        learner.kill()
    assert set(ends) <= {
        None,
        1,
        -signal.SIGKILL,
    }, "it runs, or ends with a message, or the kernel kills it"
    killed = sum(end is not None for end in ends)
    assert killed, "no process reached the limit"
    life.prove()
    record_figures(
        "memory limit of a control group", rounds=len(ends), ended_by_it=killed, different=0
    )
