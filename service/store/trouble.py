"""Redis' errors as ours: in one line, the same line for the same trouble, and never with a password."""

import re

import redis

from service.checkpoints import Corrupt, StoreDown
from service.errors import BadSettings

LONGEST = 200
DENIED = re.compile(r"NOPERM|can't run this command|ACL failure|no permissions", re.IGNORECASE)
"""What Redis 6.2 to 8 say, directly and out of a script."""
NO_PASSWORD = re.compile(r"HELLO must be called|NOAUTH|Authentication required")
NO_DATABASE = "DB index is out of range"
AROUND = re.compile(
    r"Command # \d+ \(.*?\) of pipeline caused error: "
    r"|Error running script \(call to f_\w+\): |@user_script: ?\d+: -?| script: \w+, on @user_script:\d+"
)
"""What redis-py and Redis put around an error: the command with its key, the place in the script."""
NO_HANDSHAKE = re.compile(r"WRONG_VERSION_NUMBER|record layer|EOF occurred|reset by peer|closed by server")
CUT_OFF = re.compile(r"reset by peer|closed by server")


class Translator:
    """What an error means depends on what worked before: a setting that was right once is not what is wrong."""

    def __init__(self, where: str, prefix: str, db: int, *, tls: bool) -> None:
        self._where = where
        self._prefix = prefix
        self._db = db
        self._tls = tls
        self._worked: set[str] = set()

    @property
    def answered(self) -> bool:
        """Whether anything ever worked."""
        return bool(self._worked)

    def works(self, call: str) -> None:
        self._worked.add(call)

    def meant(self, error: Exception, call: str) -> Exception:
        inner = error.__cause__ if isinstance(error, redis.RedisClusterException) and error.__cause__ else error
        said = AROUND.sub("", " ".join(str(inner).split()))[:LONGEST].rstrip(". ")
        where = f"Redis at {self._where}"
        if isinstance(inner, redis.AuthenticationError):
            why = "refuses the user or password: " + said
            if NO_PASSWORD.search(said):
                why = "a password is needed"
            return self._settings(f"store.url, store.password: {where}: {why}", known=self.answered)
        if not isinstance(inner, redis.ResponseError):
            return StoreDown(f"{where}: {said}{self._hint(inner, said)}")
        if "WRONGTYPE" in said:
            return Corrupt(
                f"{where}: a key of {self._prefix}:* has a type that onepass never gives it (head is a list, all others"
                " are strings): find it with the command TYPE and delete or rename it, or use another name"
            )
        if NO_DATABASE in said:
            return self._settings(f"store.url: {where} has no database {self._db}", known=self.answered)
        if DENIED.search(said):
            known = call in self._worked or "commit" in self._worked
            return self._settings(f"store.url: the ACL of {where} forbids its user what is needed: {said}", known=known)
        return StoreDown(f"{where}: {said}")

    def _settings(self, text: str, *, known: bool) -> Exception:
        return StoreDown(text) if known else BadSettings(text)

    def _hint(self, error: BaseException, said: str) -> str:
        if self.answered:
            return ""
        if self._tls and (isinstance(error, redis.TimeoutError) or NO_HANDSHAKE.search(said)):
            return "; does this port speak TLS?"
        return "; does this port speak TLS? then write rediss://" if not self._tls and CUT_OFF.search(said) else ""
