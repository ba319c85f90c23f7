"""All settings of one model. They are immutable, and an unknown key is an error.

The groups come first, in the order of their fields in `Settings`, which is the last class.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FilePath,
    PlainSerializer,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    SerializeAsAny,
    field_validator,
    model_validator,
)

from learners.drift.detector import Detector
from learners.drift.inputs import Inputs
from learners.drift.registry import make_detector
from learners.learner import Learner
from learners.registry import make

HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}|[0-9A-Fa-f:.]{2,45}")

RESERVED = {"features", "id", "ts", "weight"}
"""Fields of an event that the format defines. No label or tree can have such a name."""

LONGEST_LEASE_SECONDS = 300.0
"""Seconds: the most that `store.lease_seconds` may be."""

Action = Literal["boost", "reset_scaler"]


class SettingsModel(BaseModel):
    """Base class of all groups of settings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", coerce_numbers_to_str=True, allow_inf_nan=False
    )


def canonical_label(value: bool | float | str) -> str:
    """Spell a label so that 1, 1.0 and "1" are the same class in YAML, JSON and CSV."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def without_password(url: str) -> str:
    """Return a URL that logs may show."""
    return re.sub(r"([?&]password=)[^&]*", r"\1***", re.sub(r"//.*@", "//***@", url))


Address = Annotated[str, Field(repr=False), PlainSerializer(without_password)]
"""A URL that may hold a password; repr and JSON hide the password."""


class Features(SettingsModel):
    columns: tuple[str, ...] = ()
    """Features that share no slot with others. A column that an event lacks is 0."""
    text: tuple[str, ...] = ()
    """Fields whose text is split into lower-case words, which are counted."""
    ngrams: int = Field(default=1, ge=1, le=5)
    """Words: the longest run of words of a text field that becomes one feature."""
    bits: int = Field(default=18, ge=0, le=28)
    """Every other feature is hashed into 2^bits slots. 0: there are no such slots, and an event
    with another feature is rejected."""
    bias: bool = True
    """A constant feature 1 in slot 0."""
    flat: bool = False
    """Whether the features lie beside the label in one flat object, not inside `features`."""
    tree: str | None = Field(default=None, min_length=1)
    """Field, beside the label, with a bracketed parse for a tree kernel. An event without it is
    rejected. With `bits: 0` and no columns, the model uses only the tree."""

    @model_validator(mode="after")
    def _check_consistent(self) -> Self:
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("columns has a name twice")
        if both := set(self.columns) & set(self.text):
            raise ValueError(f"a field is a column or text, not both: {', '.join(sorted(both))}")
        if self.bits == 0 and not self.columns and self.tree is None:
            raise ValueError("bits: 0 leaves no feature; declare columns or set bits")
        if self.tree in RESERVED:
            raise ValueError(
                f"'{self.tree}' is a field of the event format; choose another for the tree"
            )
        if self.flat and self.tree in {*self.columns, *self.text}:
            raise ValueError(f"a field is a feature or the tree, not both: {self.tree}")
        if self.flat and {"id", "ts", "weight"} & {*self.columns, *self.text}:
            raise ValueError("id, ts and weight of a flat event cannot be features")
        if self.bits == 0 and self.text:
            raise ValueError("text features are hashed: set bits above 0")
        return self


class Label(SettingsModel):
    field: str = "label"
    """The field of an event that holds the label."""
    positive: str | None = None
    """The label of the positive class. Without it, the sign of a number (or true/false) decides."""
    negative: str | None = Field(default=None, min_length=1)
    """The only other label. Without it, every other label is the negative class."""
    classes: Literal["binary", "grow"] = "binary"
    """`grow`: one-vs-rest over the classes, in the order in which they appear."""
    max_classes: int = Field(default=64, ge=2, le=65536)
    """With `grow`: the most classes. An event of a further class is rejected."""

    @field_validator("positive", "negative", mode="before")
    @classmethod
    def _to_text(cls, value: object) -> object:
        return canonical_label(value) if isinstance(value, (bool, int, float)) else value

    @model_validator(mode="after")
    def _check_consistent(self) -> Self:
        if self.field in RESERVED:
            raise ValueError(
                f"'{self.field}' is a field of the event format; choose another for the label"
            )
        if self.classes == "grow" and (self.positive or self.negative):
            raise ValueError(
                "classes: grow has no positive or negative class; remove one of the two"
            )
        if self.negative is not None and self.positive is None:
            raise ValueError("negative needs positive")
        if self.negative is not None and self.negative == self.positive:
            raise ValueError("positive and negative are the same label")
        return self


class Limits(SettingsModel):
    """Upper limits of an event. An event beyond one of them is rejected."""

    max_bytes: PositiveInt = 1_048_576
    max_features: PositiveInt = 10_000
    max_name: PositiveInt = 256
    """Characters of a feature name, a categorical value or a label."""
    max_abs: float = Field(default=1e100, gt=0.0, le=1e100)
    """Largest absolute value; far enough below the largest float that sums stay finite."""
    max_nodes: int = Field(default=256, ge=1, le=4096)
    """Inner nodes of a tree. Comparing two trees can take the product of their sizes."""


class Security(SettingsModel):
    """TLS and SASL settings of a Kafka cluster."""

    protocol: Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "SASL_SSL"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    username: str | None = None
    password: SecretStr | None = None
    password_file: FilePath | None = None
    """A file whose first line is the password."""
    ca_file: FilePath | None = None
    """CA certificates that sign the brokers' certificates; without it the system's."""
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    """The client's certificate and key, if the brokers require them."""

    @model_validator(mode="after")
    def _check_consistent(self) -> Self:
        complete = self.username is not None and (self.password or self.password_file)
        if self.protocol.startswith("SASL") and not complete:
            raise ValueError(
                f"protocol {self.protocol} needs username, and password or password_file"
            )
        if self.password is not None and self.password_file is not None:
            raise ValueError("password and password_file set the same thing: leave one out")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")
        return self


class SourceSettings(SettingsModel):
    url: Address
    """`kafka://host:port/topic`, `redis://host:port/db/stream` or `file:///path`."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where to start reading if there is no checkpoint."""
    client: Literal["kafka-python", "confluent"] = "kafka-python"
    """`confluent` (librdkafka) has several times the throughput and needs the extra `fast`."""
    on_data_loss: Literal["fail", "earliest", "latest"] = "fail"
    """If the log has lost what follows the checkpoint: `fail` stops the learner; `earliest` and
    `latest` resume at the start or end of the log, and the lineage records the gap."""
    security: Security | None = None


class OutputLog(SettingsModel):
    """A log that this service writes."""

    url: Address
    """The same forms as `source.url`."""
    security: Security | None = None
    """Default: the security of the source, if the source is Kafka too."""


class Drift(SettingsModel):
    detectors: tuple[SerializeAsAny[Detector], ...] = Field(
        default=("adwin",), validate_default=True
    )
    """Detectors that watch the error: each a kind, a shorthand such as `ddm:alarm=4` or a mapping.
    The list may be empty."""
    inputs: Inputs | None = Inputs()
    """Watch the distributions of features, labels and predictions; null switches this off."""
    on_error: tuple[Action, ...] = ()
    """Actions when a detector finds that the error rose. `boost`: the next events count more.
    `reset_scaler`: mean and deviation of every feature start again. An alarm is always noted."""
    on_inputs: tuple[Action, ...] = ()
    """Actions when the distribution of a feature, the labels or the predictions changed."""
    boost_factor: float = Field(default=4.0, gt=1.0, le=1000.0)
    """Factor by which `boost` multiplies the weight of events."""
    boost_events: int = Field(default=1000, ge=1, le=1_000_000)
    """Number of events that `boost` affects."""
    alarms: OutputLog | None = None
    """Log of the alarms. Default: `<source>.alarms`, unless the source is a file."""

    @field_validator("detectors", mode="before")
    @classmethod
    def _make_detectors(cls, value: object) -> object:
        if not isinstance(value, (list, tuple)):
            raise ValueError("detectors must be a list, such as [adwin]")
        return tuple(make_detector(spec) for spec in value)

    @field_validator("on_error", "on_inputs", mode="before")
    @classmethod
    def _check_list(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError(f"must be a list, such as [{value}]")
        return value

    @model_validator(mode="after")
    def _check_consistent(self) -> Self:
        kinds = [detector.kind for detector in self.detectors]
        if len(set(kinds)) != len(kinds):
            raise ValueError("detectors has a kind twice")
        for field in ("on_error", "on_inputs"):
            if len(set(getattr(self, field))) != len(getattr(self, field)):
                raise ValueError(f"{field} has an action twice")
        if self.on_error and not self.detectors:
            raise ValueError("on_error needs a detector")
        if self.on_inputs and self.inputs is None:
            raise ValueError("on_inputs needs inputs")
        return self

    @property
    def acts(self) -> bool:
        """Whether these settings influence what the model learns."""
        return bool(self.on_error or self.on_inputs)


class Backup(SettingsModel):
    """A second copy of the checkpoints, as files. It is read only when Redis is empty."""

    folder: Path
    interval_seconds: PositiveFloat = 60.0
    keep: int = Field(default=4, ge=1, le=1000)
    """Number of newest copies to keep."""


class StoreSettings(SettingsModel):
    url: Address
    """`redis[s]://[user@]host:port/db`, `redis[s]+cluster://host:port,host:port` or
    `redis[s]+sentinel://host:port,host:port/service/db`."""
    password: SecretStr | None = None
    password_file: Path | None = None
    """A file whose first line is the password."""
    ca_file: Path | None = None
    """With `rediss`: CA certificates for the server; without it the system's."""
    cert_file: Path | None = None
    key_file: Path | None = None
    lease_seconds: float = Field(default=10.0, ge=0.3, le=LONGEST_LEASE_SECONDS)
    """Seconds until another learner may take over from one that stopped answering."""
    backup: Backup | None = None


class CheckpointSettings(SettingsModel):
    """When a checkpoint is written, how many are kept, and when learning pauses without one."""

    interval_seconds: PositiveFloat = 1.0
    interval_events: PositiveInt = 100_000
    """A checkpoint is due after this many seconds or events, whichever comes first."""
    keep: int = Field(default=8, ge=1, le=1000)
    """Number of newest generations to keep in Redis."""
    keep_levels: int = Field(default=6, ge=0, le=16)
    """Number of levels of older generations to keep; each level is eight times sparser than the one
    before."""
    max_uncheckpointed_seconds: PositiveFloat = 60.0
    max_uncheckpointed_events: PositiveInt = 1_000_000
    """Without Redis, learning goes on for this many seconds or events, then pauses."""


class Tls(SettingsModel):
    """HTTPS. With `client_ca_file`, clients must present a certificate."""

    cert_file: FilePath
    key_file: FilePath
    client_ca_file: FilePath | None = None
    """CA certificates that sign the clients' certificates; without it clients need none."""


class Admin(SettingsModel):
    host: str = "127.0.0.1"
    port: int = Field(default=8002, ge=0, le=65535)


class Api(SettingsModel):
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    hosts: tuple[str, ...] = ()
    """Further host names, without a port, under which an API without keys answers. Loopback names,
    `host` and the address of the connection always answer. With keys every name does."""
    max_body_bytes: PositiveInt = 1_048_576
    """Bytes: the longest body of a request."""
    max_batch: PositiveInt = 1_000
    """Instances: the most in one /predict/batch."""
    max_in_flight: PositiveInt = 1_024
    """Requests at the same time; one more gets 503. Idle connections do not count."""
    header_seconds: float = Field(default=5.0, gt=0.0, le=3600.0)
    """Seconds to receive a request's headers, from the connection or from their first byte on."""
    body_seconds: float = Field(default=10.0, gt=0.0, le=3600.0)
    """Seconds to receive a request's body, from the end of its headers on."""
    idle_seconds: float = Field(default=75.0, gt=0.0, le=3600.0)
    """Seconds that a connection may stay open between two requests."""
    keys_file: Path | None = None
    """File of hashed keys, written by `onepass keys`. It is reloaded when it changes."""
    tls: Tls | None = None
    admin: Admin | None = None
    """A second port for freeze, unfreeze and rollback, for keys with the scope `admin`."""

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if invalid := [name for name in names if not HOST_NAME.fullmatch(name)]:
            raise ValueError(
                f"{invalid[0][:60]!r} is not a host name or address; give it without scheme and"
                " port"
            )
        return names

    @field_validator("keys_file")
    @classmethod
    def _check_keys_file(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            command = f"onepass keys new --file {path} --name app --scope predict"
            raise ValueError(f"no such file; create it with `{command}`")
        return path

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        address = (self.host, self.port)
        if self.admin is not None and address == (self.admin.host, self.admin.port) and self.port:
            raise ValueError("admin.port is the same as port: choose another port for admin")
        return self


class Settings(SettingsModel):
    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    """Name of the model in Redis keys and in the metric label `model`."""
    learner: SerializeAsAny[Learner]
    """A learner's configuration, or a shorthand such as `pa1:C=0.1`."""
    features: Features = Features()
    label: Label = Label()
    limits: Limits = Limits()
    source: SourceSettings
    dead_letters: OutputLog | None = None
    """Log of rejected events. Default: `<source>.dead`, unless the source is a file."""
    drift: Drift = Drift()
    store: StoreSettings
    checkpoint: CheckpointSettings = CheckpointSettings()
    api: Api = Api()
    max_feature_names: int = Field(default=65_536, ge=0, le=1_048_576)
    """Most names of hashed features to keep, so that explanations can name slots."""
    max_poll_records: int = Field(default=500, ge=1, le=100_000)
    """Most events between two checks of the stop signal, the clock and waiting requests."""

    @field_validator("learner", mode="before")
    @classmethod
    def _make_learner(cls, value: object) -> Learner:
        return make(value)
