"""A TCP proxy that fails on demand: it runs in its own thread, before one server, and its mode can
change while it runs.

Bytes held back by `hole` or `delay` are delivered later in order, as TCP would; only `cut`, `reset`
and `drop_reply` lose any, and those end the connection.
"""

import asyncio
import itertools
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from service.embedded.process import HOST, free_port
from tests.waiting import HANG_SECONDS

CHUNK = 65536
OVERLAP = 256
"""Bytes of a request that are kept, so that the request that `drop_reply` looks for may span two
chunks.
"""


async def pause(seconds: float) -> None:
    """Hold bytes back for this many seconds."""
    await asyncio.sleep(seconds)


@dataclass(frozen=True)
class Mode:
    """What the proxy does to the bytes that pass."""

    delay: float = 0.0
    """Seconds."""
    rate: float = float("inf")
    """Bytes per second and direction."""
    reset_after: int | None = None
    """Bytes of replies, over all connections, after which the connection is reset; once."""
    asked: Callable[[bytes], bool] | None = None
    """Swallow the reply to the request for which this is true, and close its connection."""


@dataclass(eq=False)
class Link:
    """One connection of a client, and the proxy's connection to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    request: bytes = b""
    doomed: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def reset(self) -> None:
        for writer in (self.client, self.server):
            if writer is not None and not writer.is_closing():
                linger = struct.pack("ii", 1, 0)  # close with RST, not FIN
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, linger
                    )
                writer.transport.abort()
        self.ended.set()


class Proxy:
    """Listen on `port` before HOST:`target`; every method may be called from any thread."""

    def __init__(self, target: int, port: int | None = None) -> None:
        self.target = target
        self.port = port or free_port(other_than=target)
        self.dropped = 0
        """Replies swallowed so far."""
        self.resets = 0
        self.taken = 0
        """Bytes read so far, from both sides."""
        self._mode = Mode()
        self._replied = 0
        self._links: set[Link] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"proxy to {target}", daemon=True
        )
        self._thread.start()
        self._open = asyncio.Event()
        self._do(self._pass(Mode()))

    def forward(self) -> None:
        """Pass everything on, as if the proxy were not there; held bytes are delivered."""
        self._do(self._pass(Mode()))

    def delay(self, seconds: float) -> None:
        self._do(self._pass(Mode(delay=seconds)))

    def throttle(self, bytes_per_second: float) -> None:
        self._do(self._pass(Mode(rate=bytes_per_second)))

    def reset(self, after: int) -> None:
        """Reset the connection on the `after`-th reply byte from now."""
        self._do(self._pass(Mode(reset_after=after)))

    def drop_reply(self, asked: Callable[[bytes], bool]) -> None:
        """Let the next request for which `asked` is true reach the server, and drop its reply."""
        self._do(self._pass(Mode(asked=asked)))

    def hole(self) -> None:
        """Accept connections and bytes, deliver nothing."""
        self._do(self._pass(Mode(), hole=True))

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._do(self._cut())

    def close(self) -> None:
        self._do(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_SECONDS)
        self._loop.close()

    def _do(self, what) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(HANG_SECONDS)

    async def _pass(self, mode: Mode, *, hole: bool = False) -> None:
        self._mode, self._replied = mode, 0
        self._open.clear() if hole else self._open.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._connect, HOST, self.port)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in list(self._links):
            link.reset()
        await asyncio.sleep(0)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer)
        self._links.add(link)
        tasks = []
        try:
            await self._open.wait()
            answers, link.server = await asyncio.open_connection(HOST, self.target)
            there = self._pump(link, reader, link.server, reply=False)
            back = self._pump(link, answers, writer, reply=True)
            tasks = [asyncio.ensure_future(pump) for pump in itertools.chain(there, back)]
            await link.ended.wait()
        except OSError:
            link.reset()  # without the server there is no connection
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._links.discard(link)
            link.client.close()
            if link.server is not None:
                link.server.close()

    def _pump(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, reply: bool
    ):
        """Forward one direction: one task reads and dates the chunks, another writes each chunk
        when it is due.
        """
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

        async def read() -> None:
            chunk = b"."
            while chunk:
                try:
                    chunk = await reader.read(CHUNK)
                except OSError:
                    chunk = b""
                self.taken += len(chunk)
                await waiting.put((self._loop.time() + self._mode.delay, chunk))

        async def write() -> None:
            while True:
                due, chunk = await waiting.get()
                await pause(max(0.0, due - self._loop.time(), len(chunk) / self._mode.rate))
                await self._open.wait()
                if not chunk or not self._lets(link, chunk, reply=reply):
                    link.ended.set()
                    return
                writer.write(chunk)
                with suppress(OSError):
                    await writer.drain()

        return read(), write()

    def _lets(self, link: Link, chunk: bytes, *, reply: bool) -> bool:
        """Whether the chunk passes; if not, the connection ends here."""
        mode = self._mode
        if not reply:
            link.request = link.request[-OVERLAP:] + chunk
            if mode.asked is not None and mode.asked(link.request):
                self._mode = replace(mode, asked=None)
                link.doomed = True
            return True
        link.request = b""
        if link.doomed:
            self.dropped += 1
            return False
        self._replied += len(chunk)
        if mode.reset_after is not None and self._replied >= mode.reset_after:
            self._mode = replace(mode, reset_after=None)
            self.resets += 1
            link.client.write(chunk[: max(1, len(chunk) // 2)])  # the reply stops in its middle
            link.reset()
            return False
        return True


@contextmanager
def run_proxy(target: int, port: int | None = None):
    """Run a proxy before the server on port `target`."""
    proxy = Proxy(target, port)
    try:
        yield proxy
    finally:
        proxy.close()
