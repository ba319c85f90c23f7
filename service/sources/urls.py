"""The URL of a log: `kafka://`, `redis://` or `file://`, checked before anything connects.

No message repeats a URL, which may hold a password.
"""

import re
from urllib.parse import SplitResult, parse_qs, urlsplit

FORMS = (
    "kafka://host:port[,host:port]/topic, redis[s]://host:port/db/stream (with user:password@"
    " before the host if need be) or file:///path"
)
"""Forms of a URL. No form contains `//user:password@`: messages are redacted there."""
KAFKA_SERVERS = re.compile(r"[^,@:\[\]]+:\d+(,[^,@:\[\]]+:\d+)*")
KAFKA_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
REDIS_PATH = re.compile(r"/(\d+)/(.+)")
REDIS_OPTIONS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}


def parse_url(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        valid = _is_valid(address)
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"not the address of a log: use {FORMS}")
    return address


def system_of(address: SplitResult) -> str:
    """`kafka`, `redis` or `file`. A Redis behind TLS is the same system."""
    return "redis" if address.scheme == "rediss" else address.scheme


def server_and_name(address: SplitResult) -> tuple[str, str]:
    """The server to connect to, and what the log is called there: a topic or a stream."""
    if address.scheme == "kafka":
        return address.netloc, address.path[1:]
    database, stream = address.path[1:].split("/", 1)
    return address._replace(path=f"/{database}").geturl(), stream


def log_name(url: str) -> str:
    """Name the log whatever the server's address is. A position is valid only in the log that has
    this name.
    """
    address = parse_url(url)
    return f"{system_of(address)}:{address.path.rpartition('/')[2]}"


def url_beside(source_url: str, ending: str) -> str | None:
    """The URL of an output log beside a source. None for a file, which cannot be appended to."""
    address = parse_url(source_url)
    if address.scheme == "file":
        return None
    return address._replace(path=address.path + ending).geturl()


def _is_valid(address: SplitResult) -> bool:
    match address.scheme:
        case "kafka":
            return _is_valid_kafka(address)
        case "redis" | "rediss":
            return _is_valid_redis(address)
        case "file":
            return _has_no_query(address) and not address.netloc and len(address.path) > 1
    return False


def _is_valid_kafka(address: SplitResult) -> bool:
    if not (_has_no_query(address) and KAFKA_SERVERS.fullmatch(address.netloc)):
        return False
    ports = [int(server.rpartition(":")[2]) for server in address.netloc.split(",")]
    return all(0 < port < 65536 for port in ports) and bool(KAFKA_TOPIC.fullmatch(address.path[1:]))


def _is_valid_redis(address: SplitResult) -> bool:
    options = set(parse_qs(address.query, keep_blank_values=True))
    return (
        address.hostname is not None
        and address.port is not None
        and options <= REDIS_OPTIONS
        and not address.fragment
        and bool(REDIS_PATH.fullmatch(address.path))
    )


def _has_no_query(address: SplitResult) -> bool:
    return not (address.query or address.fragment)
