"""Translate errors of Redis into errors of the service.

A text is one line without a password, and the same fault always has the same text.
"""

import re

import redis

from service.checkpoint.store import CorruptCheckpointError, StoreUnavailableError
from service.errors import SettingsError

LONGEST = 200
"""Characters of an error of Redis."""
DENIED = re.compile(r"NOPERM|can't run this command|ACL failure|no permissions", re.IGNORECASE)
"""Texts by which Redis 6.2 to 8 forbid a command, directly and inside a script."""
NO_PASSWORD = re.compile(r"HELLO must be called|NOAUTH|Authentication required")
NO_DATABASE = "DB index is out of range"
DECORATION = re.compile(
    r"Command # \d+ \(.*?\) of pipeline caused error: "
    r"|Error running script \(call to f_\w+\): "
    r"|@user_script: ?\d+: -?| script: \w+, on @user_script:\d+"
)
"""Texts that redis-py and Redis add to an error: the command with its key, the line of a script."""
NO_HANDSHAKE = re.compile(
    r"WRONG_VERSION_NUMBER|record layer|EOF occurred|reset by peer|closed by server"
)
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
CUT_OFF = re.compile(r"reset by peer|closed by server")


class Translator:
    """Chooses the error to raise. A setting that has worked once is not the cause of an error."""

    def __init__(self, where: str, prefix: str, db: int, *, tls: bool) -> None:
        self._where = where
        self._prefix = prefix
        self._db = db
        self._tls = tls
        self._worked: set[str] = set()

    @property
    def answered(self) -> bool:
        """Whether any call has succeeded."""
        return bool(self._worked)

    def record_success(self, call: str) -> None:
        """Remember that an operation of this name has succeeded."""
        self._worked.add(call)

    def translate(self, error: Exception, call: str) -> Exception:
        """Make the service's error for an error that the operation `call` met."""
        inner = (
            error.__cause__
            if isinstance(error, redis.RedisClusterException) and error.__cause__
            else error
        )
        text = DECORATION.sub("", " ".join(str(inner).split()))[:LONGEST].rstrip(". ")
        where = f"Redis at {self._where}"
        if isinstance(inner, redis.AuthenticationError):
            why = "refuses the user or password: " + text
            if NO_PASSWORD.search(text):
                why = "a password is needed"
            return self._blame_settings(
                f"store.url, store.password: {where}: {why}", known=self.answered
            )
        if not isinstance(inner, redis.ResponseError):
            return StoreUnavailableError(f"{where}: {text}{self._hint(inner, text)}")
        if "WRONGTYPE" in text:
            return CorruptCheckpointError(
                f"{where}: a key of {self._prefix}:* has a type that onepass never gives it (head "
                "is a list, all others are strings): find it with the command TYPE and delete or "
                "rename it, or use another name"
            )
        if NO_DATABASE in text:
            return self._blame_settings(
                f"store.url: {where} has no database {self._db}", known=self.answered
            )
        if DENIED.search(text):
            known = call in self._worked or "commit" in self._worked
            return self._blame_settings(
                f"store.url: the ACL of {where} forbids its user a command that is needed: {text}",
                known=known,
            )
        return StoreUnavailableError(f"{where}: {text}")

    def _blame_settings(self, message: str, *, known: bool) -> Exception:
        """Blame a setting, unless `known`: a call has shown that the setting works."""
        return StoreUnavailableError(message) if known else SettingsError(message)

    def _hint(self, error: BaseException, text: str) -> str:
        if UNTRUSTED in text:  # also later: the server may get another certificate
            return (
                ""
                if "expired" in text
                else "; store.ca_file must hold the CA that signed the server's certificate"
            )
        if self.answered:
            return ""
        if self._tls and (isinstance(error, redis.TimeoutError) or NO_HANDSHAKE.search(text)):
            return "; does this port speak TLS?"
        return (
            "; does this port speak TLS? then write rediss://"
            if not self._tls and CUT_OFF.search(text)
            else ""
        )
