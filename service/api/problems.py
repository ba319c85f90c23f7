"""Replies in JSON, and the one form of every error: `{"error": {"code", "message"}}`, which never repeats the input.

Only under `/v2` an error is `{"error": message}`, as the Open Inference Protocol wants it.
"""

from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.refusals import error_body


class Problem(Exception):
    """A request that cannot be answered as asked."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def reply(self, path: str = "") -> Response:
        """In the form of the protocol that the path belongs to."""
        if f"{path}/".startswith("/v2/"):
            return Response(msgspec.json.encode({"error": self.message}), self.status, self.headers, "application/json")
        return Response(error_body(self.code, self.message), self.status, self.headers, "application/json")


class JsonReply(Response):
    """One whose two headers are known: to let Starlette find them out takes as long as to encode a prediction."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code, self.body, self.background = status, body, None
        self.raw_headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]


def json_reply(value: Any, status: int = 200) -> Response:
    return JsonReply(msgspec.json.encode(value), status)


async def body_of(request: Request) -> bytes:
    """The body, which the guard hands over whole."""
    message = await request.receive()
    if message["type"] != "http.request":
        raise ClientDisconnect
    body: bytes = message["body"]
    return body
