"""Check which host a request names, and which web site sent it.

A browser sends requests for any page that is open in it. A page of another site can post to the
loopback, and it can point its own host name to 127.0.0.1 (DNS rebinding) and then read what it
asked for. Headers that a page cannot choose reveal both: `Host`, `Origin` and `Sec-Fetch-Site`.
"""

import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from starlette.types import Scope

from service.api.responses import ApiError

JSON = b"application/json"
LONGEST = 261
"""Bytes of the longest `host:port`: a host name of 255 bytes and a port."""
AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{0,5}))?")
ORIGIN = re.compile(rb"(https?)://([^/?#]+)", re.IGNORECASE)
PORTS = {"http": "80", "https": "443"}

NOT_OURS = (
    "without keys, the Host must be localhost, a loopback address, api.host or a name in api.hosts;"
    " add the name that you use to api.hosts, or set api.keys_file"
)
CROSS_SITE = (
    "a web page of another origin may not send this; a proxy in between must forward the Host"
    " header"
)
NOT_JSON = "send the header Content-Type: application/json"


@lru_cache(256)
def host_of(authority: bytes) -> tuple[str, str] | None:
    """Split `host[:port]` into normalized name and port; None if it has another form."""
    found = AUTHORITY.fullmatch(authority.decode("latin-1")) if len(authority) <= LONGEST else None
    if found is None:
        return None
    name = (found[1] or found[2]).lower().removesuffix(".")
    try:
        return _normalize_address(name), found[3] or ""
    except ValueError:
        return None if found[1] else (name, found[3] or "")


def _normalize_address(text: str) -> str:
    """Spell an address in one way. An IPv4 address may come as IPv6, and with an interface name."""
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def is_loopback(name: str) -> bool:
    """Whether a name from `host_of` can only mean this machine."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


class Hosts:
    """Host names that an API without keys answers to: loopback, and those in the settings."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(
            found[0] for name in names if (found := host_of(_add_brackets(name)))
        )

    def check(self, scope: Scope, authority: bytes) -> None:
        """Refuse a request for another host, and one without `Host` (HTTP/1.0)."""
        found = host_of(authority)
        if found is None or not (
            found[0] in self._names or is_loopback(found[0]) or _is_own_address(scope, found[0])
        ):
            raise ApiError(421, "host", NOT_OURS)


def check_writer(scope: Scope, *, body: bool) -> None:
    """Refuse a write from a page of another origin, and a body that is not declared as JSON."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    if not {b"same-origin", b"none"}.issuperset(headers.get(b"sec-fetch-site", ())):
        raise ApiError(403, "cross_site", CROSS_SITE)
    for origin in headers.get(b"origin", ()):
        if not _is_same_origin(scope, origin, headers.get(b"host", [b""])[0]):
            raise ApiError(403, "cross_site", CROSS_SITE)
    kinds = headers.get(b"content-type", [b""] if body else [])
    if any(kind.partition(b";")[0].strip().lower() != JSON for kind in kinds):
        raise ApiError(415, "content_type", NOT_JSON)


def _is_same_origin(scope: Scope, origin: bytes, authority: bytes) -> bool:
    """Whether an origin is this service. Its scheme counts only under TLS, because a proxy before
    us may end TLS.
    """
    found, host = ORIGIN.fullmatch(origin), host_of(authority)
    page = host_of(found[2]) if found else None
    if found is None or page is None or host is None:
        return False
    scheme = found[1].decode().lower()
    if scope["scheme"] == "https" and scheme != "https":
        return False
    return page[0] == host[0] and (page[1] or PORTS[scheme]) == (host[1] or PORTS[scheme])


def _is_own_address(scope: Scope, name: str) -> bool:
    """Whether the name is the address that the connection came to, which a page cannot rebind."""
    server = scope.get("server")
    try:
        return server is not None and name == _normalize_address(server[0])
    except ValueError:  # a test client gives a name as its server
        return False


def _add_brackets(name: str) -> bytes:
    """Spell an IPv6 address of the settings as a Host header does."""
    return f"[{name}]".encode() if ":" in name else name.encode()
