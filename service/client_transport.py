"""How the client asks: connections that stay open, one deadline for all tries of a call, and which tries are safe."""

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
AGAIN = (429, 503)
CHUNK = 1 << 16


class Refused(Exception):
    """The server has answered, and the answer is no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message


class Unreachable(Exception):
    """There was no answer in time."""


class _Fault(msgspec.Struct):
    code: str
    message: str


class _Failed(msgspec.Struct):
    error: _Fault


class _Reply(NamedTuple):
    status: int
    retry_after: float
    body: bytes


class _NotConnected(Exception):
    """Not a byte was sent."""


class Transport:
    """The way to one service; a connection is one thread's for the time of a request, then it waits for the next."""

    def __init__(
        self,
        url: str,
        key: str | None,
        timeout: float,
        retries: int,
        ca_file: str | None,
        cert_file: str | None,
        key_file: str | None,
    ) -> None:
        address = urlsplit(url)
        if address.scheme not in {"http", "https"} or not address.hostname or address.username is not None:
            raise ValueError("url: use http://host:port or https://host:port")
        if cert_file is None and key_file is not None:
            raise ValueError("key_file: needs cert_file")
        if cert_file is not None and address.scheme == "http":
            raise ValueError("cert_file: needs a url with https")
        self._scheme = address.scheme
        self._host, self._port, self._path = address.hostname, address.port, address.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._timeout, self._retries = timeout, retries
        self._tls = ssl.create_default_context(cafile=ca_file) if self._scheme == "https" else None
        if self._tls is not None and cert_file is not None:
            # Without a function for the password OpenSSL asks the terminal for it.
            self._tls.load_cert_chain(cert_file, key_file, password=lambda: "")
        self._idle: deque[HTTPConnection] = deque()

    def __repr__(self) -> str:
        return f"{self._scheme}://{self._host}" + (f":{self._port}" if self._port else "") + self._path

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def is_good(self, path: str) -> bool:
        """Whether a path answers 200 now; asked once."""
        try:
            return self._once("GET", path, None, time.monotonic() + self._timeout).status == 200
        except (_NotConnected, OSError, HTTPException):
            return False

    def ask(self, method: str, path: str, body: bytes | None = None, *, repeatable: bool = True) -> bytes:
        """The body of a good reply, after as many tries as are left and safe."""
        deadline = time.monotonic() + self._timeout
        for wait in self._waits():
            least = 0.0
            try:
                reply = self._once(method, path, body, deadline)
                if reply.status < 300:
                    return reply.body
                failure: Exception = _refusal(reply)
                again, least = reply.status in AGAIN, reply.retry_after
            except _NotConnected as error:
                failure, again = Unreachable(f"{self!r} cannot be reached: {error}"), True
            except (OSError, HTTPException) as error:
                told = str(error) or type(error).__name__
                failure, again = Unreachable(f"{self!r} gave no answer: {told}"), repeatable
            pause = None if wait is None else least + wait
            if not again or pause is None or time.monotonic() + pause >= deadline:
                raise failure
            time.sleep(pause)
        raise AssertionError("the last wait is None")

    def _waits(self) -> Iterator[float | None]:
        """Before each further try, a random time up to one that doubles; None when there is none left."""
        for number in range(self._retries):
            yield random.uniform(0.0, min(LONGEST_WAIT, FIRST_WAIT * 2**number))
        yield None

    def _once(self, method: str, path: str, body: bytes | None, deadline: float) -> _Reply:
        connection = self._connected(deadline)
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a refusal may come before the body's end
                connection.request(method, self._path + path, body, self._headers)
            reply = connection.getresponse()
            pieces = []
            while piece := reply.read1(CHUNK):
                _limit(connection, deadline)
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

    def _connected(self, deadline: float) -> HTTPConnection:
        """A connection that no other thread uses, made anew if none is idle or the server has closed it."""
        try:
            connection = self._idle.pop()  # the last one used is the last that a server closes
        except IndexError:
            if self._tls is None:
                connection = HTTPConnection(self._host, self._port)
            else:
                connection = HTTPSConnection(self._host, self._port, context=self._tls)
        if connection.sock is not None and _is_readable(connection):
            connection.close()  # nothing is due, so it can only be the end
        connection.timeout = max(0.001, deadline - time.monotonic())
        try:
            if connection.sock is None:
                connection.connect()
            _limit(connection, deadline)
        except OSError as error:
            connection.close()
            raise _NotConnected(error.strerror or str(error)) from error
        return connection


def _is_readable(connection: HTTPConnection) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _limit(connection: HTTPConnection, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    if connection.sock is not None:  # gone once a reply that ends the connection is read
        connection.sock.settimeout(left)


def _refusal(reply: _Reply) -> Refused:
    with contextlib.suppress(msgspec.DecodeError):
        fault = msgspec.json.decode(reply.body, type=_Failed).error
        return Refused(reply.status, fault.code, fault.message)
    return Refused(reply.status, "http", "no such answer is known")
