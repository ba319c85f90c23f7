"""`onepass checkpoints rollback` makes an earlier state the newest; a learner continues from it."""

import json
import os
import subprocess
import sys
from contextlib import closing

import pytest
import yaml
from redis import Redis

from service.checkpoint.lineage import Lost, Rolled, Run, history
from service.checkpoint.store import FencedError
from service.storage import RedisStore
from tests.service.cli.command_line import run_command
from tests.service.cli.five_generations import (  # noqa: F401  # fixtures
    ask_fixture,
    ask_json_fixture,
    world_fixture,
)
from tests.service.operations.checkpoint_history import World, events, learn_to_end
from tests.waiting import HANG_SECONDS, wait_for


def test_rollback_with_rewind_learns_later_events_again(world, ask, ask_json):
    out = ask("rollback", "--to", 2, "--rewind")
    assert "generation 6 has the state of generation 2" in out
    assert "learned again" in out
    newest, second = ask_json("show"), ask_json("show", "--generation", 2)
    assert (newest["generation"], newest["origin"]) == (6, "rollback to 2")
    for same in ("state_digest", "events", "errors", "positions", "marks", "rejects"):
        assert newest[same] == second[same]
    world.begin()
    entries = list(history(world.recorder.lineage()[0], world.store.segment))
    assert entries[0] == Run("0", "0", "80", 80)
    assert (entries[1].back_to, entries[1].newest) == (2, 5)
    world.learn(120)
    assert ask_json("show")["state_digest"] == ask_json("show", "--generation", 5)["state_digest"]
    assert ask_json("show")["lineage"]["rolled_back"] == 1


def test_rollback_with_kept_offsets_leaves_later_events_unlearned(world, ask, ask_json):
    out = ask("rollback", "--to", 2, "--keep-offsets")
    assert "stay unlearned" in out
    assert "partition 0 from 80 to 200, 120 events" in out
    newest, second = ask_json("show"), ask_json("show", "--generation", 2)
    assert newest["state_digest"] == second["state_digest"]
    assert newest["positions"] == ask_json("show", "--generation", 5)["positions"]
    lost = {"partition": "0", "start": "80", "end": "200", "events": 120, "reason": "rolled_back"}
    assert newest["lost"] == [lost]
    found = world.begin()
    assert [type(entry) for entry in found.snapshot.lineage.entries] == [Run, Rolled, Lost]
    world.learn(10)
    assert world.recorder.lineage()[0].entries[-1] == Run("0", "200", "210", 10)


def test_rollback_from_a_damaged_generation_needs_rewind(ask, ask_json, redis_url):
    """The offsets of the damaged generation are lost."""
    with Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter("{m:m}:g:5:*"))
    ask("show", status=3)
    assert "generation 5" in ask("rollback", "--to", 4, "--keep-offsets", status=3)
    ask("rollback", "--to", 4, "--rewind")
    assert ask_json("show")["positions"] == {"file:events.jsonl/0": "160"}


def test_rollback_that_always_loses_to_a_learner_ends_with_status_1(world, ask, monkeypatch):
    """The usage was right, so the status is 1."""
    monkeypatch.setattr(RedisStore, "restate", lose_every_race)
    err = ask("rollback", "--to", 2, "--rewind", status=1)
    assert "freeze the model first" in err
    assert world.store.newest().generation == 5


def lose_every_race(*_, **__):
    raise FencedError("generation 6 was written meanwhile")


def test_rollback_to_events_that_the_log_lost_needs_force(world, ask, ask_json):
    world.path.write_text("\n".join(events(60)) + "\n")
    err = ask("rollback", "--to", 2, "--rewind", status=2)
    assert "cannot be learned again: " in err
    assert "position 80 is not among its 60 rows" in err
    assert "--keep-offsets" in err
    assert "--force" in err
    assert world.store.newest().generation == 5
    out = ask("rollback", "--to", 2, "--rewind", "--force")
    assert "positions: those of generation 2, though " in out
    assert "source.on_data_loss" in out
    assert "learned again" not in out
    assert ask_json("show")["origin"] == "rollback to 2"


def test_rollback_with_an_unreachable_log_warns(world, capsys):
    world.path.unlink()
    line = ("rollback", "--to", 2, "--rewind", "--config", world.config)
    status, out, err = run_command(capsys, "checkpoints", *line)
    assert status == 0
    assert "could not check" in err
    assert err.count("\n") == 1
    assert "learned again" in out


def test_rollback_with_a_recreated_stream_is_refused(tmp_path, redis_url, capsys):
    with closing(World(tmp_path, redis_url)) as world:
        config = world.config
        config.write_text(
            yaml.safe_dump(
                world.values | {"source": {"url": f"{redis_url}/events"}, "api": {"port": 0}}
            )
        )
    with Redis.from_url(redis_url) as client:
        for _ in range(2):
            for line in events(50):
                client.xadd("events", {"value": line})
            learn_to_end(capsys, config)
        client.delete("events")
        client.xadd("events", {"value": "x"}, id="1-1")
    status, _, err = run_command(
        capsys, "checkpoints", "rollback", "--to", 1, "--rewind", "--config", config
    )
    assert status == 2
    assert "it is another stream" in err
    assert "source.on_data_loss" not in err, "this advice is only for a learner"
    assert (
        run_command(
            capsys, "checkpoints", "rollback", "--to", 1, "--keep-offsets", "--config", config
        )[0]
        == 0
    )


def test_rollback_to_the_same_offsets_leaves_nothing_out(ask):
    ask("rollback", "--to", 2, "--rewind")
    out = ask("rollback", "--to", 2, "--keep-offsets")
    assert "\nalready at those positions: nothing is left out\n" in out
    assert "unlearned" not in out


def test_kept_offsets_before_the_state_are_refused(ask):
    """The state has learned events beyond the offsets, so they would be learned twice."""
    ask("rollback", "--to", 1, "--rewind")
    said = ask("rollback", "--to", 3, "--keep-offsets", status=2)
    assert "partition 0 up to 120, and the newest positions are at 40" in said
    assert "would be learned twice" in said
    out = ask("rollback", "--to", 3, "--keep-offsets", "--force")
    assert "partition 0 from 120 to 40, backwards" in out
    assert "learned twice" in out


def test_rollback_fences_the_learner(world, ask):
    ask("rollback", "--to", 2, "--rewind")
    with pytest.raises(Exception, match="taken over"):
        world.learn(10)
    assert world.begin().manifest.generation == 6


def test_rollback_to_the_newest_generation_is_refused(ask):
    assert "is the newest: choose" in ask("rollback", "--to", 5, "--rewind", status=2)


def wait_for_newest(capsys, config, check):
    def check_newest():
        out = run_command(capsys, "checkpoints", "list", "--json", "--config", config)[1]
        generations = json.loads(out)
        return generations and check(generations) and generations

    return wait_for(check_newest, "the generation")


def produce(redis_url, lines):
    with Redis.from_url(redis_url) as client:
        for line in lines:
            client.xadd("events", {"value": line})


def start_learner(config):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_STORE")
    }
    return subprocess.Popen(
        [sys.executable, "-m", "service", "learn", "--config", str(config)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_running_learner_continues_from_a_rollback(tmp_path, redis_url, capsys):
    """The learner is fenced, loads the operator's generation, and continues."""
    with closing(World(tmp_path, redis_url)) as world:
        source = {"url": f"{redis_url}/events"}
        world.config.write_text(
            yaml.safe_dump(world.values | {"source": source, "api": {"port": 0}})
        )

    def newest(check):
        return wait_for_newest(capsys, world.config, check)

    learner = start_learner(world.config)
    try:
        produce(redis_url, events(100))
        first = newest(lambda generations: generations[0]["events"] == 95)[0]
        produce(redis_url, events(100))
        newest(lambda generations: generations[0]["events"] == 190)
        line = ("rollback", "--to", first["generation"], "--keep-offsets", "--config", world.config)
        assert run_command(capsys, "checkpoints", *line)[0] == 0
        assert newest(lambda generations: generations[0]["origin"] != "learned")[0]["events"] == 95
        produce(redis_url, events(20))
        newest(
            lambda generations: (
                generations[0]["origin"] == "learned" and generations[0]["events"] == 95 + 19
            )
        )
        line = ("rollback", "--to", first["generation"], "--rewind", "--config", world.config)
        assert run_command(capsys, "checkpoints", *line)[0] == 0
        newest(lambda generations: generations[0]["events"] == 95 + 95 + 19)
        assert run_command(capsys, "audit", "--config", world.config)[:1] == (0,)
    finally:
        learner.terminate()
        _, err = learner.communicate(timeout=HANG_SECONDS)
    assert learner.returncode == 0, err
