"""What brokers ask for beside an address: the words each client library has for it, and a first knock at the door.

The password is read when a connection is made, so a file that changes is read anew; no message ever holds it.
"""

import socket
import ssl
from contextlib import suppress

from service.log_settings import Security
from service.sources.contract import SourceDown

CONNECT_SECONDS = 1.0


def for_kafka_python(security: Security | None) -> dict[str, object]:
    if security is None:
        return {}
    words: dict[str, object] = {"security_protocol": security.protocol}
    if (tls := tls_of(security)) is not None:
        words["ssl_context"] = tls
    if security.protocol.startswith("SASL"):
        words |= {
            "sasl_mechanism": security.mechanism,
            "sasl_plain_username": security.username,
            "sasl_plain_password": _password(security),
        }
    return words


def for_confluent(security: Security | None) -> dict[str, object]:
    if security is None:
        return {}
    words: dict[str, object] = {"security.protocol": security.protocol}
    if security.protocol.startswith("SASL"):
        words |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username,
            "sasl.password": _password(security),
        }
    if security.protocol.endswith("SSL"):
        files = {"ca": security.ca_file, "certificate": security.cert_file, "key": security.key_file}
        words |= {f"ssl.{what}.location": str(path) for what, path in files.items() if path is not None}
    return words


def knock(bootstrap: str, security: Security | None) -> None:
    """Fail at once, with the reason, when nobody listens or the certificate does not fit.

    The clients only log such reasons, try again until a timeout, and leave threads and sockets behind.
    """
    tls = tls_of(security)
    refusal: OSError | UnicodeError | None = None
    for server in bootstrap.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS) as plain:
                if tls is not None:
                    tls.wrap_socket(plain, server_hostname=host).close()
        except ssl.SSLCertVerificationError as error:
            said = f"the certificate of {server} does not fit ca_file or the system's: {error.verify_message}"
            raise SourceDown(f"TLS failed: {said}") from error
        except ssl.SSLError as error:
            raise SourceDown(f"TLS failed at {server}: {error.reason or error}; is it a TLS listener?") from error
        except (OSError, UnicodeError) as error:
            refusal = error
        else:
            return
    raise SourceDown(f"no Kafka broker answers at {bootstrap}: {refusal}") from refusal


def authentication_failed(bootstrap: str, security: Security | None) -> SourceDown:
    user = None if security is None else security.username
    return SourceDown(f"authentication failed at {bootstrap} for user {user}: check username, password and mechanism")


def tls_of(security: Security | None) -> ssl.SSLContext | None:
    if security is None or not security.protocol.endswith("SSL"):
        return None
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.cert_file is not None:
            context.load_cert_chain(security.cert_file, security.key_file)
    except (OSError, ssl.SSLError) as error:
        names = ", ".join(str(path) for path in (security.ca_file, security.cert_file, security.key_file) if path)
        raise SourceDown(f"TLS failed: {names} cannot be used: {error}") from error
    return context


def _password(security: Security) -> str:
    if security.password is not None:
        return security.password.get_secret_value()
    if security.password_file is None:
        return ""
    try:
        lines = security.password_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise SourceDown(f"password_file {security.password_file} cannot be read: {reason}") from None
    with suppress(IndexError):
        return lines[0]
    return ""
