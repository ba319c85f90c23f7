"""Redis as it is really run: a cluster, sentinels with a failover, TLS, and a user with only the
needed permissions.
"""

from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from redis import Redis

import service.storage
from service.checkpoint.store import Acquired, FencedError, StoreUnavailableError
from service.embedded.process import HOST, free_port
from service.embedded.redis import redis_server
from service.errors import SettingsError
from service.sources import open_source
from service.sources.base import SourceLostError
from tests.service.storage.redis_processes import PLAIN, make_certificates, running
from tests.service.storage.stores import delta, make_store, open_store, same, take_over, whole
from tests.waiting import HANG_SECONDS, wait_for


def live(url: str, **settings) -> None:
    """Run everything that talks to Redis once."""
    with (
        closing(open_store(url, **settings)) as store,
        closing(make_store(url, **settings)) as other,
    ):
        weights = np.random.default_rng(1).random(400_000)
        store.save(whole(1, weights=weights), {"a" * 64: b"history"})
        store.save(delta(2, {0: 1.0}))
        held_until = store._lease._until
        store._lease.renew()
        assert store.held
        assert store._lease._until > held_until
        assert other.acquire() is Acquired.HELD_ELSEWHERE
        assert same(other.read(other.newest()), store.load().snapshot)
        assert other.segment("a" * 64) == b"history"
        assert [manifest.generation for manifest in other.generations()] == [2, 1]
        assert other.freeze() == other.freeze()
        with pytest.raises(FencedError):
            store.save(whole(3))
        other.unfreeze()
        assert other.restate(whole(4), origin="rollback").generation == 3
        assert store.acquire() is Acquired.STALE
        assert store.load().snapshot.events == 4
        for n in range(10):
            store.save(whole(n, size=300_000))
        store.close()
        assert other.acquire() is Acquired.STALE
        assert other.load().snapshot.events == 9


@pytest.fixture
def cluster(tmp_path):
    """Three masters that share the slots."""
    with ExitStack() as stack:
        clients = []
        for number in range(3):
            # The nodes talk to each other on a port 10,000 higher, which must not be one that the
            # kernel hands out.
            port = next(port for port in iter(free_port, None) if port < 20_000)
            options = [
                "--port",
                str(port),
                "--cluster-enabled",
                "yes",
                "--cluster-node-timeout",
                "60000",  # otherwise a busy machine makes them seem dead
            ]
            stack.enter_context(running(tmp_path / str(number), port, *options))
            clients.append((port, stack.enter_context(Redis(port=port))))
        share = 16384 // 3 + 1
        for number, (_, client) in enumerate(clients):
            slots = range(share * number, min(16384, share * (number + 1)))
            client.execute_command("CLUSTER", "ADDSLOTS", *slots)
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            client.execute_command("CLUSTER", "MEET", HOST, clients[0][0])
        wait_for(
            lambda: all(
                b"cluster_state:ok" in raw and b"cluster_known_nodes:3" in raw
                for raw in (cluster_info(client) for _, client in clients)
            ),
            "the cluster",
        )
        yield [port for port, _ in clients]


def cluster_info(client: Redis) -> bytes:
    said = client.execute_command("CLUSTER INFO")
    return (
        said
        if isinstance(said, bytes)
        else "\n".join(f"{key}:{value}" for key, value in said.items()).encode()
    )


def test_the_store_works_on_a_cluster(cluster):
    nodes = ",".join(f"{HOST}:{port}" for port in cluster)
    for name in ("a", "b", "c", "d"):  # in different slots, so on different nodes
        live(f"redis+cluster://{nodes}", name=name)
    live(f"redis+cluster://{HOST}:1,{HOST}:{cluster[1]}/0", name="one-node-is-enough")


def test_a_single_redis_is_refused_where_a_cluster_is_configured(redis_url):
    with (
        closing(make_store(redis_url.replace("redis://", "redis+cluster://"))) as store,
        pytest.raises(StoreUnavailableError),
    ):
        store.acquire()


def sentinel_options(folder: Path, port: int, master: int) -> str:
    file = folder.parent / f"{folder.name}.conf"
    file.write_text(
        f"port {port}\nsentinel monitor main {HOST} {master} 2\nsentinel down-after-milliseconds"
        " main 60000\nsentinel failover-timeout main 3000\n"
    )
    return str(file)


def start_watched(stack: ExitStack, tmp_path: Path, ports: list[int]):
    """Start a master, its replica and the sentinels that watch them; return the master."""
    master = stack.enter_context(running(tmp_path / "master", ports[0], "--port", str(ports[0])))
    follow = ["--replicaof", HOST, str(ports[0])]
    stack.enter_context(running(tmp_path / "replica", ports[1], "--port", str(ports[1]), *follow))
    for number, port in enumerate(ports[2:]):
        folder = tmp_path / f"sentinel{number}"
        options = [sentinel_options(folder, port, ports[0]), "--sentinel"]
        stack.enter_context(running(folder, port, *options, ready=b"+monitor"))
    return master


def know_each_other(sentinels: list[Redis]) -> bool:
    states = [sentinel.sentinel_master("main") for sentinel in sentinels]
    return all(
        int(state["num-other-sentinels"]) == 2 and int(state["num-slaves"]) == 1 for state in states
    )


def can_save(store, first: int) -> bool:
    """Whether the store saves a later generation, retaking its lease if needed."""
    try:
        if store.disturbed and store.acquire() is not Acquired.CURRENT:
            return False
        return store.save(whole(3)).generation >= first + 1
    except (StoreUnavailableError, FencedError):
        return False


def test_the_store_survives_a_failover_by_sentinels(tmp_path):
    ports = [free_port() for _ in range(5)]
    with ExitStack() as stack:
        master = start_watched(stack, tmp_path, ports)
        replica = stack.enter_context(Redis(port=ports[1]))
        wait_for(lambda: replica.info("replication")["master_link_status"] == "up", "the replica")
        url = f"redis+sentinel://{','.join(f'{HOST}:{port}' for port in ports[2:])}/main/0"
        live(url)
        asked = [stack.enter_context(Redis(port=port)) for port in ports[2:]]
        wait_for(lambda: know_each_other(asked), "that the sentinels know each other")
        with closing(open_store(url)) as store:
            first = store.save(whole(1)).generation
            with Redis(port=ports[0]) as writer:
                writer.set("after", "all of it")
                assert writer.wait(1, HANG_SECONDS * 1000) == 1, "the replica must have the data"
            for sentinel in asked:  # only now: a busy machine could cause an early failover
                sentinel.sentinel_set("main", "down-after-milliseconds", 500)
            master.kill()
            with pytest.raises(StoreUnavailableError):
                store.save(whole(2))
            wait_for(lambda: can_save(store, first), "the failover", 2 * HANG_SECONDS)
            held_until = store._lease._until
            wait_for(lambda: store._lease._until > held_until, "a renewal at the new master")
            assert store.held
            assert store.load().snapshot.events == 3
        assert replica.info("replication")["role"] == "master"


def test_the_store_works_over_tls(tmp_path, system_redis):
    make_certificates(tmp_path)
    port = free_port()
    tls = {
        "ca_file": tmp_path / "ca.crt",
        "cert_file": tmp_path / "own.crt",
        "key_file": tmp_path / "own.key",
    }
    files = [f"--tls-ca-cert-file {tls['ca_file']}", f"--tls-cert-file {tls['cert_file']}"]
    options = (
        f"--port 0 --tls-port {port} {' '.join(files)} --tls-key-file {tls['key_file']}".split()
    )
    with running(tmp_path / "redis", port, *options, executable=system_redis):
        live(f"rediss://{HOST}:{port}/1", **tls)
        for wrong in (
            {},  # the system does not trust our authority
            {"ca_file": tls["ca_file"]},  # the server demands a client certificate
        ):
            with (
                closing(make_store(f"rediss://{HOST}:{port}/1", **wrong)) as store,
                pytest.raises(StoreUnavailableError),
            ):
                store.acquire()
        elsewhere = make_store(
            f"rediss://localhost:{port}/1", **tls
        )  # the certificate is for 127.0.0.1
        with (
            closing(elsewhere) as store,
            pytest.raises(StoreUnavailableError, match=r"(?i)certificate|hostname"),
        ):
            store.acquire()


def rules() -> list[str]:
    """Return the ACL rules from the package's documentation."""
    line = service.storage.__doc__.partition("ACL SETUSER onepass on >PASSWORD ")[2]
    return line.split()


def save_once(store) -> None:
    store.acquire()
    store.load()
    store.save(whole(1))


@pytest.mark.parametrize("server", ["packaged", "system"])
def test_the_documented_acl_has_exactly_the_needed_permissions(tmp_path, server, request):
    port = free_port()
    executable = PLAIN if server == "packaged" else request.getfixturevalue("system_redis")
    with (
        running(tmp_path / "redis", port, "--port", str(port), executable=executable),
        Redis(port=port) as admin,
    ):
        admin.execute_command("ACL", "SETUSER", "onepass", "on", ">secret-canary", *rules())
        live(f"redis://onepass@{HOST}:{port}/0", password="secret-canary")
        with Redis(port=port, username="onepass", password="secret-canary") as user:
            for forbidden in (
                ["GET", "other"],
                ["KEYS", "*"],
                ["FLUSHALL"],
                ["DEL", "{m:m}:head"],
                ["ACL", "LIST"],
            ):
                with pytest.raises(Exception, match=r"(?i)permission"):
                    user.execute_command(*forbidden)
        for needed in ("+lpush", "+eval", "+get", "+client|setname"):
            less = [rule for rule in rules() if rule != needed]
            admin.flushall()
            admin.execute_command(
                "ACL", "SETUSER", "onepass", "reset", "on", ">secret-canary", *less
            )
            with closing(
                make_store(f"redis://onepass@{HOST}:{port}/0", password="secret-canary")
            ) as store:
                with pytest.raises(SettingsError, match="ACL") as caught:
                    save_once(store)
                assert "canary" not in str(caught.value)
        less = [rule for rule in rules() if rule not in {"+info", "+config|get"}]
        admin.flushall()
        admin.execute_command("ACL", "SETUSER", "onepass", "reset", "on", ">secret-canary", *less)
        live(f"redis://onepass@{HOST}:{port}/0", password="secret-canary")


def test_the_store_works_on_the_newer_redis_of_the_system(tmp_path, system_redis):
    port = free_port()
    with (
        running(tmp_path / "redis", port, "--port", str(port), executable=system_redis),
        Redis(port=port) as client,
    ):
        live(f"redis://{HOST}:{port}/0")
        with closing(take_over(client, f"redis://{HOST}:{port}/0")) as store:
            assert store.save(whole(1)).generation > 1


def test_redis_7_reveals_a_trim_beyond_the_position(tmp_path, system_redis):
    """The trim also hit entries that were added after the last look."""
    port = free_port()
    url = f"redis://{HOST}:{port}/0/events"
    with (
        running(tmp_path / "redis", port, "--port", str(port), executable=system_redis),
        Redis(port=port) as client,
    ):
        for number in range(1, 11):
            client.xadd("events", {"value": b"x"}, id=f"{number}-0")
            if number == 3:
                with closing(open_source(url, "earliest")) as source:
                    assert source.lag() == {"0": 3}
                    assert len(source.poll(1.0, 3)) == 3
                    bookmark = source.bookmark()
        client.xtrim("events", minid="4-0", approximate=False)
        with closing(open_source(url, "earliest")) as source:
            source.seek(bookmark)  # only entries that were read are gone
        client.xtrim("events", minid="7-0", approximate=False)
        with (
            closing(open_source(url, "earliest")) as source,
            pytest.raises(SourceLostError, match="3 entries"),
        ):
            source.seek(bookmark)


def test_a_server_that_restarts_empty_gets_the_state_again(tmp_path):
    with redis_server(tmp_path / "a", appendonly=False) as server:
        url = server.url.replace("/0", "/5")
        with closing(open_store(url)) as store:
            store.save(whole(1))
            server.kill()
            server.start()
            wait_for(lambda: store.disturbed, "the learner sees the loss")
            assert store.acquire() is Acquired.CURRENT
            assert store.save(whole(2)).generation == 2
