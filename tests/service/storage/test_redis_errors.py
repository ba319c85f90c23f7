"""Errors of Redis become one line that says what to do: the same line for the same error, and by
whose fault it is.
"""

import socket
import threading
from contextlib import closing

import pytest
import redis
from redis import Redis

from service.checkpoint.store import CorruptCheckpointError, StoreUnavailableError
from service.embedded import redis as embedded
from service.embedded.process import HOST, free_port
from service.errors import SettingsError
from tests.service.storage.redis_processes import make_certificates, running
from tests.service.storage.stores import (
    Broken,
    contents,
    make_store,
    open_store,
    stop_renewing,
    whole,
)


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def server(tmp_path):
    """A server that a test may lock itself out of."""
    with (
        embedded.redis_server(tmp_path, appendonly=False) as server,
        Redis.from_url(server.url) as admin,
    ):
        admin.acl_setuser(
            "admin", enabled=True, passwords=["+admin"], commands=["+@all"], keys=["*"]
        )
        admin.execute_command("AUTH", "admin", "admin")
        server.admin = admin
        yield server


def check_error(ask, kind: type[Exception], *arguments) -> str:
    with pytest.raises(kind) as caught:
        ask(*arguments)
    assert type(caught.value) is kind
    text = str(caught.value)
    assert "\n" not in text
    assert not text.endswith(".")
    return text


@pytest.mark.parametrize(
    ("key", "asked"),
    [
        ("lease", ["acquire"]),
        ("token", ["acquire", "freeze"]),
        ("head", ["acquire", "newest", "load", "generations", "freeze"]),
        ("frozen", ["acquire", "newest", "freeze", "unfreeze"]),
    ],
)
def test_a_key_of_another_type_is_corrupt(redis_url, client, key, asked):
    client.hset(f"{{m:m}}:{key}", "a", "b")
    for ask in asked:
        with closing(make_store(redis_url)) as store:
            text = check_error(getattr(store, ask), CorruptCheckpointError)
            assert "{m:m}:*" in text
            assert "delete or rename it, or use another name" in text
            assert "script" not in text


@pytest.mark.parametrize("key", ["token", "head"])
def test_a_key_that_changes_its_type_under_a_learner_is_corrupt(redis_url, client, key):
    with closing(open_store(redis_url)) as store:
        store.save(whole(1))
        client.delete(f"{{m:m}}:{key}")
        client.hset(f"{{m:m}}:{key}", "a", "b")
        check_error(store.save, CorruptCheckpointError, whole(2))
        store._lease.renew()
        assert store._lease._thread.is_alive()


def test_the_next_commit_repairs_a_lease_of_another_type(redis_url, client):
    with closing(open_store(redis_url)) as store:
        stop_renewing(store)  # otherwise it might retake its lease first
        client.delete("{m:m}:lease")
        client.hset("{m:m}:lease", "a", "b")
        store._lease.renew()
        assert client.type("{m:m}:lease") == b"hash", "a renewal must leave the lease"
        store.save(whole(1))
        assert client.get("{m:m}:lease") == store._lease.holder.encode()


def test_a_segment_of_another_type_is_corrupt(redis_url, client):
    client.hset("{m:m}:l:" + "a" * 64, "a", "b")
    with closing(open_store(redis_url)) as store:
        check_error(store.segment, CorruptCheckpointError, "a" * 64)
        check_error(lambda: store.save(whole(1), {"a" * 64: b"history"}), CorruptCheckpointError)


@pytest.mark.parametrize("which", ["packaged", "system"])
def test_equal_errors_have_equal_texts(tmp_path, which, request):
    port = free_port()
    executable = (
        str(embedded._executable())
        if which == "packaged"
        else request.getfixturevalue("system_redis")
    )
    with (
        running(tmp_path / "r", port, "--port", str(port), executable=executable),
        Redis(port=port) as admin,
    ):
        with closing(open_store(f"redis://{HOST}:{port}/0")) as store:
            admin.config_set("maxmemory", "1")
            texts = {check_error(store.save, StoreUnavailableError, whole(n)) for n in range(3)}
            texts |= {check_error(store.acquire, StoreUnavailableError)}
            admin.config_set("maxmemory", "0")
        text = (
            f"Redis at redis://{HOST}:{port}/0: command not allowed when used memory > 'maxmemory'"
        )
        assert {text.replace(": OOM ", ": ") for text in texts} == {text}
        assert len(texts) <= 2, "only an error from a script may have its code in addition"


def test_a_missing_database_is_a_settings_error(redis_url, caplog):
    url = redis_url.replace("/0", "/99")
    for ask in ("acquire", "newest"):
        with closing(make_store(url)) as store:
            assert (
                check_error(getattr(store, ask), SettingsError)
                == f"store.url: Redis at {url} has no database 99"
            )
    assert not caplog.records, "there must be no warning about INFO"


@pytest.mark.parametrize(
    "text", ["unknown command 'INFO'", "this user has no permissions to run the 'info' command"]
)
def test_a_user_without_info_gets_a_warning(redis_url, caplog, text):
    def deny(*_, **__):
        raise redis.ResponseError(text)

    with closing(make_store(redis_url)) as store, Broken(store, info=deny):
        store.acquire()
    assert "forbids its user the command INFO" in caplog.text


def test_another_error_of_info_is_unavailable(redis_url, caplog):
    def answer_busy(*_, **__):
        raise redis.ResponseError("BUSY Redis is busy running a script.")

    with closing(make_store(redis_url)) as store, Broken(store, info=answer_busy):
        assert check_error(store.acquire, StoreUnavailableError).endswith("busy running a script")
    assert not caplog.records


def test_a_missing_or_wrong_password_is_a_settings_error(server):
    server.admin.config_set("requirepass", "secret-canary")
    with closing(make_store(server.url)) as store:
        text = check_error(store.acquire, SettingsError)
        assert text == f"store.url, store.password: Redis at {server.url}: a password is needed"
    with closing(make_store(server.url, password="wrong-canary")) as store:
        text = check_error(store.newest, SettingsError)
        assert "refuses the user or password" in text
        assert "canary" not in text


def test_a_password_changed_under_a_learner_is_unavailable(server):
    with closing(open_store(server.url)) as store, closing(make_store(server.url)) as late:
        store.save(whole(1))
        server.admin.config_set("requirepass", "secret-canary")
        server.admin.client_kill_filter(_type="normal", skipme=True)
        text = check_error(store.save, StoreUnavailableError, whole(2))
        assert text == check_error(late.newest, SettingsError)
        server.admin.config_set("requirepass", "")
        assert store.save(whole(2)).generation == 2


def test_an_acl_refusal_is_a_settings_error_until_the_first_success(server):
    user = ["SETUSER", "onepass", "reset", "on", ">secret", "~{m:*", "+@all"]
    server.admin.execute_command("ACL", *user)
    url = server.url.replace("//", "//onepass@")
    with (
        closing(open_store(url, password="secret")) as store,
        closing(make_store(url, password="secret")) as replica,
    ):
        replica.newest()
        server.admin.execute_command("ACL", "SETUSER", "onepass", "-lpush", "-lindex", "-mget")
        assert "ACL" in check_error(store.save, SettingsError, whole(1)), (
            "only acquiring has worked so far, not a commit"
        )
        server.admin.execute_command("ACL", *user)
        store.save(whole(1))
        newest = replica.newest()
        server.admin.execute_command("ACL", "SETUSER", "onepass", "-lpush", "-lindex", "-mget")
        assert "ACL" in check_error(store.save, StoreUnavailableError, whole(2))
        assert "ACL" in check_error(store.load, StoreUnavailableError), (
            "the learner has written, so a first refused load is an outage"
        )
        assert "ACL" in check_error(replica.newest, StoreUnavailableError)
        assert "ACL" in check_error(replica.read, SettingsError, newest)
        server.admin.execute_command("ACL", *user)
        assert store.save(whole(2)).generation == 2
        assert [
            key for key in contents(server.admin) if ":g:" in key and server.admin.ttl(key) > 0
        ] == []


def test_tls_to_a_port_without_tls_is_reported(redis_url, monkeypatch):
    monkeypatch.setattr(
        "service.storage.redis_keys.SECONDS", 600.0
    )  # a first attempt waits for less
    port = redis_url.rpartition(":")[2].partition("/")[0]
    for url in (f"rediss://{HOST}:{port}/0", f"rediss+cluster://{HOST}:{port}"):
        with closing(make_store(url)) as store:
            assert check_error(store.acquire, StoreUnavailableError).endswith(
                "; does this port speak TLS?"
            )


def test_tls_to_a_foreign_service_is_reported():
    with socket.create_server((HOST, 0)) as listener:

        def talk() -> None:
            with listener.accept()[0] as peer:
                peer.sendall(b"220 mail.example.com\r\n" * 10)
                peer.recv(1000)

        thread = threading.Thread(target=talk)
        thread.start()
        with closing(make_store(f"rediss://{HOST}:{listener.getsockname()[1]}/0")) as store:
            assert check_error(store.newest, StoreUnavailableError).endswith(
                "; does this port speak TLS?"
            )
        thread.join()


def test_plain_text_to_a_port_with_tls_is_reported(tmp_path, system_redis):
    make_certificates(tmp_path)
    port = free_port()
    files = {
        name: tmp_path / file
        for name, file in {"ca-cert": "ca.crt", "cert": "own.crt", "key": "own.key"}.items()
    }
    options = [part for name, file in files.items() for part in (f"--tls-{name}-file", str(file))]
    with running(
        tmp_path / "r",
        port,
        "--port",
        "0",
        "--tls-port",
        str(port),
        *options,
        executable=system_redis,
    ):
        for url in (f"redis://{HOST}:{port}/0", f"redis+cluster://{HOST}:{port}"):
            with closing(make_store(url)) as store:
                assert check_error(store.acquire, StoreUnavailableError).endswith(
                    "; does this port speak TLS? then write rediss://"
                )
        with closing(make_store(f"rediss://{HOST}:{port}/0")) as store:
            assert "speak TLS" not in check_error(store.acquire, StoreUnavailableError), (
                "the port speaks TLS; only its certificate is unknown"
            )
