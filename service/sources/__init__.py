"""Logs by address: one URL chooses the kind of log, where it is and what it is called.

A client library is imported only when an address asks for it, and no message here repeats an address,
which may hold a password.
"""

import importlib
import re
from pathlib import Path
from typing import Any, cast
from urllib.parse import SplitResult, parse_qs, urlsplit

from service.sources.contract import PLAIN, Options, Sink, Source

FORMS = (
    "kafka://host:port[,host:port]/topic, redis[s]://host:port/db/stream (with user:password@ before the host if need "
    "be) or file:///path"
)
"""Has no form that looks like a password: what is printed is redacted."""
KAFKA_SERVERS = re.compile(r"[^,@:\[\]]+:\d+(,[^,@:\[\]]+:\d+)*")
KAFKA_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
REDIS_PATH = re.compile(r"/(\d+)/(.+)")


NOT_APPENDABLE = "a file cannot be appended to: use a kafka:// or redis:// address"
REDIS_OPTIONS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}

SOURCES = {
    "kafka-python": ("service.sources.kafka", "KafkaSource"),
    "confluent": ("service.sources.confluent", "ConfluentSource"),
    "redis": ("service.sources.redis_streams", "RedisSource"),
    "file": ("service.sources.file", "FileSource"),
}
SINKS = {
    "kafka-python": ("service.sources.kafka", "KafkaSink"),
    "confluent": ("service.sources.confluent_sink", "ConfluentSink"),
    "redis": ("service.sources.redis_sink", "RedisSink"),
}


def open_source(url: str, start: str, options: Options = PLAIN) -> Source:
    """The log at `url`; a first run reads from its `start`, "earliest" or "latest" (a file: from its top)."""
    if start not in ("earliest", "latest"):
        raise ValueError("start: use earliest or latest")
    address = _split(url)
    make = _made(*SOURCES[_kind(address, options)])
    if address.scheme == "file":
        return cast("Source", make(Path(address.path), only=options.only))
    return cast("Source", make(*_server_and_name(address), start, options))


def open_sink(url: str, options: Options = PLAIN) -> Sink:
    address = _split(url)
    if address.scheme == "file":
        raise ValueError(NOT_APPENDABLE)
    return cast("Sink", _made(*SINKS[_kind(address, options)])(*_server_and_name(address), options))


def check_source(url: str, options: Options = PLAIN) -> None:
    """Refuse, before anything is started, what `open_source` would refuse."""
    try:
        address = _split(url)
    except ValueError as error:
        raise ValueError(f"source.url: {error}") from error
    if address.scheme == "kafka" and options.client == "confluent":
        _made(*SOURCES["confluent"])


def check_sink(url: str, field: str) -> None:
    """Refuse, before anything is started, what `open_sink` would refuse."""
    try:
        if _split(url).scheme == "file":
            raise ValueError(NOT_APPENDABLE)
    except ValueError as error:
        raise ValueError(f"{field}.url: {error}") from error


def log_name(url: str) -> str:
    """Which log an address means, whatever the way to it: positions in one mean nothing in another."""
    address = _split(url)
    return f"{_system(address)}:{address.path.rpartition('/')[2]}"


def create_log(url: str, options: Options = PLAIN, partitions: int = 1) -> bool:
    """Make sure that there is a log to append to; whether one was made. A Redis stream comes with its first entry."""
    address = _split(url)
    if address.scheme != "kafka":
        return False
    create = _made("service.sources.kafka_topics", "create_topic")
    return cast("bool", create(*_server_and_name(address), options.security, partitions))


def url_beside(source_url: str, ending: str) -> str | None:
    """The address of a log beside a source, for what is written there; a file has no such place."""
    address = _split(source_url)
    if address.scheme == "file":
        return None
    return address._replace(path=address.path + ending).geturl()


def _split(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        good = _is_good(address)
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"not the address of a log: use {FORMS}")
    return address


def _is_good(address: SplitResult) -> bool:
    plain = not (address.query or address.fragment)
    match address.scheme:
        case "kafka":
            servers = KAFKA_SERVERS.fullmatch(address.netloc)
            ports = [int(server.rpartition(":")[2]) for server in address.netloc.split(",")] if servers else [0]
            return plain and all(0 < port < 65536 for port in ports) and bool(KAFKA_TOPIC.fullmatch(address.path[1:]))
        case "redis" | "rediss":
            reachable = address.hostname is not None and address.port is not None
            known = set(parse_qs(address.query, keep_blank_values=True)) <= REDIS_OPTIONS
            return reachable and known and not address.fragment and bool(REDIS_PATH.fullmatch(address.path))
        case "file":
            return plain and not address.netloc and len(address.path) > 1
    return False


def _server_and_name(address: SplitResult) -> tuple[str, str]:
    if address.scheme == "kafka":
        return address.netloc, address.path[1:]
    database, stream = address.path[1:].split("/", 1)
    return address._replace(path=f"/{database}").geturl(), stream


def _kind(address: SplitResult, options: Options) -> str:
    return options.client if address.scheme == "kafka" else _system(address)


def _system(address: SplitResult) -> str:
    return "redis" if address.scheme == "rediss" else address.scheme


def _made(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise ValueError("client: confluent needs the package confluent-kafka: install onepass[fast]") from error
