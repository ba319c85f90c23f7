"""Run `onepass demo` as its users do."""

import re
import signal

from service.embedded.process import free_port
from tests.integration.processes import Http
from tests.waiting import wait_for
from tests.zygote import START_SECONDS, Fork


class Demo(Http, Fork):
    """A demo that has printed its address, which it does once it is ready."""

    def __init__(self, folder, *flags, port=None):
        self.port = port or free_port()
        self.log, self._output = folder / "demo.log", folder / "demo.out"
        words = ["demo", "--port", self.port, "--dir", folder / "demo", *flags]
        self._output.touch()
        super().__init__(words, self._output, self.log)
        said = wait_for(self._said, "the demo prints its address, or ends", START_SECONDS)
        told = re.search(r"(\S+) -> learner -> .*\n", said)
        assert told, self.log.read_text()
        self.stream = told[1]
        self.home = f"http://127.0.0.1:{self.port}/"

    def _said(self):
        ended = self.status is not None
        said = self._output.read_text()
        return said if "\n" in said or ended else None

    def events(self):
        """Return the events learned so far."""
        return (self.get("/status")[1] or {"events": 0})["events"]

    def stop(self):
        """Send SIGTERM; return the exit status and the words of the last line."""
        self.signal(signal.SIGTERM)
        return self.ended(), summary(self._output.read_text())


def summary(output):
    return output.strip().splitlines()[-1].replace(",", "").split()
