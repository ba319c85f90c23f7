"""The keys file under `onepass keys`: the service that reads it as another user must see every
change.
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
    written,
)

SERVICE = 65534
"""The user `nobody`, as whom the service runs here."""
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
"""POSIX ACL: the owner reads and writes, the user of the service reads."""


@pytest.fixture
def shared():
    """A folder that other users can enter; pytest's own are closed to them."""
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


def as_service(code, *arguments):
    """Run Python as the user of the service, who may not be able to start the interpreter itself;
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
    return as_service("print(*(key.name for key in read_keys(Path(sys.argv[1]))))", path)


def keys_command(action, path, name):
    scope = ["--scope", "predict"] if action == "new" else []
    return main(["keys", action, "--file", str(path), "--name", name, *scope])


@ONLY_ROOT
@pytest.mark.parametrize(
    ("owner", "group", "mode"), [(SERVICE, SERVICE, 0o600), (0, SERVICE, 0o640), (0, 0, 0o644)]
)
def test_the_service_still_reads_the_file_after_root_changed_it(shared, owner, group, mode):
    path = written(shared / "keys.yaml", entry(), entry("x", name="gone"))
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
    path = written(shared / "keys.yaml", entry(), entry("x", name="gone"))
    path.chmod(0o600)
    try:
        os.setxattr(path, "system.posix_acl_access", READ_ACL)
    except OSError:
        pytest.skip("the file system has no access lists")
    assert names_seen_by_service(path) == "app gone"
    assert keys_command("remove", path, "gone") == 0
    assert names_seen_by_service(path) == "app"


@ONLY_ROOT
def test_a_change_that_cannot_keep_the_owner_is_refused(shared):
    shared.chmod(0o777)
    path = written(shared / "keys.yaml", entry(), entry("x", name="gone"))
    path.chmod(0o644)
    before = path.read_bytes()
    said = as_service(
        "print(main(sys.argv[1:]))", "keys", "remove", "--file", path, "--name", "gone"
    )
    assert said == "2", said
    assert path.read_bytes() == before
    assert [found.name for found in shared.iterdir()] == ["keys.yaml"]


def test_the_refusal_names_the_owner_and_what_to_do(file, monkeypatch, capsys):
    written(file, entry())

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
def test_the_file_that_a_link_leads_to_is_written(tmp_path, links):
    real = tmp_path / "real"
    real.mkdir()
    target = written(real / "keys.yaml", entry(), entry("x", name="gone"))
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


def test_a_link_to_nothing_gets_its_target_and_a_circle_is_refused(tmp_path, capsys):
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


def test_a_file_with_two_names_is_refused(file, capsys):
    """To write one name would leave the other, which the service may read, as it was."""
    written(file, entry())
    os.link(file, file.with_name("other.yaml"))
    assert keys_command("remove", file, "app") == 2
    assert "hard link" in capsys.readouterr().err
    assert [key.name for key in read_keys(file)] == ["app"]


@pytest.mark.parametrize(
    "spoil", [lambda path: path.write_text("- {name: [}"), Path.unlink], ids=["broken", "gone"]
)
def test_a_file_that_stays_unusable_ends_every_key_until_it_is_mended(file, caplog, spoil):
    clock = Clock()
    ring = KeyFile(written(file, entry()), clock)
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
    written(file, entry())
    clock.now += 1
    assert ring.find(SECRET.encode()) is not None
    assert ring.usable


def test_two_short_troubles_do_not_add_up(file):
    clock = Clock()
    ring = KeyFile(written(file, entry()), clock)
    for _ in range(3):
        file.unlink()
        for _ in range(int(REFUSE_SECONDS) - 1):
            clock.now += 1
            assert ring.find(SECRET.encode()) is not None
        written(file, entry())
        clock.now += 1
        assert ring.find(SECRET.encode()) is not None


def test_rights_that_were_taken_away_are_noticed_though_the_content_stays(file, monkeypatch):
    clock = Clock()
    ring = KeyFile(written(file, entry()), clock)
    file.chmod(0o000)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)  # root may read it all the same
    clock.now += 1
    assert ring.find(SECRET.encode()) is not None
    assert not ring.usable


def test_a_file_that_cannot_be_used_is_a_metric(file):
    clock, scraped = Clock(), Scraped()
    assert scraped.samples()["keys_file_up",] == 1.0, "no file at all is no trouble"
    ring = KeyFile(written(file, entry()), clock)
    scraped.metrics.watch(ring)
    assert scraped.samples()["keys_file_up",] == 1.0
    file.unlink()
    clock.now += 1
    ring.find(b"")
    assert scraped.samples()["keys_file_up",] == 0.0
