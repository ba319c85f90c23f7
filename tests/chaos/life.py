"""A model's whole life under faults: a log that is fed, processes that come and go, and at the end
the proof.

The proof: the newest checkpoint has the same bits as one quiet pass over the same messages, and it
tells by itself that every serial was counted once and every bad message rejected once.
"""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from itertools import count

import yaml

from learners.evaluation.calibration import calibration_error, restore_calibration
from service.checkpoint.store import StoreUnavailableError
from service.config.settings import StoreSettings
from service.sources import create_log, open_sink
from service.sources.base import Entry
from service.storage import RedisStore
from tests.chaos.events import MODEL, counted, mixed, tally
from tests.integration.processes import Http, free_port, wait_for

LEASE_SECONDS = 0.5
SLICE = 1000
BATCH = 1000
START_SECONDS = 30.0
END_SECONDS = 120.0
SAME = ("events", "errors", "updates", "rejects", "rejects_by_reason")


class Learner(Http):
    """One process of the model."""

    def __init__(self, zygote, arguments, config, failpoint="", **world):
        self._zygote = zygote
        self.port = yaml.safe_load(config.read_text())["api"]["port"]
        self.log = config.with_suffix(".log")
        self.output = config.with_suffix(f".{time.monotonic_ns()}.out")
        self.pid = zygote.fork(
            [*arguments, "--config", config], self.output, self.log, failpoint, **world
        )
        self._status = None

    @property
    def status(self):
        """None while it runs, then the exit status, negative for a signal."""
        if self._status is None:
            self._status = self._zygote.status(self.pid)
        return self._status

    def signal(self, number):
        if self.status is None:
            os.kill(self.pid, number)

    def ended(self, seconds=END_SECONDS):
        """Wait for the end; the exit status."""
        wait_for(
            lambda: self.status is not None,
            seconds,
            f"process {self.pid} ends; it logs to {self.log}",
        )
        return self.status

    def said(self):
        """The end of its log."""
        return self.log.read_text()[-2000:]

    def kill(self):
        self.signal(signal.SIGKILL)
        return self.ended(10)

    def metrics(self):
        """Every series of ours by name and labels without the model, e.g.
        `events_total{result="learned"}`.
        """
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/metrics", timeout=10
            ) as reply:
                lines = reply.read().decode().splitlines()
        except (OSError, urllib.error.HTTPError):
            return {}
        series = (
            line.removeprefix("onepass_").rpartition(" ")
            for line in lines
            if line.startswith("onepass_")
        )
        return {_short(name): float(value) for name, _, value in series}


class Life:
    """One model, its log and its processes."""

    def __init__(
        self,
        zygote,
        folder,
        log,
        store,
        name,
        *,
        store_settings=None,
        source_settings=None,
        checkpoint=None,
        **changes,
    ):
        self.log, self.name, self.folder = log, name, folder
        self.messages = []
        self._mark = 0
        self._zygote = zygote
        self._numbers = count(1)
        self._processes = []
        self._settings = {
            "name": name,
            **MODEL,
            "source": {"url": log},
            # Small rounds and many checkpoints: a kill at any time meets some step of one.
            "max_poll_records": 20,
            **changes,
        }
        self._settings["checkpoint"] = {"interval_seconds": 0.05, "interval_events": 500} | (
            checkpoint or {}
        )
        self._source = {**self._settings["source"], **(source_settings or {})}
        self._store = {"url": store, "lease_seconds": LEASE_SECONDS, **(store_settings or {})}
        self._reading = RedisStore(StoreSettings(url=store), name)
        folder.mkdir(parents=True, exist_ok=True)
        create_log(log)

    def feed(self, messages=SLICE):
        """Append the next messages of the stream to the log."""
        self.append(mixed(len(self.messages) + 1, messages))

    def append(self, messages):
        """By a client of its own: one kept open would still be backing off when a killed broker is
        there again.
        """
        self._mark = self.events()
        sink = open_sink(self.log)
        entries = [Entry(message, b"%d" % place) for place, message in enumerate(messages)]
        for first in range(0, len(entries), BATCH):
            sink.append(entries[first : first + BATCH])
        sink.close()
        self.messages += messages

    def config(self, client="kafka-python"):
        """A new file of the model's configuration, with a port of its own."""
        config = self.folder / f"{self.name}-{next(self._numbers)}.yaml"
        own = {
            "source": {**self._source, "client": client},
            "store": self._store,
            "api": {"port": free_port()},
        }
        config.write_text(yaml.safe_dump({**self._settings, **own}))
        return config

    def start(self, role="learn", *flags, failpoint="", client="kafka-python", **world):
        """One more process of the model; `world` is what `Zygote.fork` takes."""
        self._mark = self.events()
        process = Learner(self._zygote, [role, *flags], self.config(client), failpoint, **world)
        self._processes.append(process)
        return process

    def newest(self):
        return self._reading.newest()

    def generations(self):
        """Every manifest that the store has now, newest first."""
        return self._reading.generations()

    def events(self):
        """Events in the newest checkpoint."""
        newest = self.newest()
        return newest.events if newest else 0

    def advances(self, least=1, seconds=START_SECONDS):
        """Wait for a checkpoint of `least` events more than there were at the last feed or
        start.
        """
        goal = self._mark + least
        return wait_for(
            lambda: self._has(goal), seconds, f"a checkpoint of {goal} events of {self.name}"
        )

    def caught_up(self, seconds=END_SECONDS):
        """Wait until everything that was fed is in a checkpoint."""
        goal = tally(self.messages)["events"]
        return wait_for(
            lambda: self._has(goal), seconds, f"{goal} events of {self.name} in a checkpoint"
        )

    def _has(self, events):
        """Whether the newest checkpoint has so many; a model of which every process has ended will
        never have more.
        """
        try:
            if self.events() >= events:
                return True
        except StoreUnavailableError:
            return False
        ended = [process for process in self._processes if process.status is not None]
        assert len(ended) < len(self._processes) or not ended, (
            f"it ended by itself: {ended[-1].said()}"
        )
        return False

    def snapshot(self):
        return self._reading.read(self.newest()).with_digest()

    def finish(self):
        """A last process learns what is left; its status."""
        process = self.start("learn", "--until-end")
        status = process.ended()
        assert status == 0, f"the last process ended with {status}: {process.said()}"
        return json.loads(process.output.read_text())

    def prove(self):
        """Finish, and compare with a quiet pass; only for a log of one partition."""
        final = self.finish()
        self.counts_are_exact(final)
        quiet = self.replayed(self.messages)
        assert {key: final[key] for key in SAME} == {key: quiet[key] for key in SAME}
        snapshot = self.snapshot()
        assert snapshot.state_digest == quiet["state_digest"]
        arrays = {
            n.removeprefix("calibration/"): a
            for n, a in snapshot.arrays.items()
            if n.startswith("calibration/")
        }
        assert (
            calibration_error(restore_calibration(arrays)) == quiet["quality"]["calibration_error"]
        )

    def replayed(self, messages):
        """What one quiet pass over messages gives."""
        data = self.folder / f"{self.name}.jsonl"
        data.write_bytes(b"\n".join(messages) + b"\n")
        config = self.folder / f"{self.name}-quiet.yaml"
        config.write_text(
            yaml.safe_dump({**self._settings, "store": {"url": "redis://127.0.0.1:1/0"}})
        )
        return self._command("quiet", ["replay", data, "--config", config, "--json"])

    def counts_are_exact(self, final):
        assert final["lag"] == 0
        assert counted(self.snapshot()) == tally(self.messages)

    def prove_by_lineage(self):
        """Finish, and let `onepass audit` build the model again in the order that the checkpoint
        tells; its runs.
        """
        final = self.finish()
        self.counts_are_exact(final)
        again = self._command("lineage", ["audit", "--json", "--config", self.config()])
        assert again["identical"]
        assert again["records"] == len(self.messages)
        assert again["rebuilt"]["state_digest"] == self.snapshot().state_digest
        return again["runs"]

    def close(self):
        """End every process; may be called twice."""
        for process in self._processes:
            process.signal(signal.SIGCONT)
            process.kill()
        self._reading.close()

    def _command(self, name, arguments):
        output, errors = (
            self.folder / f"{self.name}-{name}.out",
            self.folder / f"{self.name}-{name}.err",
        )
        pid = self._zygote.fork(arguments, output, errors)
        statuses = []
        wait_for(
            lambda: statuses.append(self._zygote.status(pid)) or statuses[-1] is not None,
            END_SECONDS,
            name,
        )
        assert statuses[-1] == 0, errors.read_text()[-2000:]
        return json.loads(output.read_text())


def _short(name):
    series, _, labels = name.partition("{")
    kept = [
        label
        for label in labels.removesuffix("}").split(",")
        if label and not label.startswith("model=")
    ]
    return series + (f"{{{','.join(kept)}}}" if kept else "")
