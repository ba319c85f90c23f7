"""Whether the server keeps what it is given: looked at once, before the first write."""

import logging
from typing import Any

import redis

from service.checkpoints import StoreDown
from service.errors import BadSettings
from service.store.trouble import DENIED

log = logging.getLogger("onepass")

ROOM = 3
"""Times the model: the newest generation, the one being written, and copies on write while Redis saves."""


class Posture:
    """What was found."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._free: int | None = None
        self._looked = False

    def check(self, client: Any, key: str) -> None:
        """Refuse a server that may drop checkpoints; warn of one that forgets them when it ends."""
        if self._looked:
            return
        # Of a cluster the node that has the key is meant.
        node = {"target_nodes": client.get_node_from_key(key)} if hasattr(client, "get_node_from_key") else {}
        try:
            info = client.info(**node)
        except redis.ResponseError as error:
            if not DENIED.search(str(error)) and "unknown command" not in str(error):
                raise
            log.warning("Redis at %s does not let its user ask INFO: its settings are not checked", self._where)
            self._looked = True
            return
        if info.get("role", "master") != "master":
            raise StoreDown(f"Redis at {self._where} is a replica and takes no writes: name the master")
        limit, policy = int(info.get("maxmemory", 0)), info.get("maxmemory_policy", "noeviction")
        if limit and policy != "noeviction":
            raise BadSettings(
                f"store.url: Redis at {self._where} may drop checkpoints when its memory is full (maxmemory-policy "
                f"{policy}): set maxmemory-policy noeviction, or use a Redis that is not a cache"
            )
        self._free = limit - int(info.get("used_memory", 0)) if limit else None
        if not int(info.get("aof_enabled", 0)) and not _saves(client, node):
            log.warning(
                "Redis at %s keeps nothing on disk: when it ends the model is gone; set appendonly yes", self._where
            )
        self._looked = True

    def fits(self, size: int) -> None:
        """Warn once if a snapshot of so many bytes has little room."""
        if self._free is not None and self._free < ROOM * size:
            log.warning(
                "Redis at %s has %d MB free, and the model takes %d MB: raise its maxmemory, or lower store.keep",
                *(self._where, self._free // 1_000_000, size // 1_000_000),
            )
        self._free = None


def _saves(client: Any, node: dict[str, Any]) -> bool:
    try:
        return bool(client.config_get("save", **node).get("save"))
    except redis.ResponseError:
        return False
