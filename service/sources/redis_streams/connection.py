"""Connect to the Redis that holds a stream, to read or to append. No error shows the URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from service.sources.base import SourceUnavailableError

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


class NoMemoryError(SourceUnavailableError):
    """A reply does not fit into this process's memory."""


@contextmanager
def as_unavailable(where: str) -> Iterator[None]:
    """Turn errors of Redis and of the network into `SourceUnavailableError`."""
    try:
        yield
    except (RedisError, MemoryError) as error:
        # hiredis reports its own failed allocation only by this text.
        if isinstance(error, MemoryError) or str(error) == "Out of memory":
            why = f"{where}: no memory for a reply: raise the memory limit"
            raise NoMemoryError(why) from error
        raise SourceUnavailableError(f"{where}: {' '.join(str(error).split())[:200]}") from error
    except (OSError, UnicodeError) as error:
        raise SourceUnavailableError(f"{where}: {' '.join(str(error).split())[:200]}") from error


def describe_stream(url: str, stream: str) -> str:
    """Name the stream and its server for error messages."""
    address = urlsplit(url)
    return f"Redis stream {stream} at {address.hostname}:{address.port}"
