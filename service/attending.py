"""HTTP as uvicorn speaks it, which tells of every whole request and of its answer."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.courtesy import Courtesy


def attending(courtesy: Courtesy) -> type[HttpToolsProtocol]:
    """A class of connections, for uvicorn to make."""

    class Attending(HttpToolsProtocol):
        _open = 0

        def on_message_complete(self) -> None:
            super().on_message_complete()
            if self.cycle is not None and not self.cycle.response_complete:
                self._open += 1
                courtesy.arrived()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._answered(min(self._open, 1))

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._answered(self._open)

        def _answered(self, requests: int) -> None:
            if requests:
                self._open -= requests
                courtesy.answered(requests)

    return Attending
