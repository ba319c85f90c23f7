"""The requests that are being answered now, over all connections of a server."""

from collections.abc import Callable


def nothing() -> None:
    pass


class Flights:
    """Counted by the protocol; `on_start` and `on_end` are told of each whose body was there when it began."""

    def __init__(
        self,
        most: int,
        refused: Callable[[str], None],
        on_start: Callable[[], None] = nothing,
        on_end: Callable[[], None] = nothing,
    ) -> None:
        self.most, self.refused, self.on_start, self.on_end = most, refused, on_start, on_end
        self.open = 0
