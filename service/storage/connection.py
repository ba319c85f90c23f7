"""Connect to one Redis (standalone, cluster or sentinel) and check that it keeps checkpoints.

Every call has a timeout. A client may send a commit twice. No error message contains a password.
"""

import logging
import ssl
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

from service.checkpoint.store import StoreUnavailableError
from service.config.settings import StoreSettings, without_password
from service.errors import SettingsError
from service.storage.redis_errors import DENIED, Translator

log = logging.getLogger("onepass")

# redis-py has no annotations for these two.
ClusterNode: Any = redis.cluster.ClusterNode
Sentinel: Any = redis.sentinel.Sentinel

CONNECT_SECONDS = 2.0
FORMS = (
    "redis[s]://host:port/db, redis[s]+cluster://host:port,… "
    "or redis[s]+sentinel://host:port,…/service/db"
)
"""Forms of a store's URL, for an error message."""
MEMORY_FACTOR = 3
"""Multiples of a snapshot's size that Redis needs: the newest generation, the one that is being
written, and the pages that Redis copies on write while it saves to disk.
"""


class Address(NamedTuple):
    """The parts of a store's URL."""

    kind: str
    """`""`, `cluster` or `sentinel`."""
    tls: bool
    nodes: list[tuple[str, int]]
    user: str | None
    password: str | None
    service: str
    db: int


class Server:
    """The Redis that holds the checkpoints. It makes clients and translates their errors."""

    def __init__(self, settings: StoreSettings, prefix: str = "") -> None:
        self.where = without_password(settings.url)
        try:
            self._address = _parse(settings.url)
        except ValueError:  # its text may contain a part of the password
            raise SettingsError(f"store.url: not the address of a Redis: use {FORMS}") from None
        self._password = _read_password(settings) or self._address.password
        self._tls = _tls_options(settings) if self._address.tls else {}
        self._translator = Translator(self.where, prefix, self._address.db, tls=self._address.tls)
        self.answers = False
        """Whether Redis answered the last call. An error is an answer too."""

    def client(self, seconds: float, retries: int) -> Any:
        """Make a client whose calls time out after `seconds` and are retried `retries` times.

        A client of a cluster connects immediately.
        """
        if self._address.tls and not self._translator.answered:
            # A port without TLS never answers a TLS handshake. A short first timeout finds that
            # out soon, because a handshake waits as long as a call.
            with closing(self._make_client(CONNECT_SECONDS, 0)) as probe:
                probe.ping()
        return self._make_client(seconds, retries)

    def _make_client(self, seconds: float, retries: int) -> Any:
        address = self._address
        timeouts: dict[str, Any] = {
            "socket_timeout": seconds,
            "socket_connect_timeout": min(seconds, CONNECT_SECONDS),
        }
        retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), retries)
        options = {
            **timeouts,
            **self._tls,
            "username": address.user,
            "password": self._password,
            "client_name": "onepass",
            "protocol": 3,
            "health_check_interval": 15,
            # Without this redis-py asks for a feature of Redis Enterprise at every connect.
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }
        if address.kind == "cluster":
            nodes: list[Any] = [ClusterNode(host, port) for host, port in address.nodes]
            return RedisCluster(
                startup_nodes=nodes, retry=retry, require_full_coverage=False, **options
            )
        if address.kind == "sentinel":
            sentinel_options = {**timeouts, **self._tls, "retry": Retry(ExponentialBackoff(), 0)}
            sentinel = Sentinel(
                address.nodes, sentinel_kwargs=sentinel_options, **options, retry=retry
            )
            return sentinel.master_for(address.service, db=address.db)
        host, port = address.nodes[0]
        return redis.Redis(host=host, port=port, db=address.db, retry=retry, **options)

    @contextmanager
    def translate_errors(self, call: str) -> Iterator[None]:
        """Raise errors of Redis as errors of the service. The client has already retried.

        `call` names the operation. See `Translator`.
        """
        try:
            yield
            self.answers = True
            self._translator.record_success(call)
        # Cluster errors have another base class. A bad host name raises UnicodeError. Some socket
        # errors reach us unchanged.
        except (redis.RedisError, redis.RedisClusterException, UnicodeError, OSError) as error:
            self.answers = isinstance(error, redis.ResponseError)
            raise self._translator.translate(error, call) from error


class ServerPolicy:
    """Checks once whether a Redis server is configured to keep checkpoints."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._free: int | None = None
        self._checked = False

    def check(self, client: Any, key: str) -> None:
        """Refuse a server that may evict checkpoints. Warn if it keeps nothing on disk."""
        if self._checked:
            return
        # In a cluster, ask the node that owns the key.
        node = (
            {"target_nodes": client.get_node_from_key(key)}
            if hasattr(client, "get_node_from_key")
            else {}
        )
        try:
            info = client.info(**node)
        except redis.ResponseError as error:
            if not DENIED.search(str(error)) and "unknown command" not in str(error):
                raise
            log.warning(
                "Redis at %s forbids its user the command INFO: its settings are not checked",
                self._where,
            )
            self._checked = True
            return
        if info.get("role", "master") != "master":
            raise StoreUnavailableError(
                f"Redis at {self._where} is a replica and takes no writes: name the master"
            )
        limit, policy = int(info.get("maxmemory", 0)), info.get("maxmemory_policy", "noeviction")
        if limit and policy != "noeviction":
            raise SettingsError(
                f"store.url: Redis at {self._where} may drop checkpoints when its memory is full "
                f"(maxmemory-policy {policy}): set maxmemory-policy noeviction, or use a Redis "
                "that is not a cache"
            )
        self._free = limit - int(info.get("used_memory", 0)) if limit else None
        if not int(info.get("aof_enabled", 0)) and not _saves_to_disk(client, node):
            log.warning(
                "Redis at %s keeps nothing on disk: if it stops, the model is lost; "
                "set appendonly yes",
                self._where,
            )
        self._checked = True

    def warn_if_full(self, size: int) -> None:
        """Warn once if the server has little memory left for snapshots of `size` bytes."""
        if self._free is not None and self._free < MEMORY_FACTOR * size:
            log.warning(
                "Redis at %s has %d MB free, and the model takes %d MB: "
                "raise its maxmemory, or lower checkpoint.keep",
                *(self._where, self._free // 1_000_000, size // 1_000_000),
            )
        self._free = None


def _parse(url: str) -> Address:
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    if (
        scheme not in {"redis", "rediss"}
        or kind not in {"", "cluster", "sentinel"}
        or parts.query
        or parts.fragment
    ):
        raise ValueError
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    nodes = [_parse_node(urlsplit(f"//{node}")) for node in hosts.split(",")]
    service, _, db = parts.path.strip("/").rpartition("/")
    if kind == "sentinel" and not service:
        service, db = db, ""
    wrong = (kind == "sentinel") != bool(service) or "/" in service or (len(nodes) > 1 and not kind)
    if wrong or (kind == "cluster" and db not in {"", "0"}):
        raise ValueError
    return Address(
        kind,
        scheme == "rediss",
        nodes,
        unquote(user) or None,
        unquote(password) or None,
        service,
        int(db or "0"),
    )


def _parse_node(host: SplitResult) -> tuple[str, int]:
    if not host.hostname or host.path:
        raise ValueError
    return host.hostname, host.port or 6379


def _tls_options(settings: StoreSettings) -> dict[str, Any]:
    files = {
        "ca_file": settings.ca_file,
        "cert_file": settings.cert_file,
        "key_file": settings.key_file,
    }
    for name, file in files.items():
        if file is not None and not _is_readable(file):
            raise SettingsError(f"store.{name}: cannot read {file}")
    _check_tls_files(settings)
    return {
        "ssl": True,
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
        "ssl_ca_certs": str(settings.ca_file) if settings.ca_file else None,
        "ssl_certfile": str(settings.cert_file) if settings.cert_file else None,
        "ssl_keyfile": str(settings.key_file) if settings.key_file else None,
    }


def _check_tls_files(settings: StoreSettings) -> None:
    """Load the files once, because a faulty one would later look like an unavailable Redis."""
    if settings.key_file is not None and settings.cert_file is None:
        raise SettingsError("store.key_file is set without store.cert_file; give both or none")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    fault = "store.ca_file: not a PEM file of certificates"
    try:
        if settings.ca_file is not None:
            context.load_verify_locations(settings.ca_file)
        fault = (
            "store.cert_file, store.key_file: not a certificate and the key that belongs to it, as"
            " PEM without a password"
        )
        if settings.cert_file is not None:
            # Without a function for the password OpenSSL asks the terminal for it.
            context.load_cert_chain(settings.cert_file, settings.key_file, password=lambda: "")
    except (OSError, ValueError) as error:  # errors of ssl are OSErrors too
        reason = (
            getattr(error, "reason", None) or getattr(error, "strerror", None) or "not readable"
        )
        raise SettingsError(f"{fault} ({reason})") from error


def _is_readable(file: Path) -> bool:
    try:
        with file.open("rb"):
            return True
    except OSError:
        return False


def _read_password(settings: StoreSettings) -> str | None:
    try:
        if settings.password_file is not None:
            return settings.password_file.read_text(encoding="utf-8").splitlines()[0]
        password = settings.password.get_secret_value() if settings.password else None
        (password or "").encode()
    except (OSError, UnicodeError, IndexError) as error:
        raise SettingsError(
            "store.password, store.password_file: give a readable first line of UTF-8 text"
        ) from error
    return password


def _saves_to_disk(client: Any, node: dict[str, Any]) -> bool:
    try:
        return bool(client.config_get("save", **node).get("save"))
    except redis.ResponseError:
        return False
