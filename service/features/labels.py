"""Convert labels of events to numbers for the learner, and predictions back to labels.

Binary labels become +1 or −1. Growing classes become their index in order of first appearance, and
the checkpoint holds the list of classes.
"""

import math

from service.config.settings import Label


class Labels:
    """The classes of one model. Unless binary, `names` grows with the events."""

    def __init__(self, settings: Label, names: list[str] | None = None) -> None:
        self._settings = settings
        self.names = list(names or [])
        self._index = {name: place for place, name in enumerate(self.names)}

    @property
    def binary(self) -> bool:
        return self._settings.classes == "binary"

    @property
    def most(self) -> int:
        """The largest number of classes."""
        return 2 if self.binary else self._settings.max_classes

    def why_invalid(self, names: list[str]) -> str:
        """Say why these names cannot be the classes of this model. Empty if they can."""
        most = 0 if self.binary else self._settings.max_classes
        if len(names) > most:
            return f"it has {len(names):,} classes, the configuration allows {most:,}"
        return "it has a class twice" if len(set(names)) < len(names) else ""

    def number(self, label: str) -> float | None:
        """Number of a label for the learner. None if the label is not one of the classes."""
        if not self.binary:
            return self._class(label)
        if self._settings.positive is None:
            return _sign(label)
        if label == self._settings.positive:
            return 1.0
        return -1.0 if self._settings.negative in {None, label} else None

    def training_number(self, label: str | None, weight: float) -> float | None:
        """Number of an event's label. An event of weight 0 changes nothing, so it adds no class."""
        if label is None:
            return None
        return self.number(label) if weight else self.known_number(label)

    def known_number(self, label: str) -> float | None:
        """Number of a label without adding a class. An unknown class is −1."""
        return self.number(label) if self.binary or label in self._index else -1.0

    def _class(self, label: str) -> float | None:
        if label not in self._index:
            if len(self.names) == self._settings.max_classes:
                return None
            self._index[label] = len(self.names)
            self.names.append(label)
        return float(self._index[label])

    def label(self, prediction: int) -> str | int | None:
        """Label of a prediction. None if there is no class yet."""
        if not self.binary:
            return self.names[prediction] if prediction >= 0 else None
        if self._settings.positive is None:
            return prediction
        if prediction > 0:
            return self._settings.positive
        return self._settings.negative or f"not {self._settings.positive}"


def _sign(label: str) -> float | None:
    """Sign of a label if no positive class is named.

    Numbers above 0 and `true` are positive, other numbers and `false` negative. A word is neither.
    """
    if label in {"true", "false"}:
        return 1.0 if label == "true" else -1.0
    try:
        number = float(label)
    except ValueError:
        return None
    return None if math.isnan(number) else math.copysign(1.0, number) if number else -1.0
