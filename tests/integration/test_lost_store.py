"""The store loses all data while the learner is down: the learner resumes from a file, and starts
fresh only if it is told to.
"""

import json
from itertools import islice

from redis import Redis

from service.embedded.payments import payments
from service.embedded.redis import redis_server
from tests.integration.payments import fill
from tests.integration.processes import Process, onepass, write_config

EVENTS = 3000


def test_an_empty_redis_is_restored_from_the_newest_backup(redis_url, tmp_path):
    log = f"{redis_url}/payments"
    events = list(islice(payments(3, 0), EVENTS))
    fill(log, events[:2000])
    with redis_server(tmp_path / "store") as server:
        backup = {"folder": str(tmp_path / "copies"), "interval_seconds": 0.01}
        store = {"url": server.url, "backup": backup}
        config = write_config(tmp_path / "c.yaml", log, server.url, seconds=0.1, store=store)
        assert Process(["learn", "--until-end"], config).finish()[0] == 0
        with Redis.from_url(server.url) as client:
            client.flushall()
        fill(log, events[2000:])
        status, output = Process(["learn", "--until-end"], config).finish()
    assert status == 0
    final = json.loads(output)
    said = config.with_suffix(".log").read_text()
    assert "restoring the backup of generation" in said
    assert final["checkpoint"]["generation"] > 1, "the generations began again"
    data = tmp_path / "events.jsonl"
    data.write_bytes(b"\n".join(events) + b"\n")
    replayed = json.loads(onepass("replay", data, "--config", config, "--json").stdout)
    assert final["events"] == replayed["events"] == EVENTS
    assert final["checkpoint"]["state_digest"] == replayed["state_digest"]


def test_unreadable_checkpoints_stop_the_learner_until_start_fresh(redis_url, tmp_path):
    log = f"{redis_url}/payments"
    fill(log, list(islice(payments(4, 0), 500)))
    config = write_config(tmp_path / "c.yaml", log, redis_url)
    assert Process(["learn", "--until-end"], config).finish()[0] == 0
    with Redis.from_url(redis_url) as client:
        for key in client.keys("{m:payments}:g:*"):
            client.set(key, b"damage")
    assert Process(["learn", "--until-end"], config).finish()[0] == 3
    said = config.with_suffix(".log").read_text()
    assert "--start-fresh" in said
    status, output = Process(["learn", "--until-end", "--start-fresh"], config).finish()
    assert status == 0
    assert json.loads(output)["events"] == 500
    assert Process(["learn", "--until-end"], config).finish()[0] == 0, (
        "the checkpoints after --start-fresh are unreadable"
    )
