"""Five generations of a model in a real Redis, and an operator who runs `onepass checkpoints`."""

import json
from contextlib import closing

import pytest

from tests.service.cli.command_line import run_command
from tests.service.operations.checkpoint_history import World


@pytest.fixture(name="world")
def world_fixture(tmp_path, redis_url):
    """Generations 1 to 5, of 40 records each; the first is a base, the others are deltas."""
    with closing(World(tmp_path, redis_url)) as world:
        for _ in range(5):
            world.learn(40)
        yield world


@pytest.fixture(name="ask")
def ask_fixture(world, capsys):
    def ask(action, *arguments, status=0):
        got, out, err = run_command(
            capsys, "checkpoints", action, *arguments, "--config", world.config
        )
        assert got == status, err
        if status:
            assert out == ""
            assert err.startswith("onepass checkpoints: ")
            assert err.count("\n") == 1
        return err if status else out

    return ask


@pytest.fixture(name="ask_json")
def ask_json_fixture(ask):
    return lambda *arguments: json.loads(ask(*arguments, "--json"))
