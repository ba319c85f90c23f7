"""Write a reply: head and body in one write, where uvicorn takes two and checks every header.

Every reply of ours has a known length and comes in one piece. No header holds a caller's text.
"""

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle


class ResponseWriter:
    """The ASGI `send` of one request."""

    __slots__ = ("_cycle", "_head", "_suspend")

    def __init__(self, cycle: RequestResponseCycle, suspend: Callable[[], None]) -> None:
        """`suspend` is called before waiting for a slow reader."""
        self._cycle, self._suspend = cycle, suspend
        self._head: Any = None

    async def __call__(self, message: Any) -> None:
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            self._suspend()
            await cycle.flow.drain()
        if cycle.disconnected or cycle.response_complete or cycle.transport.is_closing():
            return
        if self._head is None:
            self._head = message
            return
        if message.get("more_body", False):
            raise RuntimeError("a reply is sent in one piece")
        body = b"" if cycle.scope["method"] == "HEAD" else message.get("body", b"")
        cycle.response_started = True
        cycle.transport.write(self._lines(cycle) + body)
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

    def _lines(self, cycle: RequestResponseCycle) -> bytes:
        headers = [*cycle.default_headers, *self._head["headers"]]
        lines = [b"%b: %b" % header for header in headers]
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        head = STATUS_LINE[self._head["status"]] + b"\r\n".join(lines)
        if head.count(b"\n") != len(lines):
            raise RuntimeError("a header of a reply has more than one line")
        return head + b"\r\n\r\n"
