"""`onepass checkpoints` lists and shows checkpoints, freezes the model, and refuses wrong usage."""

import json
from contextlib import closing

import pytest
import yaml
from redis import Redis

from learners.state import state_digest
from service.checkpoint import lineage as lineage_module
from service.checkpoint.export import unpack
from service.checkpoint.lineage import Rolled
from service.cli.checkpoints import ACTIONS
from service.cli.tables import format_age, format_size
from tests.looped import looped
from tests.service.cli.command_line import run_command
from tests.service.cli.five_generations import (  # noqa: F401  # fixtures
    ask_fixture,
    ask_json_fixture,
    world_fixture,
)
from tests.service.operations.checkpoint_history import World


@looped("action", ACTIONS)
def test_every_action_has_an_example(capsys, action):
    status, out, err = run_command(capsys, "checkpoints", action, "--help")
    assert (status, err) == (0, "")
    assert f"example:\n  onepass checkpoints {action} " in out


def test_list_shows_every_generation(world, ask, ask_json):
    generations = ask_json("list")
    assert [entry["generation"] for entry in generations] == [5, 4, 3, 2, 1]
    newest = generations[0]
    assert newest["events"] == int(world.model.progress.events[0])
    assert newest["error_rate"] == world.model.progress.error_rate
    assert [entry["parts"] for entry in generations] == [5, 4, 3, 2, 1]
    assert newest["state_digest"] is None, "a delta lacks most of the state, so it has no digest"
    assert newest["origin"] == "learned"
    assert 0 <= newest["age_seconds"] < 60
    out = ask("list")
    assert out.split()[:9] == [
        "generation",
        "age",
        "events",
        "error",
        "rate",
        "size",
        "parts",
        "origin",
        "state",
    ]
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[-3] for row in rows] == ["base+4", "base+3", "base+2", "base+1", "base"]
    assert [row[-1] for row in rows] == ["-"] * 4 + [generations[-1]["state_digest"][:12]]


def test_list_says_that_there_is_no_checkpoint(tmp_path, redis_url, capsys):
    with closing(World(tmp_path, redis_url)) as world:
        line = ("--config", world.config)
        assert run_command(capsys, "checkpoints", "list", *line)[:2] == (0, "no checkpoint yet\n")
        assert run_command(capsys, "checkpoints", "list", *line, "--json")[:2] == (0, "[]\n")
        status, _, err = run_command(capsys, "checkpoints", "show", *line)
        assert status == 2
        assert "no checkpoint yet" in err


def test_broken_generations_are_listed_as_broken(ask, ask_json, redis_url):
    with Redis.from_url(redis_url) as client:
        client.lset("{m:m}:head", 1, b"nonsense")
    generations = ask_json("list")
    assert [entry.get("generation") for entry in generations] == [5, None, 3, 2, 1]
    assert "damaged" in generations[1]["broken"]
    assert "broken: " in ask("list")
    with Redis.from_url(redis_url) as client:
        for place in range(5):
            client.lset("{m:m}:head", place, b"nonsense")
    assert "damaged" in ask("show", status=3)


def test_lost_bytes_of_a_generation_are_noticed(ask, redis_url):
    with Redis.from_url(redis_url) as client:
        keys = list(client.scan_iter("{m:m}:g:1:*"))
        assert keys
        client.delete(*keys)
    assert "generation 1" in ask("show", "--generation", 1, status=3)


def test_show_reports_one_generation(world, ask, ask_json):
    shown = ask_json("show")
    assert shown["generation"] == 5
    assert shown["model"]["learner"]["kind"] == "pa1"
    assert shown["positions"] == {"file:events.jsonl/0": "200"}
    assert shown["rejects"] == {"malformed": 10}
    assert shown["lost"] == []
    assert shown["lineage"]["runs"] == 1
    assert shown["lineage"]["records"] == 200
    assert shown["lineage"]["broken"] is None
    assert shown["state_digest"] == state_digest(world.model.state), (
        "a generation that is a delta needs the digest of its state"
    )
    weights = next(array for array in shown["arrays"] if array["name"] == "state/updates")
    assert (weights["shape"], weights["bytes"]) == ([1], 8)
    assert ask_json("show", "--generation", "2")["positions"] == {"file:events.jsonl/0": "80"}
    out = ask("show", "--generation", 2)
    for word in (
        "generation 2, learned",
        "position   file:events.jsonl/0: 80",
        "malformed 4",
        "80 records in 1 run,",
    ):
        assert word in out


def test_show_reports_a_sealed_or_lost_history(tmp_path, redis_url, capsys, monkeypatch):
    monkeypatch.setattr(lineage_module, "SEALED_AFTER", 2)
    with closing(World(tmp_path, redis_url)) as world:
        for generation in range(6):
            world.learn(5)
            world.recorder.note(Rolled(generation, generation, 0.0))
        world.learn(5)
        line = ("checkpoints", "show", "--config", world.config)
        told = json.loads(run_command(capsys, *line, "--json")[1])["lineage"]
        assert told["runs"] == 7
        assert told["sealed_segments"] == 6
        assert told["rolled_back"] == 6
        with Redis.from_url(redis_url) as client:
            client.delete(*client.scan_iter("{m:m}:l:*"))
        status, out, _ = run_command(capsys, *line)
        assert status == 0, "a lost history must not hide a good state"
        assert "broken     segment" in out
        status, _, err = run_command(
            capsys, "checkpoints", "export", "--to", tmp_path / "x", "--config", world.config
        )
        assert status == 0
        assert "the history is incomplete (segment" in err
        assert err.count("\n") == 1
        assert unpack((tmp_path / "x").read_bytes())[1] == {}


def test_show_is_readable_without_json(ask, ask_json, world):
    world.recorder.note(Rolled(1, 2, 0.0))
    world.learn(1)
    out = ask("show")
    assert f"learner    {json.dumps(ask_json('show')['model']['learner'])}\n" in out
    assert "(the record before the position)" in out
    assert "0 sealed segments (" in out
    assert "rolled back 1 time\n" in out
    assert "frozen 0 times\n" in out
    assert "in 2 runs" in out, "the operator's entry must separate the runs"


def test_every_action_says_that_the_model_is_frozen(ask, ask_json, capsys, world):
    assert "frozen since" not in ask("list")
    assert ask_json("show")["frozen"] is None
    ask("freeze")
    line = next(line for line in ask("list").splitlines() if line.startswith("frozen since"))
    assert line.endswith("at generation 5: nothing is learned until unfreeze")
    assert [entry["generation"] for entry in ask_json("list")] == [5, 4, 3, 2, 1]
    assert ask_json("show")["frozen"]["generation"] == 5
    assert f"now        {line.partition(' (')[0]}" in ask("show")
    out = ask("rollback", "--to", 2, "--keep-offsets")
    assert "it is frozen since" in out
    assert "at generation 5: nothing is learned until unfreeze" in out
    assert "by itself" not in out
    world.config.write_text(yaml.safe_dump(world.values | {"name": "typo"}))
    status, out, err = run_command(capsys, "checkpoints", "freeze", "--config", world.config)
    assert status == 0
    assert "typo has no checkpoint" in err
    assert run_command(capsys, "checkpoints", "list", "--config", world.config)[1].startswith(
        "no checkpoint yet\nfrozen since"
    )


def test_an_unknown_generation_names_the_nearest(ask):
    assert "generation 9 is not kept; the nearest are 3, 4, 5" in ask(
        "show", "--generation", 9, status=2
    )
    assert "the nearest are 1, 2, 3" in ask("diff", 0, 5, status=2)


WRONG = {
    "no way said": (("rollback", "--to", 2, "--config", "m.yaml"), "--rewind --keep-offsets"),
    "both ways": (("rollback", "--to", 2, "--rewind", "--keep-offsets"), "not allowed with"),
    "no generation": (("rollback", "--rewind"), "--to"),
    "no action": ((), "ACTION"),
    "no file": (("export",), "--to"),
    "no config": (("list",), "--config"),
}


@looped("line", WRONG.values(), ids=WRONG)
def test_wrong_usage_is_refused_in_one_line(capsys, line):
    arguments, word = line
    status, out, err = run_command(capsys, "checkpoints", *arguments)
    assert (status, out) == (2, "")
    assert word in err
    assert err.count("\n") == 1


def test_freeze_stops_learning_until_unfreeze(world, ask):
    assert "was not frozen" in ask("unfreeze")
    first = ask("freeze")
    assert "frozen since" in first
    assert "at generation 5" in first
    again = ask("freeze")
    assert again.partition(" (")[0] == first.partition(" (")[0], (
        "a second freeze must not change the first"
    )
    with pytest.raises(Exception, match="taken over"):
        world.learn(10)
    assert "resumes learning; it was frozen since" in ask("unfreeze")
    assert "was not frozen" in ask("unfreeze")
    world.begin()
    assert world.learn(10).generation == 6


def test_a_store_that_is_down_ends_with_status_1(tmp_path, capsys, redis_url):
    with closing(World(tmp_path, redis_url)) as world:
        world.config.write_text(
            yaml.safe_dump(world.values | {"store": {"url": "redis://127.0.0.1:1/0"}})
        )
        for action in ("list", "show", "freeze"):
            status, out, err = run_command(capsys, "checkpoints", action, "--config", world.config)
            assert (status, out) == (1, "")
            assert err.startswith("onepass checkpoints: Redis at ")
            assert err.count("\n") == 1


def test_ages_and_sizes_are_formatted_for_people():
    assert [format_age(seconds) for seconds in (0.4, 59, 119, 120, 7_200, 200_000)] == [
        "0 s",
        "59 s",
        "119 s",
        "2 min",
        "2 h",
        "2 d",
    ]
    sizes = [format_size(count) for count in (0, 999, 1000, 1_234_567, 5e9)]
    assert sizes == ["0 B", "999 B", "1.0 kB", "1.2 MB", "5.0 GB"]
