"""docs/client.py as its readers run it: against a service that learns."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

from service.cli.payments import payments
from tests.integration.processes import environment, running, wait_for, write_config
from tests.integration.test_roles import fill

EXAMPLE = Path(__file__).parents[2] / "docs" / "client.py"


def example(port):
    command = [sys.executable, EXAMPLE, f"http://127.0.0.1:{port}"]
    environment_of_it = environment() | {"PYTHONPATH": str(EXAMPLE.parents[1])}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment_of_it)


def test_the_example(redis_url, tmp_path):
    fill(f"{redis_url}/payments", list(islice(payments(1, 0), 2000)))
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url)
    with running("run", config) as process:
        process.answers("/readyz", 200, 60)
        wait_for(lambda: process.get("/status")[1]["events"] == 2000, 20, "the payments")
        done = example(process.port)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].endswith("after 2000 events")
        assert lines[1].endswith("of 200 amounts look like fraud")
        assert "partition 0, position " in lines[2]
        wait_for(lambda: process.get("/status")[1]["events"] == 2001, 20, "the event is learned")
    assert example(process.port).returncode == 1, "nobody is there any more"
