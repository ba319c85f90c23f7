"""Read the requests of one HTTP connection: every wait has a deadline, every buffer a bound, and
every refusal the same form.

It derives from uvicorn's protocol, which sets no time limit for headers, bodies and readers, and
counts idle connections as work.
"""

import asyncio
import logging
import weakref
from functools import partial
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.server.connection_closing import LINGER_SECONDS, ClosingProtocol
from service.server.errors import (
    BAD_REQUEST,
    BUSY,
    HEADERS_TOO_LARGE,
    HOST,
    INTERNAL,
    LATE,
    LONGEST_URL,
    MOST_HEADER_BYTES,
    MOST_HEADERS,
    STOPPING,
    URL_TOO_LONG,
    VERSION,
)
from service.server.in_flight import RequestSlot, nothing
from service.server.response import ResponseWriter

log = logging.getLogger("onepass")

MOST_PIPELINED = 64
"""Requests of one connection that may wait behind the one being answered."""
MOST_FRAMING = 262_144
"""Bytes of a chunked request outside its body: sizes of chunks, and unread trailers."""
SHORT_DIGITS = 5
"""Digits of a Content-Length. A body counts as long if its length has more digits."""
VERSIONS = frozenset({"1.0", "1.1"})
UPGRADES = frozenset({b"connection", b"upgrade", b"http2-settings"})
"""Headers that ask for another protocol."""
PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that are always answered: an orchestrator that gets `busy` would end the process."""


class _RefusedError(Exception):
    """Stops the parser when raised in one of its callbacks."""


class Connection(ClosingProtocol):
    """One connection, from its first byte to its last answer.

    A deadline is set only when the connection waits for bytes. A request that comes in one piece
    costs no timer.

    A request takes a slot in flight when its body is there, so that slow senders take no slots from
    others. The handler of a long body starts earlier, because it reads the body itself. Until then
    the request has one of a few slots for arriving bodies.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.timeout_keep_alive = self.api.idle_seconds  # type: ignore[assignment]
        self._phase: Literal["idle", "head", "body"] = "idle"
        self._messages = 0
        self._head_bytes = self._head_received = self._framing = self._host_headers = 0
        self._long = False
        self._refusal = BAD_REQUEST
        """Sent if the parser stops."""
        self._deadline: asyncio.TimerHandle | None = None
        self._unstarted: RequestResponseCycle | None = None
        """A request whose handler is not started yet."""
        self._arriving: RequestSlot | None = None
        self._upgrading = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.api.header_seconds, self._on_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._unstarted = None
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._last_refusal is not None:
            return
        before, messages = self._phase, self._messages
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.data_received(self._without_upgrade() + data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal)
            return
        if self._phase == "idle":
            return
        if self._phase == "head":
            if messages == self._messages - (before == "idle"):
                self._head_received += len(data)  # counts a header without an end too
            if self._head_received > MOST_HEADER_BYTES + LONGEST_URL:
                self._refuse(HEADERS_TOO_LARGE)
                return
        elif before == "body" and messages == self._messages:
            self._framing += len(data)
            if self._framing > MOST_FRAMING:
                self._refuse(BAD_REQUEST)
                return
        if self._deadline is None:
            seconds = self.api.header_seconds if self._phase == "head" else self.api.body_seconds
            self._deadline = self.loop.call_later(seconds, self._on_deadline)

    def on_message_begin(self) -> None:
        self._unset_keepalive_if_required()
        self._phase = "head"
        self._messages += 1
        self._head_bytes = self._head_received = self._framing = self._host_headers = 0
        self._long = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > LONGEST_URL:
            self._refusal = URL_TOO_LONG
            raise _RefusedError

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase != "head":
            return  # a trailer must not become a header of a request that is under way
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MOST_HEADER_BYTES or len(self.headers) >= MOST_HEADERS:
            self._refusal = HEADERS_TOO_LARGE
            raise _RefusedError
        name = name.lower()
        if name == b"content-length" and len(value) > SHORT_DIGITS:
            self._long = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = self._long = True
        elif name == b"host":
            self._host_headers += 1
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._upgrading = self.parser.should_upgrade()
        if self._upgrading:
            if self.parser.get_method() == b"CONNECT":  # there is no request without the upgrade
                raise _RefusedError
            return
        self._phase = "body"
        self._cancel_deadline()
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _RefusedError
        self._check_host()
        super().on_headers_complete()

    def _check_host(self) -> None:
        """Require one Host header, which only HTTP/1.0 may leave out. The host of an absolute URL
        replaces it.
        """
        if self._host_headers != 1 and not (
            self._host_headers == 0 and self.parser.get_http_version() == "1.0"
        ):
            self._refusal = HOST
            raise _RefusedError
        if self.parser.get_http_version() not in VERSIONS:
            self._refusal = VERSION
            raise _RefusedError
        if not self.url.startswith(b"/"):
            target = httptools.parse_url(self.url)
            if not target.host or target.userinfo:
                raise _RefusedError
            name = b"[%b]" % target.host if b":" in target.host else target.host
            host = name if target.port is None else b"%b:%d" % (name, target.port)
            self.headers[:] = [
                *(header for header in self.headers if header[0] != b"host"),
                (b"host", host),
            ]

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body)
        super().on_body(body)
        if len(self.cycle.body) > HIGH_WATER_LIMIT:
            self._launch()

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        self._phase = "idle"
        self._cancel_deadline()
        super().on_message_complete()
        if self._arriving is not None:
            self._arriving.arrived()
            self._arriving = None
        self._launch()

    def on_response_complete(self) -> None:
        last = not self.pipeline
        super().on_response_complete()
        if last and self._last_refusal is not None:
            self._send_last_refusal(self._last_refusal)
        if (
            self._phase == "body"
            and self.cycle.response_complete
            and not self.transport.is_closing()
        ):
            self._cancel_deadline()
            self._deadline = self.loop.call_later(LINGER_SECONDS, self._on_deadline)

    def _without_upgrade(self) -> bytes:
        """Restart the parser and return the request's head without the upgrade that it asks for.

        The body is not parsed yet.
        """
        method, self.parser = self.parser.get_method(), httptools.HttpRequestParser(self)
        self._upgrading = False
        plain = [header for header in self.headers if header[0] not in UPGRADES]
        return b"\r\n".join(
            [
                b"%b %b HTTP/1.1" % (method, self.url),
                *(b"%b: %b" % header for header in plain),
                b"",
                b"",
            ]
        )

    def shutdown(self) -> None:
        if self._unstarted is not None:
            self._abort_request(self._unstarted, STOPPING)
        super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        del app  # always ours
        self._unstarted = cycle
        if self._long or not cycle.more_body or cycle is not self.cycle:
            self._launch()

    def _launch(self) -> None:
        cycle, self._unstarted = self._unstarted, None
        if cycle is None:
            return
        slot = RequestSlot(
            self.in_flight, whole=not cycle.more_body, counted=cycle.scope["path"] not in PROBES
        )
        if not slot.begun:
            self._refuse_busy(cycle)
            return
        self._arriving = None if slot.whole else slot
        scope: Any = cycle.scope
        scope["gone"] = partial(_is_gone, weakref.ref(cycle))
        task = self.loop.create_task(self._answer(cycle, slot))
        task.add_done_callback(partial(self._finish_task, slot))
        self.tasks.add(task)

    def _refuse_busy(self, cycle: RequestResponseCycle) -> None:
        self.in_flight.refused(BUSY.code)
        cycle.response_started = cycle.response_complete = True
        stays_open = cycle.keep_alive and cycle.scope["method"] != "HEAD"  # HEAD expects no body
        self.transport.write(BUSY.keep_alive if stays_open else BUSY.closing)
        if stays_open:
            self.on_response_complete()
        else:
            self._close()

    async def _answer(self, cycle: RequestResponseCycle, slot: RequestSlot) -> None:
        try:
            await self.app(cycle.scope, cycle.receive, ResponseWriter(cycle, slot.suspend))
            if not (cycle.response_complete or cycle.disconnected or self.transport.is_closing()):
                raise RuntimeError("a request was left without an answer")
        except asyncio.CancelledError:  # the server cancels when the time to stop is over
            self._abort_request(cycle, STOPPING)
        except Exception:
            log.exception(
                "a request failed",
                extra={"request_id": cycle.scope.get("request_id"), "status": 500},
            )
            self._abort_request(cycle, INTERNAL)
        finally:
            cycle.on_response = nothing
            slot.end()  # before the client can send its next request

    def _finish_task(self, slot: RequestSlot, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        slot.end()  # if the task was cancelled before it began

    def _on_deadline(self) -> None:
        """Close or refuse: headers or a body did not come in time, or nothing came at all."""
        self._deadline = None
        if self._phase == "body" and self.flow.read_paused:  # we paused reading: it is not late
            self._deadline = self.loop.call_later(self.api.body_seconds, self._on_deadline)
        elif self._phase == "idle" or (self._phase == "body" and self.cycle.response_complete):
            self._close()
        else:
            self._refuse(LATE)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _is_gone(reference: weakref.ref[RequestResponseCycle]) -> bool:
    """Whether the client no longer waits for the answer.

    The reference is weak: the cycle holds its scope, and so the scope must not hold the cycle.
    """
    cycle = reference()
    return cycle is None or cycle.disconnected
