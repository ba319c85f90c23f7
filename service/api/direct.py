"""The short way for predictions: a fixed path goes to its handler without the layers that FastAPI puts before one."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

Handle = Callable[[Request], Awaitable[Response]]


class Direct:
    """Before the app: its handlers answer their own faults, so that nothing is left for a layer to do."""

    def __init__(self, app: ASGIApp, handlers: Mapping[tuple[str, str], Handle]) -> None:
        self._app = app
        self._handlers = handlers
        """By method and path."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handle = self._handlers.get((scope["method"], scope["path"]))
        if handle is None:
            await self._app(scope, receive, send)
            return
        reply = await handle(Request(scope, receive))
        await reply(scope, receive, send)
