"""The other end of a connection: whether it reads what it is told, and how it is left."""

import asyncio
import weakref

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.api_settings import Api
from service.flights import Flights
from service.refusals import Refusal

LINGER_SECONDS = 1.0
"""For a client that still sends the body of a request that is answered: closed at once, it might not see the answer."""


def gone(asked: weakref.ref[RequestResponseCycle]) -> bool:
    """Whether nobody waits for the answer; the scope, which its cycle holds, must not hold the cycle."""
    cycle = asked()
    return cycle is None or cycle.disconnected


class Hearing(HttpToolsProtocol):
    """uvicorn's protocol, but who does not read is dropped, and a connection that is closed is so soon."""

    api: Api
    flights: Flights

    _unread: asyncio.TimerHandle | None = None
    _closing: asyncio.TimerHandle | None = None
    _last_word: Refusal | None = None
    """What is said when every request before it has its answer."""

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._unread, self._closing, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None and not self.transport.is_closing():
            self._unread.cancel()
            self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def _watch(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.api.body_seconds, self._not_read, left)

    def _not_read(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() >= HIGH_WATER_LIMIT:
            self._watch()
            return
        self.flights.refused("slow_reader")
        self.transport.abort()

    def _close(self) -> None:
        """What is written is still sent, as long as it is read."""
        if self.transport.is_closing():
            return
        self.transport.close()
        if not self.transport.get_write_buffer_size():
            self._closing = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        elif self._unread is None:
            self._watch()

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
        """End the connection with a word; every whole request that came before has its answer first."""
        cycle = self.cycle
        if self._last_word is not None:
            return
        if cycle is None or cycle.response_complete:
            self._say_last(refusal)
        elif not cycle.more_body:
            self._last_word = refusal
        elif self.pipeline:  # it is its body that is refused, and nobody works for it yet
            self.pipeline.popleft()
            self._last_word = refusal
        else:
            self._cut(cycle, refusal)
            cycle.disconnected = True
            cycle.message_event.set()

    def _say_last(self, refusal: Refusal) -> None:
        if not self.transport.is_closing():
            self.flights.refused(refusal.code)
            self.transport.write(refusal.closing)
            self._close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Who has said all may still be listening; over TLS that cannot be known."""
        cycle = self.cycle
        waiting = self.scheme == "http" and cycle is not None and not (cycle.response_complete or cycle.more_body)
        if waiting:
            cycle.keep_alive = False
        return waiting
