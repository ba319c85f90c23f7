"""The embedded servers are real: acknowledged writes survive a kill, and a server that cannot start
says why.
"""

import os

import pytest
from kafka import KafkaConsumer
from redis import Redis

from service.embedded import kafka as embedded_kafka
from service.embedded.kafka import jars, kafka_broker
from service.embedded.process import EmbeddedError, ServerProcess, free_port
from service.embedded.redis import RedisServer, redis_server
from tests.waiting import wait_for


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_acknowledged_writes_to_redis_survive_a_kill(tmp_path):
    with redis_server(tmp_path) as server:
        pid = server.pid
        with Redis.from_url(server.url) as client:
            client.xadd("events", {"n": 1})
        server.kill()
        assert not alive(pid)
        server.start()
        with Redis.from_url(server.url) as client:
            assert client.xlen("events") == 1
            client.xadd("events", {"n": 2})
    with redis_server(tmp_path, port=server.port) as again, Redis.from_url(again.url) as client:
        assert again.url == f"redis://127.0.0.1:{server.port}/0"
        assert client.xlen("events") == 2
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_redis_without_appendonly_writes_no_file(tmp_path):
    with redis_server(tmp_path, appendonly=False) as server, Redis.from_url(server.url) as client:
        client.set("a", 1)
    assert [file.name for file in tmp_path.iterdir()] == ["redis.log"]


def test_redis_runs_in_another_session_than_the_terminal(redis_server):
    assert os.getsid(redis_server.pid) != os.getsid(0)


def test_redis_url_is_fresh_first(redis_url):
    with Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_redis_url_is_fresh_second(redis_url):
    with Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0


def test_redis_that_cannot_start_shows_its_log(tmp_path, redis_server):
    second = RedisServer(tmp_path, port=redis_server.port)
    with pytest.raises(
        EmbeddedError, match=r"(?s)^Redis ended with status 1 .*Address already in use"
    ):
        second.start()
    assert not second.running


def test_two_servers_never_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("service.embedded.process.LOCK_SECONDS", 0.1)
    with (
        redis_server(tmp_path) as first,
        pytest.raises(EmbeddedError, match="another Redis still runs on"),
        redis_server(tmp_path),
    ):
        pass
    assert not first.running


def test_a_server_that_never_answers_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("service.embedded.process.START_SECONDS", 0.0)
    log = tmp_path / "mute.log"

    def answers(_):
        wait_for(log.read_text, "its pid")
        return False

    mute = ServerProcess("Mute", ["sh", "-c", "echo $$; exec sleep 100"], log, answers)
    with pytest.raises(EmbeddedError, match="Mute does not answer"):
        mute.start()
    assert not alive(int(log.read_text()))


def test_a_server_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("service.embedded.process.STOP_SECONDS", 0.2)
    script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    deaf = ServerProcess(
        "Deaf", ["sh", "-c", script], tmp_path / "deaf.log", lambda logged: b"up" in logged
    )
    deaf.start()
    pid = deaf.pid
    deaf.stop()
    assert not alive(pid)
    deaf.stop()


def test_free_port_differs_from_the_given_port(monkeypatch):
    drawn = iter([20_001, 20_001, 20_002])
    monkeypatch.setattr("service.embedded.process.RANDOM.randrange", lambda *_: next(drawn))
    assert free_port(other_than=20_001) == 20_002


def test_make_topic_makes_the_given_number_of_partitions(kafka, make_topic):
    server, name = make_topic(partitions=3).rsplit("/", 1)
    assert server == f"kafka://{kafka.bootstrap}"
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap) as consumer:
        assert consumer.partitions_for_topic(name) == {0, 1, 2}


def test_a_configured_broker_is_used_but_never_started_or_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "127.0.0.1:9")
    monkeypatch.setenv("PATH", "")
    with kafka_broker(tmp_path) as broker:
        assert (broker.bootstrap, broker.pid) == ("127.0.0.1:9", None)
        for act in (broker.start, broker.stop, broker.kill):
            with pytest.raises(EmbeddedError, match="cannot be started or stopped here"):
                act()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def fake_maven(tmp_path, monkeypatch):
    """`fake_maven(script)` installs a Maven that runs `script` with the output folder in $out; the
    cache is empty.
    """
    tools, cache = tmp_path / "bin", tmp_path / "cache"
    tools.mkdir()
    monkeypatch.setenv("ONEPASS_CACHE_DIR", str(cache))
    monkeypatch.setenv("PATH", f"{tools}:{os.defpath}")

    def install(script):
        mvn = tools / "mvn"
        mvn.write_text(
            f'#!/bin/sh\nfor word; do out="${{word#-DoutputDirectory=}}"; done\n{script}\n'
        )
        mvn.chmod(0o755)
        return cache

    return install


@pytest.mark.parametrize("end", ["echo no network; exit 1", "kill -9 $$"])
def test_an_incomplete_download_is_not_used(fake_maven, end):
    cache = fake_maven(f'mkdir "$out"; touch "$out/first.jar"; {end}')
    with pytest.raises(EmbeddedError, match="Maven cannot download"):
        jars()
    assert not list(cache.iterdir())

    fake_maven('mkdir "$out"; touch "$out/first.jar" "$out/second.jar"')
    assert sorted(jar.name for jar in jars().iterdir()) == ["first.jar", "second.jar"]

    fake_maven("exit 1")
    assert jars() == cache / f"kafka-{embedded_kafka.VERSION}"
    assert list(cache.iterdir()) == [jars()]


def test_the_folder_of_a_killed_download_is_ignored(fake_maven):
    cache = fake_maven('mkdir "$out"; touch "$out/whole.jar"')
    left = cache / f"kafka-{embedded_kafka.VERSION}.abc" / "jars"
    left.mkdir(parents=True)
    (left / "half.jar").touch()
    assert [jar.name for jar in jars().iterdir()] == ["whole.jar"]


def test_a_download_that_another_process_finished_first_is_used(fake_maven):
    name = f"kafka-{embedded_kafka.VERSION}"
    fake_maven(
        f'mkdir "$out"; touch "$out/ours.jar"; cd "$out/../.."; mkdir {name}; touch'
        f" {name}/theirs.jar"
    )
    assert [jar.name for jar in jars().iterdir()] == ["theirs.jar"]


@pytest.mark.parametrize(("tools", "named"), [([], "java"), (["java"], "mvn")])
def test_kafka_without_its_tools_says_in_one_line_what_to_install(
    tmp_path, monkeypatch, tools, named
):
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.setenv("ONEPASS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for tool in tools:
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    with pytest.raises(EmbeddedError) as raised, kafka_broker(tmp_path / "kafka"):
        pass
    message = str(raised.value)
    assert f"({named}): install it, or set KAFKA_BOOTSTRAP" in message
    assert "\n" not in message
