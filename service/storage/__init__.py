"""Checkpoints in Redis.

A checkpoint is first written under keys that nobody reads. One Lua call then makes it the newest.
That call refuses every learner but the one that acquired the store last.

A Redis ACL user needs only the following rights. Another database than 0 also needs `+select`, a
cluster also needs `+cluster|slots`.

    ACL SETUSER onepass on >PASSWORD ~{m:* resetchannels -@all
        +eval +get +set +mget +strlen +persist +pttl +lindex +lrange +lpush +lrem +unlink
        +multi +exec +ping +hello +auth +client|setname +info +config|get
"""

from service.storage.redis_store import RedisStore

__all__ = ["RedisStore"]
