"""Check every request before its route: API key, rate, host, size of the body, depth of its JSON.

Scopes are checked where a route is mounted. The protocol checks the deadline of a body, because it
knows when the body began.
"""

import math
import re
import secrets
from collections.abc import Awaitable, Callable
from itertools import count

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.origin_check import Hosts
from service.api.responses import ApiError
from service.api.v2.tensors import JSON_LENGTH
from service.server.api_keys import ANYONE, ApiKey, KeyFile
from service.server.errors import HEADERS, ONLY_TLS, POLICY

DEEPEST = 16
"""Levels of brackets in JSON."""
STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""JSON strings. The pattern is possessive, and an unclosed string reaches to the end. So no text
makes it read a byte twice.
"""
BRACES_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
"""Bytes that neither nest nor quote."""
JSON_LENGTH_HEADER = JSON_LENGTH.lower().encode()
NO_ENCODING = (b"", b"identity")
"""Content encodings that leave the body as it is."""
AMBIGUOUS = b"two Authorization headers"
"""Stands for two Authorization headers, even if one is empty. It is never a key."""
NO_KEY = "no API key: send the header Authorization: Bearer op_..."
UNKNOWN_KEY = "unknown or expired API key"

OPEN = frozenset({"/", "/healthz", "/readyz"})
"""Paths that need no key: the probes of orchestrators, and the page, which has no data."""
LOOPBACK = Hosts()
"""Only loopback names."""


class AuthAndLimits:
    """An ASGI app around the routes. A handler reads the body through it.

    Without keys a request must name one of `hosts`. A caller with a key may use any host name.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_body: int,
        keys: KeyFile | None = None,
        refused: Callable[[str], None] = lambda _: None,
        open_paths: frozenset[str] = OPEN,
        hosts: Hosts = LOOPBACK,
    ) -> None:
        self._app = app
        self._max_body = max_body
        self._keys = keys
        self._refused = refused
        self._open = open_paths
        self._hosts = hosts
        self._run = secrets.token_hex(4)
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope["request_id"] = request_id = f"{self._run}-{next(self._numbers):x}"
        send = _SecurityHeaders(send, request_id, tls=scope["scheme"] == "https")
        try:
            scope["key"] = self._admit(scope)
        except ApiError as error:
            self._refused(error.code)
            await error.reply(scope["path"])(scope, receive, send)
            return
        await self._app(
            scope,
            receive if scope["method"] == "GET" else _Body(receive, self._max_body, scope),
            send,
        )

    def _admit(self, scope: Scope) -> ApiKey | None:
        """Check the headers. Return the caller's key, or None on an open path."""
        presented: bytes | None = None
        length = encoding = host = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                presented = value if presented is None else AMBIGUOUS
            elif name == b"host":
                host = value
            elif name == b"content-length":
                length = value
            elif name == b"content-encoding" and value.lower() not in NO_ENCODING:
                encoding = value
        if self._keys is None:
            self._hosts.check(scope, host)
        key = self._check_key(scope, presented or b"")
        if encoding and scope["method"] != "GET":
            raise ApiError(
                415, "encoding", "content encodings are not supported; send the body uncompressed"
            )
        if length.isdigit() and (len(length) > 18 or int(length) > self._max_body):
            raise _too_large(self._max_body)
        return key

    def _check_key(self, scope: Scope, presented: bytes) -> ApiKey | None:
        keys = self._keys
        if keys is None:
            return ANYONE
        if scope["path"] in self._open:
            return None
        bearer = presented[:7].lower() == b"bearer "
        key = keys.find(presented[7:].strip()) if bearer else None
        if key is None:
            client = scope.get("client")
            if wait := keys.failed(client[0] if client else ""):
                raise _too_many("too many requests without a valid key", wait)
            raise ApiError(
                401, "unauthorized", UNKNOWN_KEY if bearer else NO_KEY, www_authenticate="Bearer"
            )
        if wait := keys.wait(key):
            raise _too_many("the rate limit of the key is exceeded", wait)
        return key


def too_deep(text: bytes) -> bool:
    """Whether brackets outside strings are nested deeper than `DEEPEST`. For text that is not JSON
    either answer is possible.
    """
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return False
    unescaped = STRINGS.sub(b"", text) if b"\\" in text else text
    # Two quotes in a row are an empty string, or the end of one string and the start of the next.
    structure = unescaped.translate(BRACES_TO_BRACKETS, NOT_STRUCTURE).replace(b'""', b"")
    brackets = b"".join(structure.split(b'"')[::2])
    for _ in range(DEEPEST):  # each round removes the innermost pairs
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    return b"[]" in brackets or brackets.count(b"[") > DEEPEST


class _SecurityHeaders:
    """An ASGI `send` that adds the headers of every reply."""

    __slots__ = ("_request_id", "_send", "_tls")

    def __init__(self, send: Send, request_id: str, *, tls: bool) -> None:
        self._send, self._request_id, self._tls = send, request_id, tls

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            headers = message["headers"] = [
                *message["headers"],
                *HEADERS,
                (b"x-request-id", self._request_id.encode()),
            ]
            for name, _ in headers:
                if name == b"content-security-policy":
                    break
            else:
                headers.append(POLICY)
            if self._tls:
                headers.append(ONLY_TLS)
        return self._send(message)


class _Body:
    """An ASGI `receive` that delivers a body in one piece, after a check of its size and depth."""

    __slots__ = ("_max_body", "_receive", "_scope")

    def __init__(self, receive: Receive, max_body: int, scope: Scope) -> None:
        self._receive, self._max_body, self._scope = receive, max_body, scope

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        body = message.get("body", b"")
        size = len(body)
        if message.get("more_body", False):
            chunks = [body]
            while message.get("more_body", False) and size <= self._max_body:
                message = await self._receive()
                if message["type"] != "http.request":
                    return message
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
            body = b"".join(chunks) if size <= self._max_body else b""
        if size > self._max_body:
            raise _too_large(self._max_body)
        if too_deep(body) and too_deep(self._json_part(body)):
            raise ApiError(422, "too_deep", f"JSON may be nested at most {DEEPEST} levels deep")
        return {"type": "http.request", "body": body, "more_body": False}

    def _json_part(self, body: bytes) -> bytes:
        """The part of a body that is JSON. Under `/v2` tensors may follow it, whose bytes may look
        like brackets.
        """
        if self._scope["path"].startswith("/v2/"):
            for name, value in self._scope["headers"]:
                if name == JSON_LENGTH_HEADER and value.isdigit() and len(value) < 10:
                    return body[: int(value)]
        return body


def _too_large(most: int) -> ApiError:
    return ApiError(413, "too_large", f"a body may have at most {most} bytes")


def _too_many(message: str, wait: float) -> ApiError:
    return ApiError(429, "rate_limited", message, retry_after=str(math.ceil(wait)))
