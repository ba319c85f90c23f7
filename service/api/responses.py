"""Build replies in JSON, and read the body of a request.

Every error has the form `{"error": {"code", "message"}}` and never repeats the input. Only under
`/v2` an error is `{"error": message}`, as the Open Inference Protocol asks for.
"""

from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.server.errors import error_body


class ApiError(Exception):
    """A request gets an error reply. Keyword arguments are headers, with `_` for `-`."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def reply(self, path: str = "") -> Response:
        """Build the reply in the form of the protocol that the path belongs to."""
        if f"{path}/".startswith("/v2/"):
            return Response(
                msgspec.json.encode({"error": self.message}),
                self.status,
                self.headers,
                "application/json",
            )
        return Response(
            error_body(self.code, self.message), self.status, self.headers, "application/json"
        )


class JsonReply(Response):
    """A reply with two fixed headers. Starlette would take as long to compute them as it takes to
    encode a prediction.
    """

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code, self.body, self.background = status, body, None
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]


def json_reply(value: Any, status: int = 200) -> Response:
    """Encode a value as a reply."""
    return JsonReply(msgspec.json.encode(value), status)


async def read_body(request: Request) -> bytes:
    """Read the body, which the middleware delivers in one piece."""
    message = await request.receive()
    if message["type"] != "http.request":
        raise ClientDisconnect
    body: bytes = message["body"]
    return body
