"""Settings of one model's service: frozen, every field documented below it, unknown keys refused."""

from pathlib import Path
from typing import Literal, Self

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    SerializeAsAny,
    field_validator,
    model_validator,
)

from learners.learner import Learner
from learners.registry import make
from service.api_settings import Api
from service.drift_settings import Drift
from service.groups import Group
from service.log_settings import Address, SideLog, SourceSettings

RESERVED = {"features", "id", "ts", "weight"}
"""Fields of an event that have their own meaning."""


class Features(Group):
    columns: tuple[str, ...] = ()
    """Dense, collision-free slots by name; a column not in an event is 0."""
    text: tuple[str, ...] = ()
    """Fields whose text is split into lower-cased words and counted."""
    ngrams: int = Field(default=1, ge=1, le=5)
    """Longest run of words of a text field that is a feature of its own."""
    bits: int = Field(default=18, ge=0, le=28)
    """Every other feature is hashed into 2^bits slots; 0: no such slots, an event with another feature is rejected."""
    bias: bool = True
    """A constant feature 1 in slot 0."""
    flat: bool = False
    """The feature fields lie beside the label in one flat object, instead of inside `features`."""
    tree: str | None = Field(default=None, min_length=1)
    """The event's field, beside the label, that has a bracketed parse for a tree kernel; an event without is rejected.
    With bits: 0 and no columns nothing but the tree is looked at."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("columns has a name twice")
        if both := set(self.columns) & set(self.text):
            raise ValueError(f"a field is a column or text, not both: {', '.join(sorted(both))}")
        if self.bits == 0 and not self.columns and self.tree is None:
            raise ValueError("bits: 0 leaves no feature at all; declare columns or set bits")
        if self.tree in RESERVED:
            raise ValueError(f"an event has its own field '{self.tree}'; name another for the tree")
        if self.flat and self.tree in {*self.columns, *self.text}:
            raise ValueError(f"a field is a feature or the tree, not both: {self.tree}")
        if self.flat and {"id", "ts", "weight"} & {*self.columns, *self.text}:
            raise ValueError("id, ts and weight of a flat event are not features")
        if self.bits == 0 and self.text:
            raise ValueError("text features are hashed: set bits above 0")
        return self


class Label(Group):
    field: str = "label"
    """The event's field that carries the label."""
    positive: str | None = None
    """The label of the positive class; without it the sign of a number (or true/false) decides."""
    negative: str | None = Field(default=None, min_length=1)
    """The only other label; without it every other label is the negative class."""
    classes: Literal["binary", "grow"] = "binary"
    """`grow`: one-vs-rest over classes as they appear."""
    max_classes: int = Field(default=64, ge=2, le=65536)
    """With `grow`: an event of one class more is rejected."""

    @field_validator("positive", "negative", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return canonical_label(value) if isinstance(value, (bool, int, float)) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.field in RESERVED:
            raise ValueError(f"an event has its own field '{self.field}'; name another for the label")
        if self.classes == "grow" and (self.positive or self.negative):
            raise ValueError("classes: grow has no positive or negative class; remove one of the two")
        if self.negative is not None and self.positive is None:
            raise ValueError("negative needs positive")
        if self.negative is not None and self.negative == self.positive:
            raise ValueError("positive and negative are the same label")
        return self


def canonical_label(value: bool | float | str) -> str:
    """One spelling per label, so that 1, 1.0 and "1" are the same class in YAML, JSON and CSV."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


class Limits(Group):
    """What an event may be at most; beyond it, it is rejected."""

    max_bytes: PositiveInt = 1_048_576
    max_features: PositiveInt = 10_000
    max_name: PositiveInt = 256
    """Characters of a feature name, a categorical value or a label."""
    max_abs: float = Field(default=1e100, gt=0.0, le=1e100)
    """Far enough from the largest float that values which meet in a slot stay finite."""
    max_nodes: int = Field(default=256, ge=1, le=4096)
    """Inner nodes of a tree; comparing two of them can take the product of theirs."""


class Copies(Group):
    """A second copy of the checkpoints, as files; read only when Redis is found empty."""

    folder: Path
    every_seconds: PositiveFloat = 60.0
    keep: int = Field(default=4, ge=1, le=1000)


class StoreSettings(Group):
    url: Address
    """`redis[s]://[user@]host:port/db`, `redis[s]+cluster://host:port,host:port` or
    `redis[s]+sentinel://host:port,host:port/service/db`."""
    password: SecretStr | None = None
    password_file: Path | None = None
    """A file whose first line is the password."""
    ca_file: Path | None = None
    """With `rediss`: certificates that the server's own must lead to; without it those of the system."""
    cert_file: Path | None = None
    key_file: Path | None = None
    every_seconds: PositiveFloat = 1.0
    every_events: PositiveInt = 100_000
    keep: int = Field(default=8, ge=1, le=1000)
    """Newest generations that stay in Redis."""
    keep_older: int = Field(default=6, ge=0, le=16)
    """Levels of older ones beside them, each eight times as far apart as the one before."""
    lease_seconds: float = Field(default=10.0, ge=0.3, le=300.0)
    """How long a learner that fell silent keeps others waiting."""
    max_unsaved_seconds: PositiveFloat = 60.0
    max_unsaved_events: PositiveInt = 1_000_000
    """While Redis is away learning goes on for so long or so many events, then it pauses."""
    copies: Copies | None = None


class Settings(Group):
    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    """Redis keys, metric label `model`."""
    learner: SerializeAsAny[Learner]
    """A learner's configuration, or a shorthand such as `pa1:C=0.1`."""
    features: Features = Features()
    label: Label = Label()
    limits: Limits = Limits()
    source: SourceSettings
    dead_letters: SideLog | None = None
    """Where rejected events are kept; left out: beside the source, if that is no file."""
    drift: Drift = Drift()
    store: StoreSettings
    api: Api = Api()
    names: int = Field(default=65_536, ge=0, le=1_048_576)
    """Names of hashed features that are kept with the model, so that explanations can name slots; 0 keeps none."""
    poll_records: int = Field(default=500, ge=1, le=100_000)
    """Most events learned between two looks at the stop signal, the clock and waiting predictions."""

    @field_validator("learner", mode="before")
    @classmethod
    def _make(cls, value: object) -> Learner:
        return make(value)
