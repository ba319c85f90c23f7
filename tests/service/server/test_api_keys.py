"""API keys: only hashes are stored, every key is compared, limits hold, and the file may change
under a running service.
"""

import logging
import os
import re
import stat
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from service.__main__ import main
from service.errors import SettingsError
from service.server.api_keys import (
    ADDRESSES,
    FAILURES,
    Bucket,
    KeyFile,
    digest_of,
    new_key,
    read_keys,
)
from tests.service.server.key_files import (
    SECRET,
    Clock,
    entry,
    file_fixture,  # noqa: F401  # a fixture
    write_keys,
)


@pytest.fixture
def clock():
    return Clock()


def new_key_command(file, capsys, *arguments):
    status = main(["keys", "new", "--file", str(file), *arguments])
    said = capsys.readouterr()
    return status, said.out.strip(), said.err


def test_a_new_key_is_shown_once_and_only_its_hash_is_stored(file, capsys):
    status, secret, _ = new_key_command(
        file, capsys, "--name", "app", "--scope", "predict", "--scope", "metrics", "--rate", "5"
    )
    assert status == 0
    assert re.fullmatch(r"op_[A-Za-z0-9_-]{43}", secret)
    assert secret[3:] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (key,) = read_keys(file)
    assert (key.name, key.scopes, key.rate, key.sha256) == (
        "app",
        ("predict", "metrics"),
        5.0,
        digest_of(secret),
    )
    holder = KeyFile(file).find(secret.encode())
    assert holder is not None
    assert (holder.name, holder.scopes) == ("app", {"predict", "metrics"})
    assert [path.name for path in file.parent.iterdir()] == ["keys.yaml"]


def test_a_key_that_has_already_expired_is_not_created(file, capsys):
    today = datetime.now(UTC).date()
    for day in ("2020-01-01", str(today)):
        status, out, err = new_key_command(
            file, capsys, "--name", "one", "--scope", "predict", "--expires", day
        )
        assert (status, out) == (2, "")
        assert "--expires" in err
        assert "later" in err
        assert not file.exists()
    later = str(today + timedelta(days=2))
    assert (
        new_key_command(file, capsys, "--name", "one", "--scope", "predict", "--expires", later)[0]
        == 0
    )


def test_a_file_without_a_key_causes_a_warning(file, clock, caplog):
    ring = KeyFile(write_keys(file), clock)
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert f"{file} has no key" in told.getMessage()
    assert "onepass keys new" in told.getMessage()
    caplog.clear()
    write_keys(file, entry())
    clock.now += 2
    assert ring.find(SECRET.encode()) is not None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    write_keys(file)
    clock.now += 2
    assert ring.find(SECRET.encode()) is None
    assert "has no key" in caplog.text


def test_keys_are_listed_and_removed(file, capsys):
    write_keys(file, entry(name="one", expires=date(2020, 1, 1)))
    new_key_command(file, capsys, "--name", "two", "--scope", "admin", "--rate", "0.5")
    assert main(["keys", "list", "--file", str(file)]) == 0
    listed = capsys.readouterr().out
    assert listed.splitlines() == [
        "one  predict  no limit  EXPIRED 2020-01-01",
        "two  admin  0.5/s, at once 1",
    ]
    assert main(["keys", "remove", "--file", str(file), "--name", "one"]) == 0
    assert [key.name for key in read_keys(file)] == ["two"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["new", "--name", "app", "--scope", "predict"],
        ["new", "--name", "a b", "--scope", "predict"],
        ["new", "--name", "b", "--scope", "predict", "--burst", "3"],
        ["new", "--name", "b", "--scope", "predict", "--rate", "0"],
        ["new", "--name", "b", "--scope", "predict", "--rate", "nan"],
        ["remove", "--name", "b"],
    ],
)
def test_a_refused_command_leaves_the_file_unchanged(file, capsys, arguments):
    new_key_command(file, capsys, "--name", "app", "--scope", "predict")
    before = file.read_bytes()
    action, *rest = arguments
    assert main(["keys", action, "--file", str(file), *rest]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert file.read_bytes() == before


WRONG = {
    "unknown key": ([entry(scope="predict")], "unknown key 'scope'; did you mean 'scopes'"),
    "scope": ([entry(scopes=["root"])], "key 1, scopes"),
    "no scope": ([entry(scopes=[])], "key 1, scopes"),
    "twice": ([entry(), entry(new_key())], "two keys are named app"),
    "too many": ([entry(name=f"k{n}") for n in range(65)], "64"),
    "hash": ([entry(), entry(name="b", sha256=SECRET)], "key 2, sha256"),
    "rate": ([entry(rate=-1)], "key 1, rate"),
    "burst alone": ([entry(burst=3)], "burst needs rate"),
    "expires": ([entry(expires="soon")], "key 1, expires"),
    "no list": ({"keys": []}, "the list of keys"),
    "a word": ("word", "the list of keys"),
}


@pytest.mark.parametrize(("content", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_with_its_path(file, content, words):
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(SettingsError) as caught:
        read_keys(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_unreadable_file_is_refused(file):
    with pytest.raises(SettingsError, match="onepass keys new"):
        read_keys(file)
    file.write_text("[")
    with pytest.raises(SettingsError, match="not valid YAML"):
        read_keys(file)
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="UTF-8"):
        read_keys(file)


def test_every_key_is_compared_for_each_presented_key(file, monkeypatch):
    others = [new_key() for _ in range(9)]
    write_keys(file, entry(), *(entry(other, name=f"k{n}") for n, other in enumerate(others)))
    ring = KeyFile(file)
    compared = []
    monkeypatch.setattr(
        "service.server.api_keys.hmac.compare_digest", lambda a, b: compared.append(1) or a == b
    )
    for presented in (SECRET, others[-1], "op_wrong", ""):
        compared.clear()
        ring.find(presented.encode())
        assert len(compared) == 10


@given(st.binary(max_size=80))
def test_only_the_exact_key_is_found(tmp_path_factory, presented):
    ring = KeyFile(write_keys(tmp_path_factory.mktemp("keys") / "keys.yaml", entry()))
    assert (ring.find(presented) is not None) == (presented == SECRET.encode())


@pytest.mark.parametrize(
    ("expires", "good"),
    [
        (date(2020, 1, 1), False),
        (datetime.now(UTC) + timedelta(hours=1), True),
        (datetime.now(UTC) - timedelta(seconds=1), False),
        (datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=1), False),
        (datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1), True),
        (None, True),
    ],
)
def test_a_key_expires_at_its_time(file, expires, good):
    ring = KeyFile(write_keys(file, entry() | ({"expires": expires} if expires else {})))
    assert (ring.find(SECRET.encode()) is not None) == good


@given(
    rate=st.floats(0.01, 1e4),
    burst=st.integers(1, 1000),
    waits=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=100),
)
def test_a_bucket_never_exceeds_burst_and_rate(rate, burst, waits):
    now, given_out = 0.0, 0
    bucket = Bucket(rate, burst, now)
    for wait in waits:
        now += wait
        while (left := bucket.take(now)) == 0.0:
            given_out += 1
            # Tokens are added wait by wait; their roundings could give one a little early.
            assert given_out <= burst + rate * now + 1e-6 * (1 + rate * now)
        assert left > 0
    at = now + left * (1 + 1e-9) + 1e-6
    assert bucket.take(at) == 0.0, "the token must be there after the announced wait"


def test_each_key_has_its_own_rate(file, clock):
    other = new_key()
    ring = KeyFile(write_keys(file, entry(rate=2), entry(other, name="b")), clock)
    holder, free = ring.find(SECRET.encode()), ring.find(other.encode())
    assert [ring.wait(holder) for _ in range(3)] == [0.0, 0.0, 0.5]
    assert {ring.wait(free) for _ in range(1000)} == {0.0}
    clock.now += 0.5
    assert ring.wait(holder) == 0.0


def test_guessing_is_limited_by_address_and_the_table_is_bounded(file, clock):
    ring = KeyFile(write_keys(file, entry()), clock)
    assert [ring.failed("a") == 0.0 for _ in range(FAILURES + 5)] == [True] * FAILURES + [False] * 5
    assert ring.failed("b") == 0.0
    for n in range(5 * ADDRESSES):
        ring.failed(f"address {n}")
        ring.failed("a")
    assert len(ring._failed) == ADDRESSES
    assert ring.failed("a") > 0.0, "an address that continues must not be forgotten"


def test_a_changed_file_is_read_within_a_second_and_buckets_stay(file, clock):
    ring = KeyFile(write_keys(file, entry(rate=0.1)), clock)
    assert ring.wait(ring.find(SECRET.encode())) == 0.0
    other = new_key()
    write_keys(file, entry(rate=0.1, scopes=["metrics"]), entry(other, name="b"))
    assert ring.find(other.encode()) is None, "the file must be read at most once per second"
    clock.now += 0.999
    assert ring.find(other.encode()) is None
    clock.now += 0.001
    assert ring.find(other.encode()).name == "b"
    holder = ring.find(SECRET.encode())
    assert holder.scopes == {"metrics"}
    assert ring.wait(holder) > 0.0, "a reload must not refill the bucket"
    write_keys(file, entry(other, name="b"))
    clock.now += 1
    assert ring.find(SECRET.encode()) is None, "a removed key must be refused"


def test_a_broken_or_missing_file_keeps_the_keys_and_logs_once(file, clock, caplog):
    ring = KeyFile(write_keys(file, entry()), clock)
    for broken in (lambda: file.write_text("- {name: [}"), file.unlink):
        caplog.clear()
        broken()
        with caplog.at_level(logging.ERROR):
            for _ in range(5):
                clock.now += 1
                assert ring.find(SECRET.encode()) is not None
        assert len(caplog.records) == 1
        assert str(file) in caplog.text
    write_keys(file, entry(new_key()))
    clock.now += 1
    assert ring.find(SECRET.encode()) is None


def test_a_service_cannot_start_with_a_broken_keys_file(file):
    file.write_text("- 1")
    with pytest.raises(SettingsError):
        KeyFile(file)


def test_an_unsuitable_keys_file_is_not_read(tmp_path, caplog):
    clock = Clock()
    path = tmp_path / "keys.yaml"
    secret = new_key()
    good = yaml.safe_dump([{"name": "a", "sha256": digest_of(secret), "scopes": ["predict"]}])
    path.write_text(good)
    ring = KeyFile(path, clock)
    for spoil in (
        lambda: os.mkfifo(path),
        lambda: path.write_text("- x\n" * 100_000),
        lambda: path.write_text(""),
        path.mkdir,
    ):
        path.unlink()
        spoil()
        clock.now += 2
        assert ring.find(secret.encode()) is not None, "the keys read before must stay valid"
        if path.is_dir():
            path.rmdir()
            path.touch()
    assert caplog.text.count("stay valid") == 3, "the same error twice in a row must be logged once"


def test_a_file_that_becomes_readable_is_read(tmp_path, monkeypatch):
    clock = Clock()
    path = tmp_path / "keys.yaml"
    old, new = new_key(), new_key()
    path.write_text(
        yaml.safe_dump([{"name": "a", "sha256": digest_of(old), "scopes": ["predict"]}])
    )
    ring = KeyFile(path, clock)
    path.write_text(
        yaml.safe_dump([{"name": "b", "sha256": digest_of(new), "scopes": ["predict"]}])
    )
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", deny_permission)
        clock.now += 2
        assert ring.find(old.encode()) is not None
    clock.now += 2
    assert ring.find(old.encode()) is None, "only the permissions of the file have changed"
    assert ring.find(new.encode()) is not None


def deny_permission(*_, **__):
    raise PermissionError(13, "Permission denied")
