"""URLs, passwords and the server's settings: a wrong one is reported at once, in one line, without
secrets.
"""

import logging
from contextlib import closing, contextmanager

import pytest
from redis import Redis

from service.checkpoint.store import StoreUnavailableError
from service.config.settings import StoreSettings
from service.embedded.process import free_port
from service.embedded.redis import redis_server
from service.errors import SettingsError
from service.storage.connection import Server
from tests.looped import looped
from tests.service.storage.stores import make_store, open_store, whole

PASSWORD = "hunter2-canary"


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("own"), appendonly=False) as server:
        yield server


@contextmanager
def configure(server, **settings):
    with Redis.from_url(server.url, username="admin", password="admin") as admin:
        for name, value in settings.items():
            admin.config_set(name, value)
        yield admin


@pytest.fixture
def server(own_server):
    """A server without special settings, with an admin whom no setting locks out."""
    with Redis.from_url(own_server.url) as client:
        client.acl_setuser(
            "admin", enabled=True, passwords=["+admin"], commands=["+@all"], keys=["*"]
        )
    yield own_server
    with Redis.from_url(own_server.url, username="admin", password="admin") as admin:
        for name, value in {
            "requirepass": "",
            "maxmemory": "0",
            "maxmemory-policy": "noeviction",
            "save": "",
        }.items():
            admin.config_set(name, value)
        admin.flushall()


@pytest.mark.parametrize(
    ("url", "kind", "nodes", "db", "service"),
    [
        ("redis://h", "", [("h", 6379)], 0, ""),
        ("redis://h:1/3", "", [("h", 1)], 3, ""),
        ("rediss://u:p%40@[::1]:2/0", "", [("::1", 2)], 0, ""),
        ("redis+cluster://a:1,b:2", "cluster", [("a", 1), ("b", 2)], 0, ""),
        ("redis+cluster://a:1,b:2/0", "cluster", [("a", 1), ("b", 2)], 0, ""),
        (
            "rediss+sentinel://u@a:1,b:2,c/main/4",
            "sentinel",
            [("a", 1), ("b", 2), ("c", 6379)],
            4,
            "main",
        ),
        ("redis+sentinel://a:1/main", "sentinel", [("a", 1)], 0, "main"),
    ],
)
def test_urls_are_parsed(url, kind, nodes, db, service):
    address = Server(StoreSettings(url=url))._address
    assert (address.kind, address.nodes, address.db, address.service) == (kind, nodes, db, service)
    assert address.tls == url.startswith("rediss")
    assert address.user == ("u" if "u" in url.partition("@")[0][8:] and "@" in url else None)
    assert address.password == ("p@" if "p%40" in url else None)


@looped(
    "url",
    [
        "localhost:6379",
        "redis://",
        f"http://:{PASSWORD}@h/0",
        f"redis://:a/{PASSWORD}@h:1/0",
        f"redis://h:{PASSWORD}/0",
        f"redis://h/{PASSWORD}",
        f"redis://h/0?password={PASSWORD}",
        "redis://a:1,b:2/0",
        "redis://h:1/service/0",
        "redis+cluster://a:1/1",
        "redis+sentinel://a:1",
        "redis+sentinel://a:1/b/c/0",
        "redis+sentinel://a:1/main/x",
        "redis+other://a:1",
        "redis://h:99999/0",
    ],
)
def test_a_malformed_url_is_refused_without_its_password(url):
    with pytest.raises(SettingsError, match=r"store\.url") as caught:
        make_store(url)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in repr(caught.value.__cause__)
    assert caught.value.__suppress_context__


@looped("kind", ["", "+cluster", "+sentinel"])
@looped("ask", ["acquire", "newest", "load", "generations", "freeze", "restate"])
def test_an_absent_redis_is_unavailable_soon_and_without_the_password(kind, ask, monkeypatch):
    pauses = []
    monkeypatch.setattr("redis.retry.sleep", pauses.append)
    port = free_port()
    path = "/main/0" if kind == "+sentinel" else "/0"
    url = f"redis{kind}://user:{PASSWORD}@127.0.0.1:{port}{path}"
    with closing(make_store(url, password=PASSWORD)) as store:
        with pytest.raises(StoreUnavailableError) as caught:
            getattr(store, ask)(*[whole(1)] * (ask == "restate"))
        assert sum(pauses) < 3, "the client must not retry for long"
        assert PASSWORD not in repr(store)
    message = str(caught.value)
    assert str(port) in message
    assert PASSWORD not in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["ca_file", "cert_file", "key_file"])
def test_a_missing_certificate_is_refused(tmp_path, name):
    with pytest.raises(SettingsError, match=rf"store\.{name}"):
        make_store("rediss://h:1/0", **{name: tmp_path / "none"})


def test_the_password_is_used(server, tmp_path):
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\nanother line\n")
    port = server.url.rpartition(":")[2]
    with configure(server, requirepass=PASSWORD):
        for url, ways in (
            (server.url, {"password": PASSWORD}),
            (server.url, {"password_file": file}),
            (f"redis://:{PASSWORD}@127.0.0.1:{port}", {}),
            (f"redis://default@127.0.0.1:{port}", {"password": PASSWORD}),
        ):
            with closing(make_store(url, **ways)) as store:
                store.acquire()
        wrong = f"redis://nobody@127.0.0.1:{port}"
        for url, ways in (
            (server.url, {}),
            (server.url, {"password": "wrong-canary"}),
            (wrong, {"password": PASSWORD}),
        ):
            with closing(make_store(url, **ways)) as store:
                for ask in (store.acquire, store.newest):
                    with pytest.raises(SettingsError, match=r"store\.password") as caught:
                        ask()
                    assert "canary" not in str(caught.value)
                    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [None, "", b"\xff"])
def test_a_password_file_without_a_password_is_refused(tmp_path, content):
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SettingsError, match="password_file"):
        make_store("redis://h:1/0", password_file=file)


def test_a_server_that_may_drop_checkpoints_is_refused(server):
    with configure(server, maxmemory="100mb"), closing(make_store(server.url)) as store:
        store.acquire()
    with (
        configure(server, **{"maxmemory-policy": "volatile-lru"}),
        closing(make_store(server.url)) as store,
    ):
        with pytest.raises(SettingsError, match="maxmemory-policy noeviction") as caught:
            store.acquire()
        assert "\n" not in str(caught.value)
        with configure(server, maxmemory="0"):
            store.acquire()


def test_a_server_without_persistence_causes_one_warning(server, caplog):
    with caplog.at_level(logging.WARNING), closing(make_store(server.url)) as store:
        store.acquire()
        store.acquire()
    assert [
        record.getMessage() for record in caplog.records if "nothing on disk" in record.getMessage()
    ]
    assert len(caplog.records) == 1
    caplog.clear()
    with configure(server, save="900 1"), closing(make_store(server.url)) as store:
        store.acquire()
    assert caplog.records == []


def test_little_free_memory_causes_one_warning(server, caplog):
    with configure(server, maxmemory="7mb", save="900 1"), closing(open_store(server.url)) as store:
        store.save(whole(1, size=300_000))
        store.save(whole(2, size=300_000))
    assert len(caplog.records) == 1
    assert "raise its maxmemory" in caplog.records[0].getMessage()


def test_a_full_server_is_unavailable_and_keeps_the_old_generation(server):
    with closing(open_store(server.url)) as store:
        store.save(whole(1))
        with configure(server, maxmemory="1"):
            with pytest.raises(StoreUnavailableError):
                store.save(whole(2))
            assert store.newest().generation == 1
        with configure(server, maxmemory="0"):
            assert store.save(whole(3)).generation == 2


def test_a_redis_replica_is_unavailable(server, tmp_path):
    with redis_server(tmp_path) as follower, Redis.from_url(follower.url) as client:
        client.replicaof("127.0.0.1", server.url.rpartition(":")[2].partition("/")[0])
        with (
            closing(make_store(follower.url)) as store,
            pytest.raises(StoreUnavailableError, match="replica"),
        ):
            store.acquire()
        client.replicaof("NO", "ONE")  # otherwise it would end only after a while
