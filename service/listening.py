"""Where HTTP is listened to: sockets, TLS, the server around an app, and the one for administrators."""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Self

import uvicorn

from service.api import Context, Guard, make_admin
from service.api_settings import Api, Tls
from service.errors import BadSettings
from service.flights import Flights
from service.http import Connection
from service.keys import Keyring

log = logging.getLogger("onepass")

BACKLOG = 2048
GRACE_SECONDS = 5
"""For open requests, when the server is told to stop."""


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before the last checkpoint."""

    def __init__(self, config: uvicorn.Config, handshake_seconds: float | None) -> None:
        super().__init__(config)
        self._handshake_seconds = handshake_seconds

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, but a TLS handshake has a deadline as headers have."""
        config, loop = self.config, asyncio.get_running_loop()
        made: Any = config.http_protocol_class

        def connection() -> asyncio.Protocol:
            return made(config=config, server_state=self.server_state, app_state={}, _loop=loop)  # type: ignore[no-any-return]

        options: dict[str, Any] = {"ssl": config.ssl, "ssl_handshake_timeout": self._handshake_seconds}
        self.servers = [
            await loop.create_server(connection, sock=listening, backlog=BACKLOG, **options)
            for listening in sockets or []
        ]
        self.started = True


def make_server(app: Guard, api: Api, flights: Flights) -> Server:
    """A server that is run with a socket of `bound`."""
    connection = type("Connection", (Connection,), {"api": api, "flights": flights})
    context = _tls_context(api.tls) if api.tls else None
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_context_factory=(lambda *_: context) if context else None,
    )
    return Server(config, api.header_seconds if context else None)


def _tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        # Without a function for the password OpenSSL asks the terminal for it.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: "")
        if tls.client_ca_file is not None:
            context.load_verify_locations(tls.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:  # which ssl's own errors are too
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not readable"
        message = f"api.tls: the certificate, its key or client_ca_file cannot be used ({reason}); give PEM files"
        raise BadSettings(f"{message}, the key without a password") from error
    return context


def keyring(api: Api) -> Keyring | None:
    return None if api.keys_file is None else Keyring(api.keys_file)


def bound(host: str, port: int, setting: str = "api", *, open_to_others: bool) -> socket.socket:
    """The listening socket, before anything else is started: a port that is taken is a wrong configuration.

    What counts is the address that a name leads to, not the name.
    """
    listening = None
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        if not (open_to_others or is_loopback(listening)):
            listening.close()
            raise BadSettings(
                f"{setting}.host {host!r} lets other machines ask without a key: "
                f"set api.keys_file (`onepass keys new` makes one), or give --insecure"
            )
        listening.listen(BACKLOG)  # two that start at once can both bind, but not both listen
    except (OSError, UnicodeError) as error:
        if listening is not None:
            listening.close()
        reason = getattr(error, "strerror", None) or "not a host name"
        raise BadSettings(f"cannot listen on {host}:{port}: {reason}; set {setting}.host or {setting}.port") from error
    return listening


def is_loopback(listening: socket.socket) -> bool:
    return ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


class Admin:
    """The server for administrators: a loop, a port and a reading of the keys of its own, while it is entered."""

    def __init__(self, context: Context) -> None:
        api = context.settings.api
        keys = keyring(api)
        if api.admin is None or keys is None or "admin" not in keys.scopes:
            raise BadSettings("api.admin needs api.keys_file with a key for it: onepass keys new --scope admin")
        self._host = api.admin.host
        self._socket = bound(api.admin.host, api.admin.port, "api.admin", open_to_others=True)
        self.port = self._socket.getsockname()[1]
        flights = Flights(api.max_in_flight, context.metrics.refused)
        self._server = make_server(make_admin(context, keys), api, flights)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="admin", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        log.info("administration on port %s of %s", self.port, self._host)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(GRACE_SECONDS + 1)
