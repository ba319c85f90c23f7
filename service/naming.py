"""The names of one request's own features by slot: read by the very decoder, so that they cannot skew."""

import copy
from typing import NamedTuple

from learners.hashing import SlotTable
from service.events import Decoder, Event
from service.reasons import Reject


class Named(NamedTuple):
    """A request, and the names that fell into each of its hashed slots, in their order."""

    event: Event
    names: dict[int, dict[str, None]]
    """Of each slot in the order of their coming; a dictionary, since a hostile request has very many in one slot."""


def named_instance(decoder: Decoder, data: bytes) -> Named | Reject:
    """`Decoder.instance`, and the names of what it hashed."""
    listening = _Listening(decoder.slots)
    reader = copy.copy(decoder)
    reader.slots = listening
    event = reader.instance(data)
    return event if isinstance(event, Reject) else Named(event, listening.names)


class _Listening(SlotTable):
    """A table that shares all it has with another, and hears every name."""

    def __init__(self, other: SlotTable) -> None:
        self.__dict__.update(other.__dict__)
        self.names: dict[int, dict[str, None]] = {}

    def hashed(self, name: str) -> int:
        slot = super().hashed(name)
        self.names.setdefault(slot, {})[name] = None
        return slot
