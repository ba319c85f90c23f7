"""HTTP of services that end, speak TLS or must not listen at all."""

import asyncio
import json
import signal
import ssl
import subprocess
from contextlib import suppress

import pytest
from redis import Redis

from tests.integration.door import (
    CANARY,
    DEADLINE,
    HOST,
    PASSWORD,
    ask,
    hang_up,
    open_door,
    read_reply,
    request,
    send_request,
)
from tests.integration.processes import (
    START_SECONDS,
    free_port,
    onepass,
    running,
    write_config,
)
from tests.waiting import HANG_SECONDS, wait_for


def test_requests_open_at_sigterm_get_503_and_no_traceback(redis_server, tmp_path):
    with open_door(redis_server, tmp_path, 6) as door:

        async def hold():
            reader, writer = await asyncio.open_connection(HOST, door.port)
            writer.write(
                request("POST", "/predict").replace(b"content-length: 0", b"content-length: 900")
            )
            # This answer comes only after the server has read from the first connection.
            await send_request(door.port, request("GET", "/healthz"))
            door.process.signal(signal.SIGTERM)
            reply = await asyncio.wait_for(read_reply(reader), HANG_SECONDS)
            await hang_up(writer)
            return reply

        assert asyncio.run(hold()).status == 503
        assert door.process.finish()[0] == 0
        assert "Traceback" not in door.log
        assert "CancelledError" not in door.log


def certificate(folder, name, *more):
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256"
    words = f"req -x509 {curve} -nodes -days 2 -subj /CN={name}".split()
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
    subprocess.run(["openssl", *words, *files, *more], cwd=folder, check=True, capture_output=True)


def test_tls_accepts_only_clients_with_a_known_certificate(redis_server, tmp_path):
    certificate(tmp_path, "server", "-addext", f"subjectAltName=IP:{HOST}")
    certificate(tmp_path, "friend")
    certificate(tmp_path, "stranger")
    tls = {"cert_file": "server.pem", "key_file": "server.key", "client_ca_file": "friend.pem"}
    settings = {name: str(tmp_path / file) for name, file in tls.items()}

    def client(name=None, most=ssl.TLSVersion.MAXIMUM_SUPPORTED):
        context = ssl.create_default_context(cafile=tmp_path / "server.pem")
        context.maximum_version = most
        if name:
            context.load_cert_chain(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
        return context

    with open_door(redis_server, tmp_path, 7, tls=settings, header_seconds=DEADLINE) as door:

        def status(**how):
            try:
                return ask(door.port, "GET", "/healthz", tls=client(**how))
            except OSError:
                return None

        reply = wait_for(lambda: status(name="friend"), "TLS", START_SECONDS)
        assert reply.status == 200
        assert "strict-transport-security" in reply.headers
        assert status(name="friend", most=ssl.TLSVersion.TLSv1_2).status == 200
        for how in ({}, {"name": "stranger"}):
            with pytest.raises((OSError, EOFError)):
                ask(door.port, "GET", "/healthz", tls=client(**how))
        with pytest.raises((OSError, EOFError)):
            ask(door.port, "GET", "/healthz")

        async def mute():
            reader, writer = await asyncio.open_connection(HOST, door.port)
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), HANG_SECONDS)
            await hang_up(writer)

        asyncio.run(mute())  # this returns because a handshake has a deadline, too


def count_looks(client):
    """Return how often the newest checkpoint was read."""
    return client.info("commandstats").get("cmdstat_lindex", {"calls": 0})["calls"]


def test_listening_to_all_addresses_without_keys_is_refused(tmp_path, redis_url):
    config = write_config(
        tmp_path / "c.yaml",
        f"{redis_url}/s",
        redis_url,
        api={"host": "0.0.0.0", "port": free_port()},
    )
    done = onepass("serve", "--config", config)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "--insecure" in done.stderr
    with running("serve", config, "--insecure") as process:
        process.answers("/healthz", 200)
        wait_for(lambda: "no checkpoint yet" in str(process.get("/readyz")), "a reason")
        with Redis.from_url(redis_url) as client:
            seen = count_looks(client)
            wait_for(lambda: count_looks(client) >= seen + 3, "the store is looked at twice more")
    lines = [json.loads(line) for line in config.with_suffix(".log").read_text().splitlines()]
    told = [(line["level"], line["message"]) for line in lines]
    assert [
        level for level, message in told if "--insecure" in message and "0.0.0.0" in message
    ] == ["WARNING"]
    assert len([line for line in told if "no checkpoint yet" in line[1]]) == 1
    assert told[-1] == ("INFO", "stopped at generation 0: 0 events learned")


def test_a_refused_password_from_the_environment_is_not_printed(tmp_path, redis_url, monkeypatch):
    monkeypatch.setenv("ONEPASS_STORE__PASSWORD", PASSWORD)
    store = redis_url.replace("://", "://nobody@")
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/s", store)
    done = onepass("serve", "--config", config)
    assert done.returncode == 2
    assert "refuses the user or password" in done.stderr
    assert CANARY not in done.stdout + done.stderr
