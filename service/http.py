"""One HTTP connection: every wait has an end, every buffer a bound, and what is refused is refused in one form.

uvicorn's protocol, which waits for ever for headers, bodies and readers, and counts idle connections as work.
"""

import asyncio
import logging
import weakref
from functools import partial
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.answering import Answering
from service.flights import Flight, nothing
from service.hearing import LINGER_SECONDS, Hearing, gone
from service.refusals import (
    BAD_REQUEST,
    BUSY,
    HEADERS_TOO_LARGE,
    INTERNAL,
    LATE,
    LONGEST_URL,
    MOST_HEADER_BYTES,
    MOST_HEADERS,
    STOPPING,
    URL_TOO_LONG,
)

log = logging.getLogger("onepass")

MOST_PIPELINED = 64
MOST_FRAMING = 262_144
"""Bytes of a chunked body that are not body: sizes of chunks, and trailers, which nobody reads."""
DIGITS = 5
"""Of the length of a body that is not called long."""


UPGRADES = frozenset({b"connection", b"upgrade", b"http2-settings"})
PROBES = frozenset({"/healthz", "/readyz"})
"""Answered however many others are: an orchestrator that hears `busy` would end the process."""


class _TooMuch(Exception):
    """Raised in a callback of the parser, so that it stops."""


class Connection(Hearing):
    """Deadlines are set only when something is awaited: a request that comes in one piece costs no timer.

    A request takes a place among those being answered when its body is there, so that slow ones keep none from others;
    a long body is read by whoever works for it, and so begins before, in one of a few places of their own.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.timeout_keep_alive = self.api.idle_seconds  # type: ignore[assignment]
        self._phase: Literal["idle", "head", "body"] = "idle"
        self._messages = 0
        self._head_bytes = self._head_came = self._framing = 0
        self._long = False
        self._why = BAD_REQUEST
        self._deadline: asyncio.TimerHandle | None = None
        self._held: RequestResponseCycle | None = None
        self._arriving: Flight | None = None
        self._upgrading = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.api.header_seconds, self._expired)

    def connection_lost(self, exc: Exception | None) -> None:
        self._met()
        self._held = None
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._last_word is not None:
            return
        before, messages = self._phase, self._messages
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.data_received(self._plain() + data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(self._why)
            return
        if self._phase == "idle":
            return
        if self._phase == "head":
            if messages == self._messages - (before == "idle"):
                self._head_came += len(data)  # also of a header that has no end yet
            if self._head_came > MOST_HEADER_BYTES + LONGEST_URL:
                self._refuse(HEADERS_TOO_LARGE)
                return
        elif before == "body" and messages == self._messages:
            self._framing += len(data)
            if self._framing > MOST_FRAMING:
                self._refuse(BAD_REQUEST)
                return
        if self._deadline is None:
            seconds = self.api.header_seconds if self._phase == "head" else self.api.body_seconds
            self._deadline = self.loop.call_later(seconds, self._expired)

    def on_message_begin(self) -> None:
        self._unset_keepalive_if_required()
        self._phase = "head"
        self._messages += 1
        self._head_bytes = self._head_came = self._framing = 0
        self._long = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > LONGEST_URL:
            self._why = URL_TOO_LONG
            raise _TooMuch

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase != "head":
            return  # a trailer must not become a header of a request that is under way
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MOST_HEADER_BYTES or len(self.headers) >= MOST_HEADERS:
            self._why = HEADERS_TOO_LARGE
            raise _TooMuch
        name = name.lower()
        if name == b"content-length" and len(value) > DIGITS:
            self._long = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = self._long = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._upgrading = self.parser.should_upgrade()
        if self._upgrading:
            if self.parser.get_method() == b"CONNECT":  # always one
                raise _TooMuch
            return
        self._phase = "body"
        self._met()
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _TooMuch
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body)
        super().on_body(body)
        if len(self.cycle.body) > HIGH_WATER_LIMIT:
            self._launch()

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        self._phase = "idle"
        self._met()
        super().on_message_complete()
        if self._arriving is not None:
            self._arriving.arrived()
            self._arriving = None
        self._launch()

    def on_response_complete(self) -> None:
        last = not self.pipeline
        super().on_response_complete()
        if last and self._last_word is not None:
            self._say_last(self._last_word)
        if self._phase == "body" and self.cycle.response_complete and not self.transport.is_closing():
            self._met()
            self._deadline = self.loop.call_later(LINGER_SECONDS, self._expired)

    def _plain(self) -> bytes:
        """The head of a request for another protocol, as the plain one that it also is; its body still has to come."""
        method, self.parser = self.parser.get_method(), httptools.HttpRequestParser(self)
        self._upgrading = False
        kept = [header for header in self.headers if header[0] not in UPGRADES]
        return b"\r\n".join(
            [b"%b %b HTTP/1.1" % (method, self.url), *(b"%b: %b" % header for header in kept), b"", b""]
        )

    def shutdown(self) -> None:
        if self._held is not None:
            self._cut(self._held, STOPPING)
        super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        del app  # always ours
        self._held = cycle
        if self._long or not cycle.more_body or cycle is not self.cycle:
            self._launch()

    def _launch(self) -> None:
        cycle, self._held = self._held, None
        if cycle is None:
            return
        flight = Flight(self.flights, whole=not cycle.more_body, counted=cycle.scope["path"] not in PROBES)
        if not flight.begun:
            self._say_busy(cycle)
            return
        self._arriving = None if flight.whole else flight
        cycle.scope["gone"] = partial(gone, weakref.ref(cycle))  # type: ignore[typeddict-unknown-key]
        task = self.loop.create_task(self._answer(cycle, flight))
        task.add_done_callback(partial(self._answered, flight))
        self.tasks.add(task)

    def _say_busy(self, cycle: RequestResponseCycle) -> None:
        self.flights.refused(BUSY.code)
        cycle.response_started = cycle.response_complete = True
        going_on = cycle.keep_alive and cycle.scope["method"] != "HEAD"  # which expects no body
        self.transport.write(BUSY.going_on if going_on else BUSY.closing)
        if going_on:
            self.on_response_complete()
        else:
            self._close()

    async def _answer(self, cycle: RequestResponseCycle, flight: Flight) -> None:
        try:
            await self.app(cycle.scope, cycle.receive, Answering(cycle, flight.rest))
            if not (cycle.response_complete or cycle.disconnected or self.transport.is_closing()):
                raise RuntimeError("a request was left without an answer")
        except asyncio.CancelledError:  # by the server, when the time to stop is over
            self._cut(cycle, STOPPING)
        except Exception:
            log.exception("a request failed", extra={"request_id": cycle.scope.get("request_id"), "status": 500})
            self._cut(cycle, INTERNAL)
        finally:
            cycle.on_response = nothing
            flight.end()  # before whoever got the answer can ask again

    def _answered(self, flight: Flight, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        flight.end()  # of one that was cancelled before it began

    def _expired(self) -> None:
        """Headers or a body did not come in time, or nothing came at all."""
        self._deadline = None
        if self._phase == "body" and self.flow.read_paused:  # it is we who do not read
            self._deadline = self.loop.call_later(self.api.body_seconds, self._expired)
        elif self._phase == "idle" or (self._phase == "body" and self.cycle.response_complete):
            self._close()
        else:
            self._refuse(LATE)

    def _met(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
