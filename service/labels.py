"""Labels of events to numbers for the learner, and predictions back to labels.

Binary: +1 or −1. Growing: the index of the class in order of first appearance; the list is part of the checkpoint.
"""

import math

from service.settings import Label


class Labels:
    """The classes of one model; `names` grows with the events unless binary."""

    def __init__(self, settings: Label, names: list[str] | None = None) -> None:
        self._settings = settings
        self.names = list(names or [])
        self._index = {name: place for place, name in enumerate(self.names)}

    @property
    def binary(self) -> bool:
        return self._settings.classes == "binary"

    @property
    def most(self) -> int:
        """Classes that there can be."""
        return 2 if self.binary else self._settings.max_classes

    def wrong(self, names: list[str]) -> str:
        """Why these cannot be the classes of such a model; empty if they can."""
        most = 0 if self.binary else self._settings.max_classes
        if len(names) > most:
            return f"it has {len(names):,} classes, the configuration allows {most:,}"
        return "it has a class twice" if len(set(names)) < len(names) else ""

    def number(self, label: str) -> float | None:
        """What the learner learns with; None if the label is none of ours."""
        if not self.binary:
            return self._class(label)
        if self._settings.positive is None:
            return _sign(label)
        if label == self._settings.positive:
            return 1.0
        return -1.0 if self._settings.negative in {None, label} else None

    def taught(self, label: str | None, weight: float) -> float | None:
        """The number of an event's label. One of weight 0 changes nothing, so it brings no class into being either."""
        if label is None:
            return None
        return self.number(label) if weight else self.known_number(label)

    def known_number(self, label: str) -> float | None:
        """The same without a new class; one that is not known is no class at all."""
        return self.number(label) if self.binary or label in self._index else -1.0

    def _class(self, label: str) -> float | None:
        if label not in self._index:
            if len(self.names) == self._settings.max_classes:
                return None
            self._index[label] = len(self.names)
            self.names.append(label)
        return float(self._index[label])

    def label(self, prediction: int) -> str | int | None:
        """The label to answer with; None while no class has been seen."""
        if not self.binary:
            return self.names[prediction] if prediction >= 0 else None
        if self._settings.positive is None:
            return prediction
        if prediction > 0:
            return self._settings.positive
        return self._settings.negative or f"not {self._settings.positive}"


def _sign(label: str) -> float | None:
    """Without a named positive class: numbers above 0 and true are positive, the others negative, words neither."""
    if label in {"true", "false"}:
        return 1.0 if label == "true" else -1.0
    try:
        number = float(label)
    except ValueError:
        return None
    return None if math.isnan(number) else math.copysign(1.0, number) if number else -1.0
