"""Close connections within a bounded time, and drop clients that do not read."""

import asyncio

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.config.settings import Api
from service.server.errors import Refusal
from service.server.in_flight import InFlightLimit

LINGER_SECONDS = 1.0
"""Seconds before a connection is aborted while its client still sends a body. If it were closed at
once, the client might not see the answer.
"""


class ClosingProtocol(HttpToolsProtocol):
    """uvicorn's protocol, but a client that does not read is dropped, and closing takes a bounded
    time.
    """

    api: Api
    in_flight: InFlightLimit

    _reader_timer: asyncio.TimerHandle | None = None
    _linger_timer: asyncio.TimerHandle | None = None
    _last_refusal: Refusal | None = None
    """Sent when every earlier request has its answer; then the connection is closed."""

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._reader_timer, self._linger_timer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reader_timer is None:
            self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reader_timer is not None and not self.transport.is_closing():
            self._reader_timer.cancel()
            self._reader_timer = None

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def _watch_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._reader_timer = self.loop.call_later(self.api.body_seconds, self._check_reader, left)

    def _check_reader(self, before: int) -> None:
        """Drop the client if it read less than `HIGH_WATER_LIMIT` bytes since `before`."""
        if before - self.transport.get_write_buffer_size() >= HIGH_WATER_LIMIT:
            self._watch_reader()
            return
        self.in_flight.refused("slow_reader")
        self.transport.abort()

    def _close(self) -> None:
        """Close the connection. Written bytes are still sent, as long as the client reads them."""
        if self.transport.is_closing():
            return
        self.transport.close()
        if not self.transport.get_write_buffer_size():
            self._linger_timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        elif self._reader_timer is None:
            self._watch_reader()

    def _abort_request(self, cycle: RequestResponseCycle, refusal: Refusal) -> None:
        """End a request with a refusal, or break it off if a part of its answer is sent."""
        if cycle.response_complete or cycle.disconnected or self.transport.is_closing():
            return
        self.in_flight.refused(refusal.code)
        if not cycle.response_started:
            self.transport.write(refusal.closing)
        cycle.disconnected = True
        self._close()

    def _refuse(self, refusal: Refusal) -> None:
        """End the connection with a refusal. Every whole request before it gets its answer
        first.
        """
        cycle = self.cycle
        if self._last_refusal is not None:
            return
        if cycle is None or cycle.response_complete:
            self._send_last_refusal(refusal)
        elif not cycle.more_body:
            self._last_refusal = refusal
        elif self.pipeline:  # its body is refused, and no handler has started
            self.pipeline.popleft()
            self._last_refusal = refusal
        else:
            self._abort_request(cycle, refusal)
            cycle.disconnected = True
            cycle.message_event.set()

    def _send_last_refusal(self, refusal: Refusal) -> None:
        if not self.transport.is_closing():
            self.in_flight.refused(refusal.code)
            self.transport.write(refusal.closing)
            self._close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection while an answer is due: the client may have closed only its sending
        side. Over TLS there is no such half-close.
        """
        cycle = self.cycle
        waiting = (
            self.scheme == "http"
            and cycle is not None
            and not (cycle.response_complete or cycle.more_body)
        )
        if waiting:
            cycle.keep_alive = False
        return waiting
