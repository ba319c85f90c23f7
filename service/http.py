"""One HTTP connection: every wait has an end, every buffer a bound, and what is refused is refused in one form.

uvicorn's protocol, which waits for ever for headers, bodies and readers, and counts idle connections as work.
"""

import asyncio
import logging
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.answering import Answering
from service.flights import nothing
from service.hearing import LINGER_SECONDS, Hearing
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
    Refusal,
)

log = logging.getLogger("onepass")

MOST_PIPELINED = 64
MOST_FRAMING = 262_144
"""Bytes of a chunked body that are not body: sizes of chunks, and trailers, which nobody reads."""
DIGITS = 5
"""Of the length of a body that is not called long."""


class _TooMuch(Exception):
    """Raised in a callback of the parser, so that it stops."""


class Connection(Hearing):
    """Deadlines are set only when something is awaited: a request that comes in one piece costs no timer.

    A request takes a place among those being answered when its body is there, so that slow ones keep none from others;
    a long body is read by whoever works for it, and so has to begin before.
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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.api.header_seconds, self._expired)

    def connection_lost(self, exc: Exception | None) -> None:
        self._met()
        self._held = None
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        before, messages = self._phase, self._messages
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False  # answered as what it also is, a plain request
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
        self._phase = "body"
        self._met()
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _TooMuch
        super().on_headers_complete()
        if self._long:
            self._launch()

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body)
        super().on_body(body)
        if len(self.cycle.body) > HIGH_WATER_LIMIT:
            self._launch()

    def on_message_complete(self) -> None:
        self._phase = "idle"
        self._met()
        super().on_message_complete()
        self._launch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._phase == "body" and self.cycle.response_complete and not self.transport.is_closing():
            self._met()
            self._deadline = self.loop.call_later(LINGER_SECONDS, self._expired)

    def shutdown(self) -> None:
        if self._held is not None:
            self._cut(self._held, STOPPING)
        super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        del app  # always ours
        self._held = cycle
        if not cycle.more_body or cycle is not self.cycle:
            self._launch()

    def _launch(self) -> None:
        cycle, self._held = self._held, None
        if cycle is None:
            return
        flights = self.flights
        if flights.open >= flights.most:
            flights.refused(BUSY.code)
            cycle.response_started = cycle.response_complete = True
            going_on = cycle.keep_alive and cycle.scope["method"] != "HEAD"  # which expects no body
            self.transport.write(BUSY.going_on if going_on else BUSY.closing)
            if going_on:
                self.on_response_complete()
            else:
                self._close()
            return
        flights.open += 1
        whole = not cycle.more_body  # one that is still on its way is nobody's to make way for
        if whole:
            flights.on_start()
        task = self.loop.create_task(self._answer(cycle))
        task.add_done_callback(self._answered_whole if whole else self._answered)
        self.tasks.add(task)

    async def _answer(self, cycle: RequestResponseCycle) -> None:
        try:
            await self.app(cycle.scope, cycle.receive, Answering(cycle))
            if not cycle.response_complete and not cycle.disconnected:
                raise RuntimeError("a request was left without an answer")
        except asyncio.CancelledError:  # by the server, when the time to stop is over
            self._cut(cycle, STOPPING)
        except Exception:
            log.exception("a request failed", extra={"request_id": cycle.scope.get("request_id"), "status": 500})
            self._cut(cycle, INTERNAL)
        finally:
            cycle.on_response = nothing

    def _answered(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.flights.open -= 1

    def _answered_whole(self, task: asyncio.Task[None]) -> None:
        self._answered(task)
        self.flights.on_end()

    def _cut(self, cycle: RequestResponseCycle, refusal: Refusal) -> None:
        """End a request that will not be answered as asked; one that is answered in part can only be broken off."""
        if cycle.response_complete or cycle.disconnected or self.transport.is_closing():
            return
        self.flights.refused(refusal.code)
        if not cycle.response_started:
            self.transport.write(refusal.closing)
        cycle.disconnected = True
        self._close()

    def _refuse(self, refusal: Refusal) -> None:
        """End the connection with a word, unless that would fall into the middle of another answer."""
        cycle, waiting = self.cycle, bool(self.pipeline)
        if not waiting and cycle is not None and not cycle.response_complete:
            self._cut(cycle, refusal)
        else:
            self.flights.refused(refusal.code)
            self.transport.write(b"" if waiting else refusal.closing)
            self._close()
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()

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
