"""What every group of settings shares: frozen, unknown keys refused, numbers finite."""

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True, allow_inf_nan=False)
