"""The form of a dashboard, as far as our dashboards use it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Strict(BaseModel):
    """Forbids unknown keys: Grafana silently ignores them, so only this form finds a
    misspelt key.
    """

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class Source(Strict):
    type: Literal["prometheus"]
    uid: Literal["prometheus"]


class Target(Strict):
    ref_id: str = Field(pattern="^[A-Z]$")
    expr: str
    legend_format: str = Field(min_length=1)
    instant: bool
    range: bool
    format: Literal["table"] | None = None


class Place(Strict):
    x: int = Field(ge=0)
    y: int = Field(ge=0)
    w: int = Field(ge=3)
    h: int = Field(ge=5)


class Step(Strict):
    color: str
    value: float | int | None


class Thresholds(Strict):
    mode: Literal["absolute"]
    steps: list[Step] = Field(min_length=1)


class Word(Strict):
    text: str
    color: str
    index: int


class Words(Strict):
    type: Literal["value"]
    options: dict[str, Word]


class Defaults(Strict):
    unit: str
    decimals: int | None = None
    min: int | None = None
    max: int | None = None
    color: dict[str, str] | None = None
    thresholds: Thresholds | None = None
    mappings: list[Words] = []
    no_value: str | None = None
    custom: dict[str, Any] = {}


class Property(Strict):
    id: Literal["color", "unit", "mappings", "custom.lineStyle"]
    value: Any


class Matcher(Strict):
    id: Literal["byName", "byRegexp", "byFrameRefID"]
    options: str


class Override(Strict):
    matcher: Matcher
    properties: list[Property] = Field(min_length=1)


class FieldConfig(Strict):
    defaults: Defaults
    overrides: list[Override]


class Panel(Strict):
    id: int
    type: Literal["stat", "bargauge", "timeseries", "table"]
    title: str = Field(min_length=1)
    description: str = Field(min_length=20)
    grid_pos: Place
    datasource: Source
    targets: list[Target] = Field(min_length=1)
    field_config: FieldConfig
    options: dict[str, Any]
    transformations: list[dict[str, Any]] = []


class VariableQuery(Strict):
    qry_type: Literal[1]
    query: str
    ref_id: str


class Variable(Strict):
    name: str
    label: str
    type: Literal["query"]
    datasource: Source
    definition: str
    query: VariableQuery
    refresh: Literal[2]
    sort: Literal[1]
    multi: Literal[True]
    include_all: Literal[True]
    all_value: Literal[".*"]
    current: dict[str, list[str]]


class Mark(Strict):
    name: str
    datasource: Source
    enable: Literal[True]
    hide: Literal[False]
    icon_color: str
    expr: str
    step: str
    title_format: str
    text_format: str
    tag_keys: str


class Link(Strict):
    type: Literal["dashboards"]
    title: str
    tags: list[str]
    as_dropdown: bool
    include_vars: Literal[True]
    keep_time: Literal[True]
    icon: str
    target_blank: bool
    url: str


class Board(Strict):
    """A dashboard without `id`, which belongs to the database of one Grafana."""

    uid: str = Field(pattern="^onepass-[a-z]+$")
    title: str
    description: str
    tags: list[str]
    schema_version: int = Field(ge=39)  # the schema of Grafana 11
    version: int
    editable: Literal[False]
    graph_tooltip: int
    refresh: str
    time: dict[str, str]
    timezone: str
    links: list[Link]
    templating: dict[Literal["list"], list[Variable]]
    annotations: dict[Literal["list"], list[Mark]]
    panels: list[Panel] = Field(min_length=1)
