"""Open the listening socket, set up TLS, and build the server around an application."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

import uvicorn

from service.config.settings import Api, Tls
from service.errors import SettingsError
from service.server.api_keys import KeyFile
from service.server.in_flight import InFlightLimit
from service.server.protocol import Connection

BACKLOG = 2048
"""Connections that the kernel queues before they are accepted."""
GRACE_SECONDS = 5
"""Seconds for open requests when the server stops."""


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before the last
    checkpoint.
    """

    def __init__(self, config: uvicorn.Config, handshake_seconds: float | None) -> None:
        super().__init__(config)
        self._handshake_seconds = handshake_seconds

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Like uvicorn's, but a TLS handshake has a deadline, as headers have."""
        config, loop = self.config, asyncio.get_running_loop()
        protocol: Any = config.http_protocol_class

        def connection() -> Any:
            return protocol(config=config, server_state=self.server_state, app_state={}, _loop=loop)

        options: dict[str, Any] = {
            "ssl": config.ssl,
            "ssl_handshake_timeout": self._handshake_seconds,
        }
        self.servers = [
            await loop.create_server(connection, sock=listening, backlog=BACKLOG, **options)
            for listening in sockets or []
        ]
        self.started = True


def make_server(app: Any, api: Api, in_flight: InFlightLimit) -> Server:
    """Make a server, which runs with a socket of `open_socket`."""
    connection = type("Connection", (Connection,), {"api": api, "in_flight": in_flight})
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


def open_keys(api: Api) -> KeyFile | None:
    """Read the file of API keys. Return None if none is configured."""
    return None if api.keys_file is None else KeyFile(api.keys_file)


def open_socket(
    host: str, port: int, setting: str = "api", *, open_to_others: bool
) -> socket.socket:
    """Open the listening socket before anything else starts. A port in use is a settings error.

    Without `open_to_others` the host name must lead to a loopback address.
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
            raise SettingsError(
                f"{setting}.host {host!r} lets other machines send requests without a key: "
                "set api.keys_file (`onepass keys new` makes one), or give --insecure"
            )
        listening.listen(BACKLOG)  # two processes can both bind, but not both listen
    except (OSError, UnicodeError) as error:
        if listening is not None:
            listening.close()
        reason = getattr(error, "strerror", None) or "not a host name"
        raise SettingsError(
            f"cannot listen on {host}:{port}: {reason}; set {setting}.host or {setting}.port"
        ) from error
    return listening


def is_loopback(listening: socket.socket) -> bool:
    return ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


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
    except (OSError, ValueError) as error:  # errors of ssl are OSErrors too
        reason = (
            getattr(error, "reason", None) or getattr(error, "strerror", None) or "not readable"
        )
        message = (
            f"api.tls: the certificate, its key or client_ca_file cannot be used ({reason}); give"
            " PEM files"
        )
        raise SettingsError(f"{message}, the key without a password") from error
    return context
