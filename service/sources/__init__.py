"""Logs to read and append: the URL chooses the system, and its client is imported only then."""

import importlib
from pathlib import Path
from typing import Any, cast
from urllib.parse import SplitResult

from service.sources.base import PLAIN, Options, Sink, Source
from service.sources.urls import parse_url, server_and_name, system_of

SOURCES = {
    "kafka-python": ("service.sources.kafka.kafka_python", "KafkaSource"),
    "confluent": ("service.sources.kafka.confluent", "ConfluentSource"),
    "redis": ("service.sources.redis_streams.source", "RedisSource"),
    "file": ("service.sources.file", "FileSource"),
}
SINKS = {
    "kafka-python": ("service.sources.kafka.kafka_python", "KafkaSink"),
    "confluent": ("service.sources.kafka.confluent", "ConfluentSink"),
    "redis": ("service.sources.redis_streams.sink", "RedisSink"),
}
NOT_APPENDABLE = "a file cannot be appended to: use a kafka:// or redis:// address"


def open_source(url: str, start: str, options: Options = PLAIN) -> Source:
    """Open the log at `url`. A first run reads from `start`, "earliest" or "latest"; a file is read
    from its top.
    """
    if start not in ("earliest", "latest"):
        raise ValueError("start: use earliest or latest")
    address = parse_url(url)
    create = _import(*SOURCES[_client(address, options)])
    if address.scheme == "file":
        return cast("Source", create(Path(address.path), only=options.only))
    return cast("Source", create(*server_and_name(address), start, options))


def open_sink(url: str, options: Options = PLAIN) -> Sink:
    address = parse_url(url)
    if address.scheme == "file":
        raise ValueError(NOT_APPENDABLE)
    create = _import(*SINKS[_client(address, options)])
    return cast("Sink", create(*server_and_name(address), options))


def check_source(url: str, options: Options = PLAIN) -> None:
    """Raise the ValueError of `open_source` early, before anything is started."""
    try:
        address = parse_url(url)
    except ValueError as error:
        raise ValueError(f"source.url: {error}") from error
    if address.scheme == "kafka" and options.client == "confluent":
        _import(*SOURCES["confluent"])


def check_sink(url: str, field: str) -> None:
    """Raise the ValueError of `open_sink` early, before anything is started."""
    try:
        if parse_url(url).scheme == "file":
            raise ValueError(NOT_APPENDABLE)
    except ValueError as error:
        raise ValueError(f"{field}.url: {error}") from error


def create_log(url: str, options: Options = PLAIN, partitions: int = 1) -> bool:
    """Make sure that there is a log to append to. Return whether a topic was created; Redis creates
    a stream with its first entry.
    """
    address = parse_url(url)
    if address.scheme != "kafka":
        return False
    create = _import("service.sources.kafka.kafka_python", "create_topic")
    return cast("bool", create(*server_and_name(address), options.security, partitions))


def _client(address: SplitResult, options: Options) -> str:
    """Kafka has two client libraries, every other system has one."""
    return options.client if address.scheme == "kafka" else system_of(address)


def _import(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise ValueError(
            "client: confluent needs the package confluent-kafka: install onepass[fast]"
        ) from error
