"""The reasons to reject an event or a request, as used in metrics, dead letters and replies."""

from typing import NamedTuple

REASONS = {
    "malformed": "not a JSON object of the expected form",
    "too_long": "longer than the limit for an event, a name or a value",
    "too_many": "more features than the limit",
    "too_many_instances": "more instances than the limit for a batch",
    "type": (
        "a feature must be a number, a string, a boolean or a list of strings, "
        "and a column a number"
    ),
    "range": "a number is not finite or beyond the limit",
    "unknown_feature": (
        "a feature is not among the declared columns, and no hashed slots are configured"
    ),
    "unknown_field": "a field is not known here; /openapi.json has the form of a request",
    "weight": "weight must be a number of at least 0",
    "label": "the label is missing, of the wrong type or not one of the classes",
    "tree": (
        "the tree is missing, is not one bracketed parse, "
        "or has more inner nodes or text than the limit"
    ),
    "numeric": "the row or its weight is out of the range in which the learner can compute",
    "negative": "the learner takes no negative values",
}
"""Each reason and its message. The last two come from the learner."""


class Reject(NamedTuple):
    """Why bytes are not a valid event."""

    reason: str
    place: int | None = None
    """Index of the wrong instance, from 0, if there are several."""
    character: int | None = None
    """Index of the wrong character of a tree, from 0."""

    @property
    def message(self) -> str:
        """The message to a client. It contains no text of the input."""
        where = "" if self.place is None else f"instance {self.place}: "
        at = "" if self.character is None else f"; it is wrong at character {self.character}"
        return where + REASONS[self.reason] + at
