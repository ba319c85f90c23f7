"""Refusals that the server sends itself, and the headers of every reply.

The codes are also label values of a metric.
"""

from http import HTTPStatus
from typing import NamedTuple

import msgspec

REFUSALS = (
    "unauthorized",
    "forbidden",
    "host",
    "cross_site",
    "rate_limited",
    "busy",
    "not_ready",
    "too_large",
    "too_deep",
    "bad_request",
    "headers_too_large",
    "request_timeout",
    "slow_reader",
    "stopping",
    "internal",
)
"""Reasons that are counted, a closed set. Faults of the request itself (422, 404) are no refusals.
"""

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
"""Added to every reply that sets no policy. The page on `/` sets one."""
ONLY_TLS = (b"strict-transport-security", b"max-age=31536000")


def error_body(code: str, message: str) -> bytes:
    """Encode an error. Every error of the API has this form, and at most 4 KB."""
    return msgspec.json.encode({"error": {"code": code, "message": message[:1024]}})


def whole_reply(
    status: int, code: str, message: str, *more: tuple[bytes, bytes], close: bool
) -> bytes:
    """Encode a refusal with status line and headers, for requests that the protocol refuses before
    they reach the application.
    """
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
    """A refusal that is encoded once."""

    code: str
    keep_alive: bytes
    """The reply if the connection stays open."""
    closing: bytes
    """The reply if the connection is closed."""


def _refusal(status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> Refusal:
    keep_alive, closing = (
        whole_reply(status, code, message, *headers, close=close) for close in (False, True)
    )
    return Refusal(code, keep_alive, closing)


BAD_REQUEST = _refusal(400, "bad_request", "not a valid HTTP request")
HOST = _refusal(400, "bad_request", "send one Host header; only HTTP/1.0 may leave it out")
VERSION = _refusal(400, "bad_request", "use HTTP/1.1 or HTTP/1.0")
LATE = _refusal(408, "request_timeout", "the request did not arrive in time")
URL_TOO_LONG = _refusal(414, "headers_too_large", f"a URL may have at most {LONGEST_URL} bytes")
HEADERS_TOO_LARGE = _refusal(
    431,
    "headers_too_large",
    f"a request may have at most {MOST_HEADERS} headers and {MOST_HEADER_BYTES} bytes of headers",
)
INTERNAL = _refusal(500, "internal", "internal error; the log of the service has the details")
BUSY = _refusal(503, "busy", "too many requests at once; try again", (b"retry-after", b"1"))
STOPPING = _refusal(503, "stopping", "the service is stopping", (b"retry-after", b"5"))
