"""A server in a thread of the test's process, whose time passes only when a test says so."""

import asyncio
import socket
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial

import pytest

from service.api.middleware import AuthAndLimits
from service.config.settings import Api
from service.server.in_flight import InFlightLimit
from service.server.server import make_server, open_socket
from tests.waiting import HANG_SECONDS

FAST = {"header_seconds": 0.5, "body_seconds": 0.5, "idle_seconds": 0.7, "max_in_flight": 4}
"""Settings; their seconds are those of `Timers`, not of the machine."""
TICK = 0.1
BIG = b"x" * 20_000_000
SEND_BUFFER = 65536


class Timer:
    def __init__(self, timers, at, call):
        self.at, self.call = at, call
        self._timers = timers

    def cancel(self):
        if self in self._timers:
            self._timers.remove(self)


class Timers:
    """The loop of the server, as far as connections ask it for time; time passes only when a test
    says so.
    """

    def __init__(self):
        self.now = 0.0
        self._timers, self._loop = [], None

    def of(self, loop):
        self._loop = loop
        return self

    def __getattr__(self, name):
        return getattr(self._loop, name)

    def call_later(self, seconds, call, *arguments):
        timer = Timer(self._timers, self.now + seconds, partial(call, *arguments))
        self._timers.append(timer)
        return timer

    def pass_by(self, seconds):
        """Let this many seconds pass; all timers that are due have run when this returns."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(self._pass, self.now + seconds, done)
        assert done.wait(HANG_SECONDS)

    def ask(self, question):
        """Ask in the loop's own thread: from another thread, sizes could be seen while
        they change.
        """
        answer = Future()
        self._loop.call_soon_threadsafe(lambda: answer.set_result(question()))
        return answer.result(HANG_SECONDS)

    def _pass(self, end, done):
        while due := [timer for timer in self._timers if timer.at <= end]:
            first = min(due, key=lambda timer: timer.at)
            first.cancel()
            self.now = first.at
            first.call()
        self.now = end
        done.set()


class World:
    """A server in a thread, and a record of its events."""

    def __init__(self, **changes):
        self.api = Api(port=0, **FAST | changes)
        self.refused, self.starts, self.ends = [], 0, 0
        self.release = asyncio.Event()
        self.limit = InFlightLimit(
            self.api.max_in_flight, self.refused.append, self.started, self.ended
        )
        self.server = make_server(AuthAndLimits(self.app, 1000), self.api, self.limit)
        self.timers, self.accepted, self.taken = Timers(), 0, 0
        self.server.config.http = self.timed(self.server.config.http)
        self.socket = open_socket("127.0.0.1", 0, open_to_others=False)
        # Otherwise the kernel could take megabytes of an answer at once on a busy machine.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})

    def timed(self, protocol):
        """Return a connection class that counts what it receives, and whose time is that of the
        timers.
        """
        world = self

        class Timed(protocol):
            def __init__(self, *arguments, _loop, **options):
                super().__init__(*arguments, _loop=world.timers.of(_loop), **options)

            def connection_made(self, transport):
                super().connection_made(transport)
                world.accepted += 1

            def data_received(self, data):
                super().data_received(data)
                world.taken += len(data)

        return Timed

    def pass_by(self, seconds):
        self.timers.pass_by(seconds)

    def connections(self):
        return list(self.server.server_state.connections)

    def ending(self):
        """Whether every connection is ending or has ended."""
        return all(connection.transport.is_closing() for connection in self.connections())

    def started(self):
        self.starts += 1

    def ended(self):
        self.ends += 1

    async def app(self, scope, receive, send):
        body = b""
        while scope["method"] == "POST":
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        if scope["path"] == "/fault":
            raise RuntimeError("a fault")
        if scope["path"] == "/nothing":
            return
        if scope["path"] == "/slow":
            await self.release.wait()
        answer = BIG if scope["path"] == "/big" else body or b"hello"
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@contextmanager
def serving(**changes):
    world = World(**changes)
    world.thread.start()
    try:
        yield world
    finally:
        world.server.should_exit = True
        world.thread.join(HANG_SECONDS)
        assert not world.thread.is_alive()
        assert world.limit.open == 0
        assert world.starts == world.ends


@pytest.fixture(name="world")
def world_fixture():
    with serving() as made:
        yield made
