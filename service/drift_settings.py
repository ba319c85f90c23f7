"""Settings of what watches for drift, and of what is done about it."""

from typing import Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from learners.drift.detector import Detector
from learners.drift.inputs import Inputs
from learners.drift.registry import make_detector
from service.groups import Group
from service.log_settings import SideLog

Action = Literal["raise", "reset_scaler"]


class Drift(Group):
    detectors: tuple[SerializeAsAny[Detector], ...] = Field(default=("adwin",), validate_default=True)
    """On the error: each a kind, a shorthand such as `ddm:alarm=4` or a mapping; none is fine."""
    inputs: Inputs | None = Inputs()
    """The distributions of features, labels and predictions; null: not watched."""
    on_error: tuple[Action, ...] = ()
    """Done, beside noting it, when the error has risen. `raise`: the next events count more; `reset_scaler`: mean and
    deviation of every feature begin anew."""
    on_inputs: tuple[Action, ...] = ()
    """The same when a feature, the labels or the predictions have moved."""
    raise_by: float = Field(default=4.0, gt=1.0, le=1000.0)
    """What `raise` multiplies the importance of events with."""
    raise_for: int = Field(default=1000, ge=1, le=1_000_000)
    """How many events that lasts."""
    alarms: SideLog | None = None
    """Where every alarm is appended, as an event of its own; left out: beside the source, if that is no file."""

    @field_validator("detectors", mode="before")
    @classmethod
    def _make(cls, value: object) -> object:
        if not isinstance(value, (list, tuple)):
            raise ValueError("detectors is a list, such as [adwin]")
        return tuple(make_detector(spec) for spec in value)

    @field_validator("on_error", "on_inputs", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError(f"is a list, such as [{value}]")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        kinds = [detector.kind for detector in self.detectors]
        if len(set(kinds)) != len(kinds):
            raise ValueError("a kind of detector stands there twice")
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
        """Whether what is learned depends on these settings."""
        return bool(self.on_error or self.on_inputs)
