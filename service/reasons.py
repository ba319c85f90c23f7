"""Why an event or a request is refused: a closed set of words, for metrics, dead letters and replies."""

from typing import NamedTuple

REASONS = {
    "malformed": "not a JSON object of the expected form",
    "too_long": "longer than the limit for an event, a name or a value",
    "too_many": "more features than the limit",
    "too_many_instances": "more instances than the limit for a batch",
    "type": "a feature must be a number, a string, a boolean or a list of strings, and a column a number",
    "range": "a number is not finite or beyond the limit",
    "unknown_feature": "a feature is not among the declared columns, and no hashed slots are configured",
    "unknown_field": "a field is not known here; /openapi.json has the form of a request",
    "weight": "weight must be a number of at least 0",
    "label": "the label is missing, of the wrong type or not one of the classes",
    "tree": "the tree is missing, is not one bracketed parse, or has more inner nodes or text than the limit",
    "numeric": "the row is beyond what the learner can take",
    "negative": "the learner takes no negative values",
}
"""Every reason for which an event is rejected, in words; the last two are the learner's."""


class Reject(NamedTuple):
    """Why bytes are no event."""

    reason: str
    place: int | None = None
    """Of the wrong one among several, from 0."""
    character: int | None = None
    """Of the tree, from 0, at which it is wrong."""

    @property
    def message(self) -> str:
        """The reason in words, without a word of the input."""
        where = "" if self.place is None else f"instance {self.place}: "
        at = "" if self.character is None else f"; it is wrong at character {self.character}"
        return where + REASONS[self.reason] + at
