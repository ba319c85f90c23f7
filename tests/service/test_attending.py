"""Requests that are counted as open: whole ones, until they are answered or their connection is lost."""

import asyncio

import pytest
import uvicorn

from service.attending import attending
from service.courtesy import Courtesy

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
ASKED = HEAD + b"body"


class App:
    """Answers when it is told to."""

    def __init__(self):
        self.go = asyncio.Event()
        self.entered = 0

    async def __call__(self, scope, receive, send):
        del scope, receive
        self.entered += 1
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came to be")


async def scenario():
    courtesy, app = Courtesy(), App()
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, http=attending(courtesy), log_config=None, lifespan="off", ws="none")
    )
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]

    async def connected(data):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        return reader, writer

    slow = await connected(HEAD + b"bo")
    await until(lambda: app.entered == 1)
    assert courtesy._open == 0, "the body is not there yet"
    first = await connected(ASKED * 3)  # in a row, before the first is answered
    gone = await connected(ASKED)
    await until(lambda: courtesy._open == 4)
    assert not courtesy._idle.is_set()
    gone[1].close()
    await until(lambda: courtesy._open == 3)
    app.go.set()
    await until(lambda: courtesy._open == 0)
    assert courtesy._idle.is_set()
    slow[1].write(b"dy")
    for reader, writer in (slow, first):
        assert (await reader.read(15)).startswith(b"HTTP/1.1 200")
        writer.close()
    await until(lambda: courtesy._open == 0 and app.entered == 5)
    server.should_exit = True
    await serving


def test_open_requests_are_counted():
    asyncio.run(scenario())
