"""Files that hold a model are readable only by their owner, whatever the umask; an existing folder
keeps its mode.
"""

import os
import stat
from contextlib import closing

import pytest

from service.__main__ import main
from service.embedded.redis import redis_server
from service.private_files import make_folder
from tests.integration.processes import write_config
from tests.service.storage.backups import SEGMENTS, folder_of, save_generations
from tests.service.storage.stores import make_store, open_store, whole


@pytest.fixture(autouse=True, params=[0o000, 0o022], ids=["umask 000", "umask 022"])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_backups_and_their_new_folders_are_private(tmp_path):
    folder = tmp_path / "a" / "b"
    save_generations(folder_of(folder), 1, 2, segments=SEGMENTS)
    assert {mode(path) for path in (folder, folder.parent)} == {0o700}
    assert len(list(folder.iterdir())) == 3
    assert {mode(path) for path in folder.iterdir()} == {0o600}


def test_an_existing_folder_keeps_its_mode(tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    folder.chmod(0o750)
    save_generations(folder_of(folder), 1)
    assert mode(folder) == 0o750
    assert {mode(path) for path in folder.iterdir()} == {0o600}


def test_an_export_is_private_even_over_a_public_file(tmp_path, redis_url):
    config = write_config(tmp_path / "m.yaml", f"{redis_url}/events", redis_url, name="m")
    with closing(open_store(redis_url)) as store:
        store.save(whole(1))
    target = tmp_path / "m.onepass"
    assert main(["checkpoints", "export", "--config", str(config), "--to", str(target)]) == 0
    assert mode(target) == 0o600
    target.chmod(0o644)
    assert (
        main(["checkpoints", "export", "--config", str(config), "--to", str(target), "--force"])
        == 0
    )
    assert mode(target) == 0o600


def test_the_folder_of_an_embedded_redis_is_private(tmp_path):
    with (
        redis_server(tmp_path / "demo" / "redis") as server,
        closing(make_store(server.url)) as store,
    ):
        store.acquire()
        store.load()
        store.save(whole(1))
        assert {mode(path) for path in (tmp_path / "demo", tmp_path / "demo" / "redis")} == {0o700}


def test_make_folder_may_be_repeated_but_never_replaces_a_file(tmp_path):
    make_folder(tmp_path / "x")
    make_folder(tmp_path / "x")
    (tmp_path / "file").touch()
    for impossible in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="file"):
            make_folder(impossible)
