"""A running service as its HTTP clients see it: requests byte by byte, keys, and its log."""

import asyncio
import json
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import yaml
from redis import Redis

from service.server.api_keys import digest_of, new_key
from service.sources import create_log, open_sink
from service.sources.base import Entry
from tests.chaos.memory import rss_mb
from tests.integration.processes import free_port, running, write_config
from tests.waiting import HANG_SECONDS

HOST = "127.0.0.1"
CANARY = "canary-e07b"
PASSWORD = f"{CANARY}-password"
LONG = 600.0
"""Seconds that a client may take: no client is late, however busy the machine is."""
DEADLINE = 3.0
"""Seconds, for tests of late clients. A good client sends at once, so it is not late."""
IN_FLIGHT = 16
EVENT = b'{"features": {"amount": %d, "country": "br"}, "label": "%b"}'
QUESTION = b'{"features": {"amount": 5, "country": "br"}}'
SCOPES = ("predict", "metrics", "admin")
SECRETS = {scope: new_key() for scope in (*SCOPES, "limited")}


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float
    """Seconds until the reply was complete."""

    @property
    def json(self):
        return json.loads(self.body)


async def read_reply(reader, watch=None):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers["content-length"]))
    return Reply(int(first.split()[1]), headers, body, watch.seconds if watch else 0.0)


def request(method, path, key="", body=b"", *headers):
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: localhost",
        f"content-length: {len(body)}",
        *headers,
    ]
    if method == "POST":
        lines.append("content-type: application/json")
    if key:
        lines.append(f"authorization: Bearer {SECRETS.get(key, key)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def send_request(port, data, tls=None):
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
    try:
        writer.write(data)
        return await asyncio.wait_for(read_reply(reader), HANG_SECONDS)
    finally:
        await hang_up(writer)


async def hang_up(*writers):
    for writer in writers:
        writer.transport.abort()
    for writer in writers:
        with suppress(OSError):
            await writer.wait_closed()


def ask(port, method, path, key="", body=b"", *headers, tls=None):
    return asyncio.run(send_request(port, request(method, path, key, body, *headers), tls))


class Door(NamedTuple):
    port: int
    admin: int
    config: Path
    process: object

    @property
    def log(self):
        return self.config.with_suffix(".log").read_text()

    @property
    def rss(self):
        return rss_mb(self.process.pid)


def write_keys(path):
    keys = [
        {"name": f"{scope}-key", "sha256": digest_of(SECRETS[scope]), "scopes": [scope]}
        for scope in SCOPES
    ]
    limited = {
        "name": "limited-key",
        "sha256": digest_of(SECRETS["limited"]),
        "scopes": ["predict"],
    }
    path.write_text(yaml.safe_dump([*keys, limited | {"rate": 0.01, "burst": 2}]))
    return str(path)


@contextmanager
def open_door(redis_server, folder, database, **api):
    """Run the service of a model that has learned a little."""
    url = redis_server.url.replace("/0", f"/{database}")
    source = f"{url}/events"
    with Redis.from_url(url) as client:
        client.flushdb()
        client.execute_command("ACL", "SETUSER", "door", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    create_log(source)
    sink = open_sink(source)
    sink.append([Entry(EVENT % (1, b"fraud")), Entry(EVENT % (-1, b"fine"))] * 50)
    sink.close()
    store = url.replace("://", f"://door:{PASSWORD}@")
    limits = {"header_seconds": LONG, "body_seconds": LONG, "max_in_flight": IN_FLIGHT}
    settings = {"port": free_port()} | limits | api
    config = write_config(folder / "door.yaml", f"{store}/events", store, api=settings)
    with running("run", config) as process:
        port = settings["port"]
        tls = settings.get("tls") is not None
        if not tls:
            process.answers("/readyz", 200)
        yield Door(port, settings.get("admin", {}).get("port", 0), config, process)
