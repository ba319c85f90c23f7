"""Administration over HTTP on a real store: what it does, and refusals that name HTTP fields."""

from contextlib import closing

import pytest
import yaml

from service.api import make_admin
from service.server.api_keys import KeyFile, digest_of, new_key
from tests.service.api.api_client import Client, check_error
from tests.service.operations.checkpoint_history import World, events

SECRET = new_key()


@pytest.fixture
def world(tmp_path, redis_url):
    with closing(World(tmp_path, redis_url)) as made:
        for _ in range(3):
            made.learn(40)
        yield made


@pytest.fixture
def go_back(world, tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text(
        yaml.safe_dump([{"name": "a", "sha256": digest_of(SECRET), "scopes": ["admin"]}])
    )
    client = Client(**world.values)
    client.app = make_admin(client.context, KeyFile(path))

    def ask(generation, *, rewind):
        body = f'{{"generation": {generation}, "rewind": {str(rewind).lower()}}}'
        return client.ask(
            "POST", "/admin/rollback", body.encode(), authorization=f"Bearer {SECRET}"
        )

    return ask


@pytest.mark.parametrize("rewind", [True, False])
def test_a_rollback_takes_the_requested_offsets(world, go_back, rewind):
    assert go_back(1, rewind=rewind).json() == {"generation": 4, "state_of": 1, "was": 3}
    newest = world.store.newest()
    assert newest.origin == "rollback to 1"
    assert newest.events == world.store.generations()[-1].events
    assert world.store.read(newest).bookmark.positions == {
        f"{world.log}/0": "40" if rewind else "120"
    }


def test_a_rewind_beyond_the_log_is_refused_with_the_http_field(world, go_back):
    world.path.write_text("\n".join(events(20)) + "\n")
    reply = go_back(1, rewind=True)
    assert check_error(reply, 409) == "refused"
    message = reply.json()["error"]["message"]
    assert message.endswith('; give "rewind": false to resume at the present positions')
    assert "--" not in message
    assert go_back(1, rewind=False).status_code == 200


def test_learning_events_twice_is_refused_with_the_http_field(go_back):
    assert go_back(1, rewind=True).status_code == 200
    reply = go_back(3, rewind=False)
    assert check_error(reply, 409) == "refused"
    message = reply.json()["error"]["message"]
    assert message.endswith('would be learned twice; give "rewind": true')
    assert "--" not in message
