"""Replies in JSON, and the one form of every error: `{"error": {"code", "message"}}`, which never repeats the input.

Only under `/v2` an error is `{"error": message}`, as the Open Inference Protocol wants it.
"""

from typing import Any

import msgspec
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


def json_reply(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
