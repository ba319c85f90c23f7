"""TLS and SASL options for each client library, and probes that find why brokers refuse us.

The password is read for every new connection, so a changed file is read again. No message ever
holds it. A broker closes the connection right after it refuses a login, and kafka-python drops a
reply that comes together with the end of the connection. So `diagnose` sends the few messages of a
login once more, to read the reply.
"""

import socket
import ssl
import struct
from contextlib import suppress
from typing import Any

from kafka.net.sasl import get_sasl_mechanism  # type: ignore[import-untyped]

from service.config.settings import Security
from service.sources.base import SourceUnavailableError
from service.sources.kafka.listener import (
    HANDSHAKE,
    SECONDS,
    ask,
    error_of,
    handshake,
    other_protocol,
)

CONNECT_SECONDS = 1.0
AUTHENTICATE = 36
"""API key of the request SaslAuthenticate."""
OTHER_HOST = {62, 64}
"""OpenSSL's error codes for a certificate of another host name or address."""


def for_kafka_python(security: Security | None) -> dict[str, object]:
    """Options of a kafka-python client."""
    if security is None:
        return {}
    options: dict[str, object] = {"security_protocol": security.protocol}
    if (tls := _tls_context(security)) is not None:
        options["ssl_context"] = tls
    if security.protocol.startswith("SASL"):
        options |= {
            "sasl_mechanism": security.mechanism,
            "sasl_plain_username": security.username,
            "sasl_plain_password": _read_password(security),
        }
    return options


def for_confluent(security: Security | None) -> dict[str, object]:
    """Options of a librdkafka client."""
    if security is None:
        return {}
    options: dict[str, object] = {"security.protocol": security.protocol}
    if security.protocol.startswith("SASL"):
        options |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username,
            "sasl.password": _read_password(security),
        }
    if security.protocol.endswith("SSL"):
        files = {
            "ca": security.ca_file,
            "certificate": security.cert_file,
            "key": security.key_file,
        }
        options |= {
            f"ssl.{what}.location": str(path) for what, path in files.items() if path is not None
        }
    return options


def probe_brokers(bootstrap: str, security: Security | None) -> None:
    """Fail at once, with the reason, if no broker listens or the certificate does not fit.

    The client libraries only log such reasons, retry until a timeout, and leave threads and sockets
    behind.
    """
    tls = _tls_context(security)
    refusal: OSError | UnicodeError | None = None
    for server in bootstrap.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS) as plain:
                if tls is not None:
                    _handshake_tls(tls, plain, server, host)
        except (OSError, UnicodeError) as error:
            refusal = error
        else:
            return
    raise SourceUnavailableError(f"no Kafka broker answers at {bootstrap}: {refusal}") from refusal


def diagnose(bootstrap: str, security: Security | None, error: Exception) -> SourceUnavailableError:
    """Find why a client could not connect: another protocol, a refused login, or no reply."""
    if (other := other_protocol(bootstrap, security)) is not None:
        return other
    if (
        security is not None
        and security.protocol.startswith("SASL")
        and _is_login_refused(bootstrap, security)
    ):
        return authentication_failed(bootstrap, security)
    return SourceUnavailableError(f"no Kafka broker answers at {bootstrap}: {error}")


def authentication_failed(bootstrap: str, security: Security | None) -> SourceUnavailableError:
    user = None if security is None else security.username
    return SourceUnavailableError(
        f"authentication failed at {bootstrap} for user {user}: check username, password and"
        " mechanism"
    )


def _handshake_tls(tls: ssl.SSLContext, plain: socket.socket, server: str, host: str) -> None:
    try:
        tls.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        problem = f"the certificate of {server} does not fit security.ca_file or the system's CAs"
        if error.verify_code in OTHER_HOST:
            problem = (
                f"the certificate of {server} is for another host: name the broker in url as its"
                " certificate does"
            )
        raise SourceUnavailableError(
            f"TLS failed: {problem} ({error.verify_message.rstrip('.')})"
        ) from error
    except (ssl.SSLError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        hint = "security.protocol asks for TLS: name the port of a TLS listener"
        raise SourceUnavailableError(f"TLS failed at {server}: {reason}; {hint}") from error


def _is_login_refused(bootstrap: str, security: Security) -> bool:
    """Log in at the first broker that answers. Return whether it refuses."""
    for server in bootstrap.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=SECONDS) as plain:
                tls = _tls_context(security)
                if tls is None:
                    return not _log_in(plain, host, security)
                with tls.wrap_socket(plain, server_hostname=host) as wrapped:
                    return not _log_in(wrapped, host, security)
        except (OSError, struct.error):
            continue
    return False


def _log_in(link: socket.socket, host: str, security: Security) -> bool:
    """Exchange the messages of a login. Return whether the broker accepts it."""
    if error_of(ask(link, HANDSHAKE, handshake(security.mechanism))):
        return False
    login: Any = get_sasl_mechanism(security.mechanism)(host=host, **for_kafka_python(security))
    while not login.is_done():
        token = login.auth_bytes()
        reply = ask(link, AUTHENTICATE, struct.pack(">i", len(token)) + token)
        if error_of(reply):
            return False
        start = 2 + 2 + max(0, struct.unpack_from(">h", reply, 2)[0])  # after error code and text
        length = struct.unpack_from(">i", reply, start)[0]
        try:
            login.receive(reply[start + 4 : start + 4 + length])
        except Exception:  # noqa: BLE001 - SCRAM found that the broker does not know the password
            return False
    return True


def _tls_context(security: Security | None) -> ssl.SSLContext | None:
    if security is None or not security.protocol.endswith("SSL"):
        return None
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.cert_file is not None:
            context.load_cert_chain(security.cert_file, security.key_file)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(
            str(path) for path in (security.ca_file, security.cert_file, security.key_file) if path
        )
        raise SourceUnavailableError(f"TLS failed: {files} cannot be used: {error}") from error
    return context


def _read_password(security: Security) -> str:
    if security.password is not None:
        return security.password.get_secret_value()
    if security.password_file is None:
        return ""
    try:
        lines = security.password_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise SourceUnavailableError(
            f"password_file {security.password_file} cannot be read: {reason}"
        ) from None
    with suppress(IndexError):
        return lines[0]
    return ""
