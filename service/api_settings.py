"""Settings of the HTTP side: where it listens, what a request may be, and who may ask."""

from pathlib import Path
from typing import Self

from pydantic import Field, FilePath, PositiveInt, field_validator, model_validator

from service.groups import Group


class Tls(Group):
    """HTTPS, with a client's certificate asked for where `client_ca_file` is given."""

    cert_file: FilePath
    key_file: FilePath
    client_ca_file: FilePath | None = None
    """Certificates that a client's own must lead to; without it clients need none."""


class Admin(Group):
    host: str = "127.0.0.1"
    port: int = Field(default=8002, ge=0, le=65535)


class Api(Group):
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    max_body: PositiveInt = 1_048_576
    """Bytes of a request's body."""
    max_batch: PositiveInt = 1_000
    """Instances of one /predict/batch."""
    max_in_flight: PositiveInt = 1_024
    """Requests that are answered at the same time; one more is told 503 at once. Idle connections do not count."""
    header_seconds: float = Field(default=5.0, gt=0.0, le=3600.0)
    """Time for a request's headers, from their first byte, or from the connection on."""
    body_seconds: float = Field(default=10.0, gt=0.0, le=3600.0)
    """Time for a request's body, from the end of its headers."""
    idle_seconds: float = Field(default=75.0, gt=0.0, le=3600.0)
    """How long a connection may stay open between two requests."""
    keys_file: Path | None = None
    """Hashed keys and what they are good for, written by `onepass keys`; read anew when it changes."""
    tls: Tls | None = None
    admin: Admin | None = None
    """Freeze, unfreeze and roll back over HTTP, on a port of their own; needs a key with the scope `admin`."""

    @field_validator("keys_file")
    @classmethod
    def _there(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError(f"no such file; `onepass keys new --file {path} --name app --scope predict` makes one")
        return path

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.admin is not None and (self.host, self.port) == (self.admin.host, self.admin.port) and self.port:
            raise ValueError("admin.port is the same as port: administration needs a port of its own")
        return self
