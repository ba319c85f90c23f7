"""One piece of work in a thread of its own, which never keeps the process from ending."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Started at once; its result, or what it raised, is there when it is done."""

    def __init__(self, name: str, work: Callable[[], T]) -> None:
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._result: T
        self._error: BaseException | None = None
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Whether it was done within this time."""
        self._thread.join(min(max(0.0, seconds), threading.TIMEOUT_MAX))
        return self.done

    def result(self) -> T:
        """Of work that is done."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            self._error = error
