"""Ask a broker's port which protocol it speaks, after a client could not connect."""

import socket
import ssl
import struct

from service.config.settings import Security
from service.sources.base import SourceUnavailableError

SECONDS = 2.0
HANDSHAKE = 17
"""API key of the request SaslHandshake."""
VERSION = 1
NO_SASL = 34
"""Error code of a listener without SASL in reply to SaslHandshake."""


def other_protocol(bootstrap: str, security: Security | None) -> SourceUnavailableError | None:
    """Return an error if the first broker that answers has another protocol than the settings."""
    ours = "PLAINTEXT" if security is None else security.protocol
    for server in bootstrap.split(","):
        theirs = _protocol_of(server)
        if theirs == ours:
            return None
        if theirs:
            setting = "there is no security" if security is None else f"security.protocol is {ours}"
            remedy = (
                "leave security out"
                if theirs == "PLAINTEXT"
                else f"set security.protocol to {theirs}"
            )
            return SourceUnavailableError(
                f"Kafka at {server} speaks {theirs}, but {setting}: {remedy}, or name another port"
            )
    return None


def _protocol_of(server: str) -> str:
    """Return the protocol. It is empty if the port does not answer like a broker."""
    return _try_protocol(server, tls=True) or _try_protocol(server, tls=False)


def _try_protocol(server: str, *, tls: bool) -> str:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=SECONDS) as plain:
            if not tls:
                return _sasl_prefix(plain) + "PLAINTEXT"
            # Nothing secret is sent, so the certificate does not matter here.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(plain) as wrapped:
                return _sasl_prefix(wrapped) + "SSL"
    except (OSError, UnicodeError, struct.error):
        return ""


def _sasl_prefix(link: socket.socket) -> str:
    return "" if error_of(ask(link, HANDSHAKE, handshake("PLAIN"))) == NO_SASL else "SASL_"


def handshake(mechanism: str) -> bytes:
    """Return the body of SaslHandshake, the first request of a login."""
    return struct.pack(">h", len(mechanism)) + mechanism.encode()


def ask(link: socket.socket, api_key: int, body: bytes) -> bytes:
    """Send one request, and return the body of its reply."""
    request = struct.pack(">hhih", api_key, VERSION, 0, -1) + body
    link.sendall(struct.pack(">i", len(request)) + request)
    with link.makefile("rb") as stream:
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)[4:]


def error_of(reply: bytes) -> int:
    """Return the error code of a reply."""
    return int(struct.unpack_from(">h", reply)[0])
