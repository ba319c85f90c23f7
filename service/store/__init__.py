"""Checkpoints in Redis: written aside, then switched in by one Lua call that refuses anyone but the newest learner.

An ACL user needs no more than this (with `+select` for another database than 0, `+cluster|slots` for a cluster):

    ACL SETUSER onepass on >PASSWORD ~{m:* resetchannels -@all
        +eval +get +set +mget +strlen +persist +pttl +lindex +lrange +lpush +lrem +unlink +multi +exec
        +ping +hello +auth +client|setname +info +config|get
"""

from service.store.redis_store import RedisStore

__all__ = ["RedisStore"]
