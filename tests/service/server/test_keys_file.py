"""`onepass keys` changes the keys file so that the service, which may be another user, still reads
it.
"""

import logging
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from service.__main__ import main
from service.server.api_keys import REFUSE_SECONDS, KeyFile, read_keys
from tests.service.monitoring.scraped_model import Scraped
from tests.service.server.key_files import (
    SECRET,
    Clock,
    entry,
    file_fixture,  # noqa: F401  # a fixture
    write_keys,
)

SERVICE = 65534
"""The user `nobody`, who runs the service in these tests."""
ONLY_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a file to another user"
)
READ_ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, who)
    for tag, rights, who in (
        (0x01, 6, 0xFFFFFFFF),
        (0x02, 4, SERVICE),
        (0x04, 0, 0xFFFFFFFF),
        (0x10, 4, 0xFFFFFFFF),
        (0x20, 0, 0xFFFFFFFF),
    )
)
"""POSIX ACL: the owner may read and write, the user of the service may read."""


@pytest.fixture
def shared():
    """A folder that other users can enter; pytest's own folders are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="onepass-keys-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


AS_SERVICE = """
import os, sys
from pathlib import Path
import service.cli.keys
from service.__main__ import main
from service.server.api_keys import read_keys
os.setgroups([]), os.setgid(USER), os.setuid(USER)
"""


def run_as_service(code, *arguments):
    """Run Python as the user of the service, who may be unable to start the interpreter; return
    what it prints.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            AS_SERVICE.replace("USER", str(SERVICE)) + code,
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]


def names_seen_by_service(path):
    return run_as_service("print(*(key.name for key in read_keys(Path(sys.argv[1]))))", path)


def keys_command(action, path, name):
    scope = ["--scope", "predict"] if action == "new" else []
    return main(["keys", action, "--file", str(path), "--name", name, *scope])


@ONLY_ROOT
@pytest.mark.parametrize(
    ("owner", "group", "mode"), [(SERVICE, SERVICE, 0o600), (0, SERVICE, 0o640), (0, 0, 0o644)]
)
def test_the_service_still_reads_the_file_after_root_changed_it(shared, owner, group, mode):
    path = write_keys(shared / "keys.yaml", entry(), entry("x", name="gone"))
    path.chmod(mode)
    os.chown(path, owner, group)
    assert keys_command("remove", path, "gone") == 0
    assert names_seen_by_service(path) == "app"
    assert keys_command("new", path, "later") == 0
    assert names_seen_by_service(path) == "app later"
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (owner, group, mode)


@ONLY_ROOT
def test_an_access_list_of_the_file_is_kept(shared):
    path = write_keys(shared / "keys.yaml", entry(), entry("x", name="gone"))
    path.chmod(0o600)
    try:
        os.setxattr(path, "system.posix_acl_access", READ_ACL)
    except OSError:
        pytest.skip("the file system has no access lists")
    assert names_seen_by_service(path) == "app gone"
    assert keys_command("remove", path, "gone") == 0
    assert names_seen_by_service(path) == "app"


@ONLY_ROOT
def test_a_change_that_would_lose_the_owner_is_refused(shared):
    shared.chmod(0o777)
    path = write_keys(shared / "keys.yaml", entry(), entry("x", name="gone"))
    path.chmod(0o644)
    before = path.read_bytes()
    said = run_as_service(
        "print(main(sys.argv[1:]))", "keys", "remove", "--file", path, "--name", "gone"
    )
    assert said == "2", said
    assert path.read_bytes() == before
    assert [found.name for found in shared.iterdir()] == ["keys.yaml"]


def test_the_refusal_names_the_owner_and_what_to_do(file, monkeypatch, capsys):
    write_keys(file, entry())

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    assert keys_command("remove", file, "app") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(file) in line
    assert f"user {os.geteuid()}" in line
    assert "root" in line
    assert [key.name for key in read_keys(file)] == ["app"]


@pytest.mark.parametrize("links", [1, 2])
def test_a_change_through_a_link_is_written_to_its_target(tmp_path, links):
    real = tmp_path / "real"
    real.mkdir()
    target = write_keys(real / "keys.yaml", entry(), entry("x", name="gone"))
    link = tmp_path / "link.yaml"
    for number in range(links):
        place = link if number == links - 1 else tmp_path / f"between-{number}"
        place.symlink_to(target if number == 0 else f"between-{number - 1}")
    assert keys_command("remove", link, "gone") == 0
    assert [key.name for key in read_keys(target)] == ["app"]
    assert keys_command("new", link, "later") == 0
    assert [key.name for key in read_keys(target)] == ["app", "later"]
    assert link.is_symlink()
    assert [path.name for path in real.iterdir()] == ["keys.yaml"]


def test_a_dangling_link_gets_its_target_and_a_link_cycle_is_refused(tmp_path, capsys):
    link, target = tmp_path / "link.yaml", tmp_path / "target.yaml"
    link.symlink_to(target)
    assert keys_command("new", link, "app") == 0
    assert [key.name for key in read_keys(target)] == ["app"]
    assert link.is_symlink()
    circle = tmp_path / "circle.yaml"
    circle.symlink_to(circle)
    assert keys_command("new", circle, "app") == 2
    assert "circle.yaml" in capsys.readouterr().err
    assert circle.is_symlink()


def test_a_file_with_a_hard_link_is_refused(file, capsys):
    """Writing one name would leave the other, which the service may read, unchanged."""
    write_keys(file, entry())
    os.link(file, file.with_name("other.yaml"))
    assert keys_command("remove", file, "app") == 2
    assert "hard link" in capsys.readouterr().err
    assert [key.name for key in read_keys(file)] == ["app"]


@pytest.mark.parametrize(
    "spoil", [lambda path: path.write_text("- {name: [}"), Path.unlink], ids=["broken", "gone"]
)
def test_a_file_that_stays_unusable_disables_all_keys_until_it_is_fixed(file, caplog, spoil):
    clock = Clock()
    ring = KeyFile(write_keys(file, entry()), clock)
    assert ring.usable
    spoil(file)
    clock.now += 1
    assert ring.find(SECRET.encode()) is not None
    assert not ring.usable
    clock.now += REFUSE_SECONDS - 1
    assert ring.find(SECRET.encode()) is not None
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            clock.now += 1
            assert ring.find(SECRET.encode()) is None
    assert caplog.text.count("every key is refused") == 1
    write_keys(file, entry())
    clock.now += 1
    assert ring.find(SECRET.encode()) is not None
    assert ring.usable


def test_short_outages_of_the_file_do_not_add_up(file):
    clock = Clock()
    ring = KeyFile(write_keys(file, entry()), clock)
    for _ in range(3):
        file.unlink()
        for _ in range(int(REFUSE_SECONDS) - 1):
            clock.now += 1
            assert ring.find(SECRET.encode()) is not None
        write_keys(file, entry())
        clock.now += 1
        assert ring.find(SECRET.encode()) is not None


def test_lost_read_permission_is_noticed(file, monkeypatch):
    clock = Clock()
    ring = KeyFile(write_keys(file, entry()), clock)
    file.chmod(0o000)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)  # root could read it nevertheless
    clock.now += 1
    assert ring.find(SECRET.encode()) is not None
    assert not ring.usable


def test_an_unusable_file_shows_in_the_metrics(file):
    clock, scraped = Clock(), Scraped()
    assert scraped.samples()["keys_file_up",] == 1.0, (
        "a service without keys must not report an unusable file"
    )
    ring = KeyFile(write_keys(file, entry()), clock)
    scraped.metrics.watch(ring)
    assert scraped.samples()["keys_file_up",] == 1.0
    file.unlink()
    clock.now += 1
    ring.find(b"")
    assert scraped.samples()["keys_file_up",] == 0.0
