"""Send the client's requests: over open connections, with retries, within one deadline per call."""

import contextlib
import random
import selectors
import ssl
import time
from collections import deque
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
RETRIED_STATUSES = (429, 503)
CHUNK = 1 << 16


class RequestError(Exception):
    """The server replied with an error status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message


class UnreachableError(Exception):
    """The server gave no reply in time."""


class _Fault(msgspec.Struct):
    code: str
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Fault


class _Reply(NamedTuple):
    status: int
    retry_after: float
    body: bytes


class _NotConnectedError(Exception):
    """No connection was made, so no byte was sent."""


class Tls(NamedTuple):
    """PEM files for HTTPS."""

    ca_file: str | None = None
    """CA certificates for the server; without it the system's."""
    cert_file: str | None = None
    """The client's own certificate, if the server asks for one."""
    key_file: str | None = None
    """The key of that certificate."""


PUBLIC = Tls()
"""A server whose certificate the system trusts."""


class Transport:
    """Connections to one service. A request takes one for its thread and puts it back when done."""

    def __init__(
        self,
        url: str,
        key: str | None,
        timeout: float,
        retries: int,
        tls: Tls,
    ) -> None:
        address = urlsplit(url)
        if (
            address.scheme not in {"http", "https"}
            or not address.hostname
            or address.username is not None
        ):
            raise ValueError("url: use http://host:port or https://host:port")
        if tls.cert_file is None and tls.key_file is not None:
            raise ValueError("key_file: needs cert_file")
        if tls.cert_file is not None and address.scheme == "http":
            raise ValueError("cert_file: needs a url with https")
        self._scheme = address.scheme
        self._host, self._port, self._path = (
            address.hostname,
            address.port,
            address.path.rstrip("/"),
        )
        self._headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {key}"} if key else {}
        )
        self._timeout, self._retries = timeout, retries
        secure = self._scheme == "https"
        self._tls = ssl.create_default_context(cafile=tls.ca_file) if secure else None
        if self._tls is not None and tls.cert_file is not None:
            # Without a function for the password OpenSSL asks the terminal for it.
            self._tls.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: "")
        self._idle: deque[HTTPConnection] = deque()

    def __repr__(self) -> str:
        return (
            f"{self._scheme}://{self._host}" + (f":{self._port}" if self._port else "") + self._path
        )

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def answers_200(self, path: str) -> bool:
        """Whether a path answers 200 now. Tries once."""
        try:
            return self._try_once("GET", path, None, time.monotonic() + self._timeout).status == 200
        except (_NotConnectedError, OSError, HTTPException):
            return False

    def request(
        self, method: str, path: str, body: bytes | None = None, *, repeatable: bool = True
    ) -> bytes:
        """Return the body of a good reply. Retries while that is safe and there is time."""
        deadline = time.monotonic() + self._timeout
        for wait in self._waits():
            retry_after = 0.0
            try:
                reply = self._try_once(method, path, body, deadline)
                if reply.status < 300:
                    return reply.body
                failure: Exception = _read_error(reply)
                retry, retry_after = reply.status in RETRIED_STATUSES, reply.retry_after
            except _NotConnectedError as error:
                failure, retry = UnreachableError(f"{self!r} cannot be reached: {error}"), True
            except (OSError, HTTPException) as error:
                reason = str(error) or type(error).__name__
                failure, retry = UnreachableError(f"{self!r} gave no answer: {reason}"), repeatable
            pause = None if wait is None else retry_after + wait
            if not retry or pause is None or time.monotonic() + pause >= deadline:
                raise failure
            time.sleep(pause)
        raise AssertionError("the last wait is None")

    def _waits(self) -> Iterator[float | None]:
        """Yield the wait before each retry: random, up to a limit that doubles. At the end None."""
        for number in range(self._retries):
            yield random.uniform(0.0, min(LONGEST_WAIT, FIRST_WAIT * 2**number))
        yield None

    def _try_once(self, method: str, path: str, body: bytes | None, deadline: float) -> _Reply:
        connection = self._connect(deadline)
        try:
            # The server may refuse before it has read the whole body, and close.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, self._path + path, body, self._headers)
            reply = connection.getresponse()
            pieces = []
            while piece := reply.read1(CHUNK):
                _set_timeout(connection, deadline)
                pieces.append(piece)
            if reply.length:
                raise HTTPException("the answer was cut off")
            reply.close()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        after = reply.getheader("Retry-After", "")
        return _Reply(reply.status, float(after) if after.isdigit() else 0.0, b"".join(pieces))

    def _connect(self, deadline: float) -> HTTPConnection:
        """Return a connection that no other thread uses. Connect if none is idle or still open."""
        try:
            connection = self._idle.pop()  # the last one used is the last that a server closes
        except IndexError:
            if self._tls is None:
                connection = HTTPConnection(self._host, self._port)
            else:
                connection = HTTPSConnection(self._host, self._port, context=self._tls)
        if connection.sock is not None and _is_readable(connection):
            connection.close()  # no reply is due, so the server has closed it
        connection.timeout = max(0.001, deadline - time.monotonic())
        try:
            if connection.sock is None:
                connection.connect()
            _set_timeout(connection, deadline)
        except OSError as error:
            connection.close()
            raise _NotConnectedError(error.strerror or str(error)) from error
        return connection


def _is_readable(connection: HTTPConnection) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _set_timeout(connection: HTTPConnection, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    if connection.sock is not None:  # gone once a reply that ends the connection is read
        connection.sock.settimeout(left)


def _read_error(reply: _Reply) -> RequestError:
    with contextlib.suppress(msgspec.DecodeError):
        fault = msgspec.json.decode(reply.body, type=_ErrorBody).error
        return RequestError(reply.status, fault.code, fault.message)
    return RequestError(reply.status, "http", "the reply has no error message of onepass")
