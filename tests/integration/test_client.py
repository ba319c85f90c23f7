"""The example of the client's page, run as its readers do, against a service that learns."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import yaml

from service.embedded.payments import payments
from service.server.api_keys import digest_of, new_key
from tests.integration.payments import fill
from tests.integration.processes import free_port, running, write_config
from tests.waiting import HANG_SECONDS, wait_for
from tests.zygote import environment

EXAMPLE = Path(__file__).parents[2] / "docs" / "client.py"


def example(*arguments, **variables):
    command = [sys.executable, EXAMPLE, *arguments]
    environment_of_it = environment() | {"PYTHONPATH": str(EXAMPLE.parents[1])} | variables
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
        env=environment_of_it,
    )


def test_the_example_predicts_and_sends_an_event(redis_url, tmp_path):
    fill(f"{redis_url}/payments", list(islice(payments(1, 0), 2000)))
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url)
    with running("run", config) as process:
        url = f"http://127.0.0.1:{process.port}"
        process.answers("/readyz", 200)
        wait_for(lambda: process.get("/status")[1]["events"] == 2000, "the payments")
        done = example(url)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].endswith("after 2000 events")
        assert lines[1].endswith("of 200 amounts look like fraud")
        assert "partition 0, position " in lines[2]
        wait_for(lambda: process.get("/status")[1]["events"] == 2001, "the event is learned")
    assert example(url).returncode == 1, "the service has stopped"


def test_wrong_usage_of_the_example_prints_its_usage(tmp_path):
    for arguments, words in (
        (["127.0.0.1:8000"], "url"),
        (["--nonsense"], "--nonsense"),
        (["https://127.0.0.1:1", "--ca-file", str(tmp_path / "none")], "No such file"),
    ):
        done = example(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: ")
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    usage = example("--help").stdout
    for word in ("--key", "--ca-file", "--cert-file", "http://127.0.0.1:8001"):
        assert word in usage


def test_the_example_sends_its_key_and_never_prints_it(tmp_path, redis_url):
    secret = new_key()
    keys = tmp_path / "keys.yaml"
    keys.write_text(
        yaml.safe_dump([{"name": "app", "sha256": digest_of(secret), "scopes": ["predict"]}])
    )
    config = write_config(
        tmp_path / "c.yaml",
        f"{redis_url}/p",
        redis_url,
        api={"port": free_port(), "keys_file": str(keys)},
    )
    with running("run", config) as process:
        process.answers("/readyz", 200)
        url = f"http://127.0.0.1:{process.port}"
        assert "401 unauthorized: no API key" in example(url).stderr
        for done in (example(url, "--key", secret), example(CLIENT_URL=url, CLIENT_KEY=secret)):
            assert "after 0 events" in done.stdout
            assert "403 forbidden" in done.stderr, "the key has no scope for events"
            assert secret not in done.stdout + done.stderr
