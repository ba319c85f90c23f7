"""Settings of logs: where they are, and how to speak with them."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, FilePath, PlainSerializer, SecretStr, model_validator

from service.groups import Group


def without_password(url: str) -> str:
    """A URL fit for logs."""
    return re.sub(r"([?&]password=)[^&]*", r"\1***", re.sub(r"//.*@", "//***@", url))


Address = Annotated[str, Field(repr=False), PlainSerializer(without_password)]
"""A URL that may hold a password, and so is shown nowhere as it is."""


class Security(Group):
    """How to speak with Kafka's brokers when they ask for more than an address."""

    protocol: Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "SASL_SSL"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    username: str | None = None
    password: SecretStr | None = None
    password_file: FilePath | None = None
    """A file whose first line is the password."""
    ca_file: FilePath | None = None
    """Certificates that a broker's own must lead to; without it those of the system."""
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    """The client's own certificate and key, where brokers ask for them."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.protocol.startswith("SASL") and (self.username is None or not (self.password or self.password_file)):
            raise ValueError(f"protocol {self.protocol} needs username, and password or password_file")
        if self.password is not None and self.password_file is not None:
            raise ValueError("password and password_file say the same thing: leave one out")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")
        return self


class SourceSettings(Group):
    url: Address
    """`kafka://host:port/topic`, `redis://host:port/db/stream` or `file:///path`."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where to begin when there is no checkpoint."""
    client: Literal["kafka-python", "confluent"] = "kafka-python"
    """`confluent`: librdkafka, several times the throughput; needs the extra `fast`."""
    on_lost: Literal["fail", "earliest", "latest"] = "fail"
    """When the log has lost what follows the checkpoint: stop, or go on at its start or end with the gap recorded."""
    security: Security | None = None


class SideLog(Group):
    """A log beside the source, that this service writes."""

    url: Address
    """Same forms as the source's."""
    security: Security | None = None
    """Without it the source's, if that is a Kafka too."""
