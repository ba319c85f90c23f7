"""The way to a Redis that holds a stream, the same for reading and appending; an error never repeats an address."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from service.sources.contract import SourceDown

SOCKET_SECONDS = 3.0


def connect(url: str, retries: int) -> Any:
    return Redis.from_url(
        url,
        protocol=3,
        socket_timeout=SOCKET_SECONDS,
        socket_connect_timeout=SOCKET_SECONDS,
        health_check_interval=15,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries),
    )


@contextmanager
def down(where: str) -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError, UnicodeError) as error:
        raise SourceDown(f"{where}: {' '.join(str(error).split())[:200]}") from error


def where_is(url: str, stream: str) -> str:
    address = urlsplit(url)
    return f"Redis stream {stream} at {address.hostname}:{address.port}"
