"""What goes wrong with Redis, in words: what to do, the same for the same trouble, and of whose
making it is.
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
from tests.service.storage.redis_processes import certificates, running
from tests.service.storage.stores import (
    Broken,
    contents,
    made,
    opened,
    stop_renewing,
    whole,
)


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def server(tmp_path):
    """One that a test may lock itself out of."""
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


def said(ask, kind: type[Exception], *arguments) -> str:
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
def test_a_key_of_another_type_is_not_waited_for(redis_url, client, key, asked):
    client.hset(f"{{m:m}}:{key}", "a", "b")
    for ask in asked:
        with closing(made(redis_url)) as store:
            text = said(getattr(store, ask), CorruptCheckpointError)
            assert "{m:m}:*" in text
            assert "delete or rename it, or use another name" in text
            assert "script" not in text


@pytest.mark.parametrize("key", ["token", "head"])
def test_a_key_that_changed_its_type_under_a_learner(redis_url, client, key):
    with closing(opened(redis_url)) as store:
        store.save(whole(1))
        client.delete(f"{{m:m}}:{key}")
        client.hset(f"{{m:m}}:{key}", "a", "b")
        said(store.save, CorruptCheckpointError, whole(2))
        store._lease.renew()
        assert store._lease._thread.is_alive()


def test_a_lease_of_another_type_is_healed_by_the_next_commit(redis_url, client):
    with closing(opened(redis_url)) as store:
        stop_renewing(store)  # or it might take its lease again before it is of another type
        client.delete("{m:m}:lease")
        client.hset("{m:m}:lease", "a", "b")
        store._lease.renew()
        assert client.type("{m:m}:lease") == b"hash", "a renewal leaves it"
        store.save(whole(1))
        assert client.get("{m:m}:lease") == store._lease.holder.encode()


def test_a_segment_of_another_type(redis_url, client):
    client.hset("{m:m}:l:" + "a" * 64, "a", "b")
    with closing(opened(redis_url)) as store:
        said(store.segment, CorruptCheckpointError, "a" * 64)
        said(lambda: store.save(whole(1), {"a" * 64: b"history"}), CorruptCheckpointError)


@pytest.mark.parametrize("which", ["packaged", "system"])
def test_equal_troubles_are_equal_texts(tmp_path, which, request):
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
        with closing(opened(f"redis://{HOST}:{port}/0")) as store:
            admin.config_set("maxmemory", "1")
            texts = {said(store.save, StoreUnavailableError, whole(n)) for n in range(3)}
            texts |= {said(store.acquire, StoreUnavailableError)}
            admin.config_set("maxmemory", "0")
        text = (
            f"Redis at redis://{HOST}:{port}/0: command not allowed when used memory > 'maxmemory'"
        )
        assert {text.replace(": OOM ", ": ") for text in texts} == {text}
        assert len(texts) <= 2, "out of a script its code may come along"


def test_a_database_that_is_not_there(redis_url, caplog):
    url = redis_url.replace("/0", "/99")
    for ask in ("acquire", "newest"):
        with closing(made(url)) as store:
            assert (
                said(getattr(store, ask), SettingsError)
                == f"store.url: Redis at {url} has no database 99"
            )
    assert not caplog.records, "nothing is said about INFO"


@pytest.mark.parametrize(
    "text", ["unknown command 'INFO'", "this user has no permissions to run the 'info' command"]
)
def test_info_that_may_not_be_asked_is_told(redis_url, caplog, text):
    def denied(*_, **__):
        raise redis.ResponseError(text)

    with closing(made(redis_url)) as store, Broken(store, info=denied):
        store.acquire()
    assert "forbids its user the command INFO" in caplog.text


def test_another_answer_to_info_is_trouble(redis_url, caplog):
    def busy(*_, **__):
        raise redis.ResponseError("BUSY Redis is busy running a script.")

    with closing(made(redis_url)) as store, Broken(store, info=busy):
        assert said(store.acquire, StoreUnavailableError).endswith("busy running a script")
    assert not caplog.records


def test_a_password_that_is_needed_and_one_that_is_wrong(server):
    server.admin.config_set("requirepass", "secret-canary")
    with closing(made(server.url)) as store:
        text = said(store.acquire, SettingsError)
        assert text == f"store.url, store.password: Redis at {server.url}: a password is needed"
    with closing(made(server.url, password="wrong-canary")) as store:
        text = said(store.newest, SettingsError)
        assert "refuses the user or password" in text
        assert "canary" not in text


def test_a_password_changed_under_a_learner_is_trouble(server):
    with closing(opened(server.url)) as store, closing(made(server.url)) as late:
        store.save(whole(1))
        server.admin.config_set("requirepass", "secret-canary")
        server.admin.client_kill_filter(_type="normal", skipme=True)
        text = said(store.save, StoreUnavailableError, whole(2))
        assert text == said(late.newest, SettingsError)
        server.admin.config_set("requirepass", "")
        assert store.save(whole(2)).generation == 2


def test_what_an_acl_forbids_is_the_settings_fault_until_it_worked(server):
    user = ["SETUSER", "onepass", "reset", "on", ">secret", "~{m:*", "+@all"]
    server.admin.execute_command("ACL", *user)
    url = server.url.replace("//", "//onepass@")
    with (
        closing(opened(url, password="secret")) as store,
        closing(made(url, password="secret")) as replica,
    ):
        replica.newest()
        server.admin.execute_command("ACL", "SETUSER", "onepass", "-lpush", "-lindex", "-mget")
        assert "ACL" in said(store.save, SettingsError, whole(1)), (
            "acquiring worked, but never a commit"
        )
        server.admin.execute_command("ACL", *user)
        store.save(whole(1))
        newest = replica.newest()
        server.admin.execute_command("ACL", "SETUSER", "onepass", "-lpush", "-lindex", "-mget")
        assert "ACL" in said(store.save, StoreUnavailableError, whole(2))
        assert "ACL" in said(store.load, StoreUnavailableError), (
            "never asked before, but this learner wrote"
        )
        assert "ACL" in said(replica.newest, StoreUnavailableError)
        assert "ACL" in said(replica.read, SettingsError, newest)
        server.admin.execute_command("ACL", *user)
        assert store.save(whole(2)).generation == 2
        assert [
            key for key in contents(server.admin) if ":g:" in key and server.admin.ttl(key) > 0
        ] == []


def test_tls_to_a_port_without_it(redis_url, monkeypatch):
    monkeypatch.setattr("service.storage.redis_keys.SECONDS", 600.0)  # a first try waits for less
    port = redis_url.rpartition(":")[2].partition("/")[0]
    for url in (f"rediss://{HOST}:{port}/0", f"rediss+cluster://{HOST}:{port}"):
        with closing(made(url)) as store:
            assert said(store.acquire, StoreUnavailableError).endswith(
                "; does this port speak TLS?"
            )


def test_tls_to_a_port_that_talks_something_else():
    with socket.create_server((HOST, 0)) as listener:

        def talk() -> None:
            with listener.accept()[0] as peer:
                peer.sendall(b"220 mail.example.com\r\n" * 10)
                peer.recv(1000)

        thread = threading.Thread(target=talk)
        thread.start()
        with closing(made(f"rediss://{HOST}:{listener.getsockname()[1]}/0")) as store:
            assert said(store.newest, StoreUnavailableError).endswith("; does this port speak TLS?")
        thread.join()


def test_a_port_with_tls_spoken_to_without(tmp_path, system_redis):
    certificates(tmp_path)
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
            with closing(made(url)) as store:
                assert said(store.acquire, StoreUnavailableError).endswith(
                    "; does this port speak TLS? then write rediss://"
                )
        with closing(made(f"rediss://{HOST}:{port}/0")) as store:
            assert "speak TLS" not in said(store.acquire, StoreUnavailableError), (
                "it does; its certificate is not known"
            )
