"""What stands before every route: who asks, how often, and the cap on a body before a byte of it is parsed.

Scopes are checked where a route is mounted. The deadline of a body is the protocol's, which knows when it began.
"""

import math
import secrets
from collections.abc import Awaitable, Callable
from itertools import count

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.nesting import DEEPEST, too_deep
from service.api.problems import Problem
from service.api.tensors import JSON_LENGTH
from service.keys import ANYONE, Holder, Keyring
from service.refusals import HEADERS, ONLY_TLS, POLICY

TENSORS_AFTER = JSON_LENGTH.lower().encode()

PLAIN = (b"", b"identity")
"""Content encodings that are none."""
NO_KEY = "no key was given: Authorization: Bearer op_..."
UNKNOWN_KEY = "this key is not known, or good no more"

OPEN = frozenset({"/", "/healthz", "/readyz"})
"""Answered without a key: what orchestrators ask, and a page without data."""


class Guard:
    """An ASGI app around the routes; a handler that reads the body reads it through here."""

    def __init__(
        self,
        app: ASGIApp,
        max_body: int,
        keys: Keyring | None = None,
        refused: Callable[[str], None] = lambda _: None,
        open_paths: frozenset[str] = OPEN,
    ) -> None:
        self._app = app
        self._max_body = max_body
        self._keys = keys
        self._refused = refused
        self._open = open_paths
        self._run = secrets.token_hex(4)
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope["request_id"] = request_id = f"{self._run}-{next(self._numbers):x}"
        send = _Sealed(send, request_id, tls=scope["scheme"] == "https")
        try:
            scope["key"] = self._admitted(scope)
        except Problem as problem:
            self._refused(problem.code)
            await problem.reply(scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive if scope["method"] == "GET" else _Body(receive, self._max_body, scope), send)

    def _admitted(self, scope: Scope) -> Holder | None:
        """Whose key it is; None on an open path."""
        presented = length = encoding = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                presented = b"twice" if presented else value
            elif name == b"content-length":
                length = value
            elif name == b"content-encoding" and value.lower() not in PLAIN:
                encoding = value
        holder = self._holder(scope, presented)
        if encoding and scope["method"] != "GET":
            raise Problem(415, "encoding", "send the body as it is; no content encoding is understood")
        if length.isdigit() and (len(length) > 18 or int(length) > self._max_body):
            raise _too_large(self._max_body)
        return holder

    def _holder(self, scope: Scope, presented: bytes) -> Holder | None:
        keys = self._keys
        if keys is None:
            return ANYONE
        if scope["path"] in self._open:
            return None
        bearer = presented[:7].lower() == b"bearer "
        holder = keys.find(presented[7:].strip()) if bearer else None
        if holder is None:
            client = scope.get("client")
            if wait := keys.failed(client[0] if client else ""):
                raise _too_many("too many requests without a good key", wait)
            raise Problem(401, "unauthorized", UNKNOWN_KEY if bearer else NO_KEY, www_authenticate="Bearer")
        if wait := keys.wait(holder):
            raise _too_many("more requests than the key is good for", wait)
        return holder


class _Sealed:
    """Puts the headers of every reply on it."""

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
    """Hands a body over whole, once it is known to be small and flat enough."""

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
        if too_deep(body) and too_deep(self._json(body)):
            raise Problem(422, "too_deep", f"JSON may be nested {DEEPEST} deep")
        return {"type": "http.request", "body": body, "more_body": False}

    def _json(self, body: bytes) -> bytes:
        """The part of a body that is JSON: under /v2 bytes of tensors can follow, and may look like anything."""
        if self._scope["path"].startswith("/v2/"):
            for name, value in self._scope["headers"]:
                if name == TENSORS_AFTER and value.isdigit() and len(value) < 10:
                    return body[: int(value)]
        return body


def _too_large(most: int) -> Problem:
    return Problem(413, "too_large", f"a body may have {most} bytes")


def _too_many(words: str, wait: float) -> Problem:
    return Problem(429, "rate", words, retry_after=str(math.ceil(wait)))
