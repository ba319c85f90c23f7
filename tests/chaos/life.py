"""A model's whole life under faults: a log that is fed, processes that start and die, and at the
end the proof.

The proof: the newest checkpoint has the same bits as one quiet pass over the same messages, and its
state shows that every serial was counted once and every bad message rejected once.
"""

import json
import signal
from itertools import count

import yaml

from learners.evaluation.calibration import calibration_error, restore_calibration
from service.checkpoint.store import StoreUnavailableError
from service.config.settings import StoreSettings
from service.sources import create_log, open_sink
from service.sources.base import Entry
from service.storage import RedisStore
from tests.chaos.events import MODEL, make_messages, read_tally, tally
from tests.integration.processes import Process, free_port
from tests.waiting import wait_for
from tests.zygote import Fork

LEASE_SECONDS = 0.5
"""Seconds; short, so that the successor of a killed learner need not wait. A busy machine may lose
so short a lease by accident; that changes nothing while no other learner takes it.
"""
SLICE = 1000
BATCH = 1000
END_SECONDS = 120.0
SAME = ("events", "errors", "updates", "rejects", "rejects_by_reason")


class Life:
    """One model, its log and its processes."""

    def __init__(
        self,
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
        self.log, self.store, self.name, self.folder = log, store, name, folder
        self.messages = []
        self.mark = 0
        """Events in the newest checkpoint at the last feed or start."""
        self._numbers = count(1)
        self._processes = []
        self._settings = {
            "name": name,
            **MODEL,
            "source": {"url": log},
            # Small rounds and many checkpoints: a kill at any time hits a step of some checkpoint.
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
        self.append(make_messages(len(self.messages) + 1, messages))

    def append(self, messages):
        """Append messages with a new client: an open one would still back off after a killed broker
        is back.
        """
        self.mark = self.events()
        sink = open_sink(self.log)
        entries = [Entry(message, b"%d" % place) for place, message in enumerate(messages)]
        for first in range(0, len(entries), BATCH):
            sink.append(entries[first : first + BATCH])
        sink.close()
        self.messages += messages

    def config(self, client="kafka-python"):
        """Write a new configuration file of the model, with a free port."""
        config = self.folder / f"{self.name}-{next(self._numbers)}.yaml"
        own = {
            "source": {**self._source, "client": client},
            "store": self._store,
            "api": {"port": free_port()},
        }
        config.write_text(yaml.safe_dump({**self._settings, **own}))
        return config

    def start(self, role="learn", *flags, failpoint="", client="kafka-python", **world):
        """Start one more process of the model; `world` is passed to `Zygote.fork`."""
        self.mark = self.events()
        process = Process([role, *flags], self.config(client), failpoint, **world)
        self._processes.append(process)
        return process

    def newest(self):
        return self._reading.newest()

    def generations(self):
        """Return every manifest that the store has now, newest first."""
        return self._reading.generations()

    def events(self):
        """Return the events in the newest checkpoint."""
        newest = self.newest()
        return newest.events if newest else 0

    def advance(self, least=1):
        """Wait for a checkpoint with `least` events more than at the last feed or start."""
        goal = self.mark + least
        return wait_for(lambda: self._has(goal), f"a checkpoint of {goal} events of {self.name}")

    def catch_up(self):
        """Wait until all fed events are in a checkpoint."""
        goal = tally(self.messages)["events"]
        return wait_for(
            lambda: self._has(goal), f"{goal} events of {self.name} in a checkpoint", END_SECONDS
        )

    def _has(self, events):
        """Whether the newest checkpoint has this many events. Fail if every process has ended
        before.
        """
        try:
            if self.events() >= events:
                return True
        except StoreUnavailableError:
            return False
        ended = [process for process in self._processes if process.status is not None]
        assert len(ended) < len(self._processes) or not ended, (
            f"every process has ended: {ended[-1].said()}"
        )
        return False

    def snapshot(self):
        return self._reading.read(self.newest()).with_digest()

    def finish(self):
        """Let a last process learn the rest, and return its status."""
        process = self.start("learn", "--until-end")
        status = process.ended()
        assert status == 0, f"the last process ended with {status}: {process.said()}"
        return json.loads(process.output.read_text())

    def prove(self):
        """Finish, and compare with a quiet pass; only for a log of one partition."""
        final = self.finish()
        self.check_counts(final)
        quiet = self.replay(self.messages)
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

    def replay(self, messages):
        """Return the status after one quiet pass over the messages."""
        data = self.folder / f"{self.name}.jsonl"
        data.write_bytes(b"\n".join(messages) + b"\n")
        config = self.folder / f"{self.name}-quiet.yaml"
        config.write_text(
            yaml.safe_dump({**self._settings, "store": {"url": "redis://127.0.0.1:1/0"}})
        )
        return self._command("quiet", ["replay", data, "--config", config, "--json"])

    def check_reads_a_prefix(self):
        """The newest checkpoint has learned a prefix of the messages, and nothing else."""
        snapshot = self.snapshot()
        read = snapshot.events + sum(snapshot.rejects.values())
        assert read_tally(snapshot) == tally(self.messages[:read])

    def check_counts(self, final):
        assert final["lag"] == 0
        assert read_tally(self.snapshot()) == tally(self.messages)

    def prove_by_lineage(self):
        """Finish, and let `onepass audit` rebuild the model in the order that the checkpoint
        records. Return its runs.
        """
        final = self.finish()
        self.check_counts(final)
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
        assert Fork(arguments, output, errors).ended() == 0, errors.read_text()[-2000:]
        return json.loads(output.read_text())
