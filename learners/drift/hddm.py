"""What the two tests of HDDM share. Frías-Blanco et al., Hoeffding's bounds, IEEE TKDE 2015."""

from typing import Self

from pydantic import Field, model_validator

from learners.drift.detector import Detector


class Hddm(Detector):
    """Both compare a mean with its lowest bound so far, one with all values alike, one with means that forget."""

    alpha_d: float = Field(default=0.001, gt=0.0, lt=1.0)
    """α_D: chance of a false alarm at a value."""
    alpha_w: float = Field(default=0.005, gt=0.0, lt=1.0)
    """α_W: chance of a false warning at a value."""
    two_sided: bool = False
    """Look for a fall of the mean too."""

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.alpha_w < self.alpha_d:
            raise ValueError("a warning comes before an alarm: alpha_w must not be below alpha_d")
        return self
