"""What is said to a request that is refused, and what stands on every reply; the codes are labels of a metric too."""

from http import HTTPStatus
from typing import NamedTuple

import msgspec

REFUSALS = (
    "unauthorized",
    "forbidden",
    "rate",
    "busy",
    "not_ready",
    "too_large",
    "too_deep",
    "bad_request",
    "headers",
    "late",
    "slow_reader",
    "stopping",
    "internal",
)
"""The closed set of reasons that are counted; a request's own faults (422, 404) are not refusals."""

MOST_HEADERS = 100
MOST_HEADER_BYTES = 16_384
LONGEST_URL = 4_096

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
POLICY = (b"content-security-policy", b"default-src 'none'")
"""Of every reply that does not bring its own, as a page does."""
ONLY_TLS = (b"strict-transport-security", b"max-age=31536000")


def error_body(code: str, message: str) -> bytes:
    """The one form of every error; at most 4 KB."""
    return msgspec.json.encode({"error": {"code": code, "message": message[:1024]}})


def whole_reply(status: int, code: str, message: str, *more: tuple[bytes, bytes], close: bool) -> bytes:
    """A refusal as it goes over the wire, for those who refuse before there is an application to ask."""
    body = error_body(code, message)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *HEADERS,
        POLICY,
        *more,
        *([(b"connection", b"close")] if close else []),
    ]
    lines = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
    return b"\r\n".join([*lines, *(b"%b: %b" % header for header in headers), b"", body])


class Refusal(NamedTuple):
    code: str
    going_on: bytes
    closing: bytes


def _refusal(status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> Refusal:
    kept, closed = (whole_reply(status, code, message, *headers, close=close) for close in (False, True))
    return Refusal(code, kept, closed)


BAD_REQUEST = _refusal(400, "bad_request", "this is not HTTP that can be read")
LATE = _refusal(408, "late", "the request did not come in time")
URL_TOO_LONG = _refusal(414, "headers", f"a URL may have {LONGEST_URL} bytes")
HEADERS_TOO_LARGE = _refusal(431, "headers", f"{MOST_HEADERS} headers and {MOST_HEADER_BYTES} bytes are the most")
INTERNAL = _refusal(500, "internal", "a fault of the service; its log says more")
BUSY = _refusal(503, "busy", "too many requests at once; try again", (b"retry-after", b"1"))
STOPPING = _refusal(503, "stopping", "the service is being stopped", (b"retry-after", b"5"))
