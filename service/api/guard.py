"""What stands before every route: the cap on a body, before a byte of it is parsed."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import Problem


class Guard:
    """An ASGI app around the routes; a handler that reads the body reads it through here."""

    def __init__(self, app: ASGIApp, max_body: int) -> None:
        self._app = app
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            self._check_length(scope)
        except Problem as problem:
            await problem.reply(scope["path"])(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _check_length(self, scope: Scope) -> None:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._max_body:
                raise self._too_large()

    def _counted(self, receive: Receive) -> Receive:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_body:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> Problem:
        return Problem(413, "too_large", f"a body may have {self._max_body} bytes")
