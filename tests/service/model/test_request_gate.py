"""Requests count as open from their last byte until they are answered or their
connection is lost.
"""

import asyncio
import socket
import struct

from service.config.settings import Api
from service.model.scheduling import RequestGate
from service.server.in_flight import InFlightLimit
from service.server.server import make_server, open_socket
from tests.waiting import wait_for

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
ASKED = HEAD + b"body"


class App:
    """An app that answers once `go` is set."""

    def __init__(self):
        self.go = asyncio.Event()
        self.entered = 0

    async def __call__(self, scope, receive, send):
        del scope, receive
        self.entered += 1
        await self.go.wait()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
        )
        await send({"type": "http.response.body", "body": b""})


async def until(condition):
    await asyncio.to_thread(wait_for, condition, "what is expected")


async def scenario():
    gate, app = RequestGate(), App()
    limit = InFlightLimit(9, lambda _: None, gate.arrived, gate.answered)
    listening = open_socket("127.0.0.1", 0, open_to_others=False)
    port = listening.getsockname()[1]
    server = make_server(app, Api(), limit)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started)

    async def connect(data):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        return reader, writer

    slow = await connect(HEAD + b"bo")
    long = await connect(HEAD.replace(b"4", b"400000"))
    await until(lambda: app.entered == 1)
    assert (gate._open, limit.open, limit.arriving) == (0, 0, 1), (
        "the long request is still being read"
    )
    first, second = await connect(ASKED), await connect(ASKED)
    await until(lambda: gate._open == 2)
    assert not gate._idle.is_set()
    app.go.set()
    await until(lambda: gate._open == 0)
    assert gate._idle.is_set()
    slow[1].write(b"dy")
    for reader, writer in (slow, first, second, long):
        assert (await reader.read(15)).startswith(b"HTTP/1.1 200")
        writer.close()
    await until(lambda: (gate._open, limit.open, app.entered) == (0, 0, 4))
    server.should_exit = True
    await serving


def test_open_requests_are_counted():
    asyncio.run(scenario())


async def unread():
    """Send two requests and read nothing: the first answer fills every buffer, and the second waits
    for it.
    """

    async def app(scope, receive, send):
        del scope, receive
        body = bytes(16_000_000)
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", b"16000000")],
            }
        )
        await send({"type": "http.response.body", "body": body})

    gate = RequestGate()
    limit = InFlightLimit(9, lambda _: None, gate.arrived, gate.answered)
    listening = open_socket("127.0.0.1", 0, open_to_others=False)
    server = make_server(app, Api(), limit)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started)
    _, writer = await asyncio.open_connection("127.0.0.1", listening.getsockname()[1], limit=1)
    writer.write(ASKED + ASKED)
    await until(lambda: (gate._open, limit.open) == (0, 1))
    writer.transport.abort()
    await until(lambda: limit.open == 0)
    assert gate._open == 0, "the request must be counted once"
    server.should_exit = True
    await serving


async def aborted():
    """Break off a connection: the app can ask whether its client is still connected. (A client that
    only stopped sending may still read.)
    """
    asked, said = [], []

    async def app(scope, receive, send):
        del receive, send
        asked.append(scope["gone"])
        said.append(scope["gone"]())
        await until(scope["gone"])

    limit = InFlightLimit(9, lambda _: None)
    listening = open_socket("127.0.0.1", 0, open_to_others=False)
    server = make_server(app, Api(), limit)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started)
    _, writer = await asyncio.open_connection("127.0.0.1", listening.getsockname()[1])
    writer.write(ASKED)
    await until(lambda: asked)
    writer.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    writer.transport.abort()
    await until(lambda: limit.open == 0)
    assert asked[0]()
    assert said == [False], "the client must count as connected until it breaks off"
    server.should_exit = True
    await serving


def test_the_app_can_ask_whether_its_client_has_disconnected():
    asyncio.run(aborted())


def test_an_unread_answer_does_not_count_as_an_open_request():
    asyncio.run(unread())
