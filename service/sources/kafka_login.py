"""Tells whether brokers refuse our login, when kafka-python could not connect and cannot say why.

A broker hangs up right after it refuses, and kafka-python drops an answer that comes together with the end of the
connection; so the few messages of a login are spoken here once more, to hear the answer.
"""

import socket
import struct
from typing import Any

from kafka.net.sasl import get_sasl_mechanism  # type: ignore[import-untyped]

from service.log_settings import Security
from service.sources.contract import SourceDown
from service.sources.kafka_security import authentication_failed, for_kafka_python, tls_of

SECONDS = 2.0
HANDSHAKE, AUTHENTICATE = 17, 36
VERSION = 1


def why_down(bootstrap: str, security: Security | None, error: Exception) -> SourceDown:
    if security is not None and security.protocol.startswith("SASL") and _refused(bootstrap, security):
        return authentication_failed(bootstrap, security)
    return SourceDown(f"no Kafka broker answers at {bootstrap}: {error}")


def _refused(bootstrap: str, security: Security) -> bool:
    for server in bootstrap.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=SECONDS) as plain:
                tls = tls_of(security)
                if tls is None:
                    return not _accepted(plain, host, security)
                with tls.wrap_socket(plain, server_hostname=host) as wrapped:
                    return not _accepted(wrapped, host, security)
        except (OSError, struct.error):
            continue
    return False


def _accepted(link: socket.socket, host: str, security: Security) -> bool:
    name = security.mechanism.encode()
    if _error(_ask(link, HANDSHAKE, struct.pack(">h", len(name)) + name)):
        return False
    login: Any = get_sasl_mechanism(security.mechanism)(host=host, **for_kafka_python(security))
    while not login.is_done():
        token = login.auth_bytes()
        answer = _ask(link, AUTHENTICATE, struct.pack(">i", len(token)) + token)
        if _error(answer):
            return False
        said = 2 + 2 + max(0, struct.unpack_from(">h", answer, 2)[0])  # past the error and its text
        length = struct.unpack_from(">i", answer, said)[0]
        try:
            login.receive(answer[said + 4 : said + 4 + length])
        except Exception:  # noqa: BLE001 - the broker does not know the password either
            return False
    return True


def _ask(link: socket.socket, what: int, body: bytes) -> bytes:
    """One request and the body of its answer."""
    request = struct.pack(">hhih", what, VERSION, 0, -1) + body
    link.sendall(struct.pack(">i", len(request)) + request)
    with link.makefile("rb") as stream:
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)[4:]


def _error(answer: bytes) -> int:
    return int(struct.unpack_from(">h", answer)[0])
