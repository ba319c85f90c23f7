"""Clients of one Redis, however it is set up: alone, a cluster, or watched by sentinels.

Every wait has an end, a commit may be sent twice, and no message ever holds a password.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import redis
import redis.cluster
import redis.sentinel
from redis.backoff import ExponentialBackoff
from redis.cluster import RedisCluster
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from service.errors import BadSettings
from service.log_settings import without_password
from service.settings import StoreSettings
from service.store.trouble import Translator

# Without annotations in redis-py.
ClusterNode: Any = redis.cluster.ClusterNode
Sentinel: Any = redis.sentinel.Sentinel

CONNECT_SECONDS = 2.0
FORMS = "redis[s]://host:port/db, redis[s]+cluster://host:port,… or redis[s]+sentinel://host:port,…/service/db"


class Address(NamedTuple):
    """A store's URL, taken apart."""

    kind: str
    """`""`, `cluster` or `sentinel`."""
    tls: bool
    nodes: list[tuple[str, int]]
    user: str | None
    password: str | None
    service: str
    db: int


class Server:
    """Where the checkpoints are; hands out clients."""

    def __init__(self, settings: StoreSettings, prefix: str = "") -> None:
        self.where = without_password(settings.url)
        try:
            self._address = _parsed(settings.url)
        except ValueError:  # which may repeat a part of the password
            raise BadSettings(f"store.url: not the address of a Redis: use {FORMS}") from None
        self._password = _password(settings) or self._address.password
        self._tls = _tls(settings) if self._address.tls else {}
        self._translator = Translator(self.where, prefix, self._address.db, tls=self._address.tls)
        self.answers = False
        """Whether the last call had an answer, be it an error."""

    def client(self, seconds: float, retries: int) -> Any:
        """A client whose every call waits at most so long, so often; a cluster's connects at once."""
        if self._address.tls and not self._translator.answered:
            # A port without TLS says nothing, and a handshake waits as long as a call: this is known soon.
            with closing(self._client(CONNECT_SECONDS, 0)) as first:
                first.ping()
        return self._client(seconds, retries)

    def _client(self, seconds: float, retries: int) -> Any:
        address = self._address
        waits: dict[str, Any] = {"socket_timeout": seconds, "socket_connect_timeout": min(seconds, CONNECT_SECONDS)}
        retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), retries)
        options = {
            **waits,
            **self._tls,
            "username": address.user,
            "password": self._password,
            "client_name": "onepass",
            "protocol": 3,
            "health_check_interval": 15,
            # The server would be asked for a feature of Redis Enterprise at every connect.
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }
        if address.kind == "cluster":
            nodes: list[Any] = [ClusterNode(host, port) for host, port in address.nodes]
            return RedisCluster(startup_nodes=nodes, retry=retry, require_full_coverage=False, **options)
        if address.kind == "sentinel":
            asking = {**waits, **self._tls, "retry": Retry(ExponentialBackoff(), 0)}
            sentinel = Sentinel(address.nodes, sentinel_kwargs=asking, **options, retry=retry)
            return sentinel.master_for(address.service, db=address.db)
        host, port = address.nodes[0]
        return redis.Redis(host=host, port=port, db=address.db, retry=retry, **options)

    @contextmanager
    def translated(self, call: str) -> Iterator[None]:
        """Redis' errors as ours; the client has retried already. `call` is what is asked for, by any name."""
        try:
            yield
            self.answers = True
            self._translator.works(call)
        # A cluster has errors of its own; a host name may be no host name; a socket's error may come as it is.
        except (redis.RedisError, redis.RedisClusterException, UnicodeError, OSError) as error:
            self.answers = isinstance(error, redis.ResponseError)
            raise self._translator.meant(error, call) from error


def _parsed(url: str) -> Address:
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    if scheme not in {"redis", "rediss"} or kind not in {"", "cluster", "sentinel"} or parts.query or parts.fragment:
        raise ValueError
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    nodes = [_node(urlsplit(f"//{node}")) for node in hosts.split(",")]
    service, _, db = parts.path.strip("/").rpartition("/")
    if kind == "sentinel" and not service:
        service, db = db, ""
    wrong = (kind == "sentinel") != bool(service) or "/" in service or (len(nodes) > 1 and not kind)
    if wrong or (kind == "cluster" and db not in {"", "0"}):
        raise ValueError
    return Address(
        kind, scheme == "rediss", nodes, unquote(user) or None, unquote(password) or None, service, int(db or "0")
    )


def _node(host: SplitResult) -> tuple[str, int]:
    if not host.hostname or host.path:
        raise ValueError
    return host.hostname, host.port or 6379


def _tls(settings: StoreSettings) -> dict[str, Any]:
    files = {"ca_file": settings.ca_file, "cert_file": settings.cert_file, "key_file": settings.key_file}
    for name, file in files.items():
        if file is not None and not _readable(file):
            raise BadSettings(f"store.{name}: {file} cannot be read")
    return {
        "ssl": True,
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
        "ssl_ca_certs": str(settings.ca_file) if settings.ca_file else None,
        "ssl_certfile": str(settings.cert_file) if settings.cert_file else None,
        "ssl_keyfile": str(settings.key_file) if settings.key_file else None,
    }


def _readable(file: Path) -> bool:
    try:
        with file.open("rb"):
            return True
    except OSError:
        return False


def _password(settings: StoreSettings) -> str | None:
    try:
        if settings.password_file is not None:
            return settings.password_file.read_text(encoding="utf-8").splitlines()[0]
        password = settings.password.get_secret_value() if settings.password else None
        (password or "").encode()
    except (OSError, UnicodeError, IndexError) as error:
        raise BadSettings("store.password, store.password_file: no readable first line of UTF-8 text") from error
    return password
