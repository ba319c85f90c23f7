"""A model that has learned a file in several generations, in a real Redis, as an
operator finds it.
"""

import gc
import json
import sys

import yaml

from service.checkpoint.lineage import Lineage, Recorder
from service.config.loader import load
from service.features.decoder import Decoder, Event
from service.features.reject import Reject
from service.model.model import Model
from service.sources.base import Bookmark
from service.sources.file import FileSource
from service.sources.urls import log_name
from service.storage import RedisStore
from tests.service.cli.command_line import run_command


def events(count):
    """Return events from plain arithmetic; every twentieth is invalid."""
    lines = [
        json.dumps(
            {
                "features": {"size": n * 37 % 11 - 5, "colour": "rgb"[n % 3]},
                "label": ("ham", "spam")[n % 5 % 2],
            }
        )
        for n in range(count)
    ]
    return ["no json" if n % 20 == 7 else line for n, line in enumerate(lines)]


def learn_to_end(capsys, config):
    """Run `onepass learn` to the present end of the log, in this process; undo how the command
    tunes the process.
    """
    interval = sys.getswitchinterval()
    try:
        status, out, err = run_command(capsys, "learn", "--until-end", "--config", config)
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
    assert status == 0, err
    return json.loads(out)


class World:
    """Learns step by step as a learner would, so that every generation is known; the model is large
    enough for deltas.
    """

    def __init__(self, folder, redis_url, count=400, **changes) -> None:
        self.path = folder / "events.jsonl"
        self.path.write_text("\n".join(events(count)) + "\n")
        self.config = folder / "m.yaml"
        self.values = {
            "name": "m",
            "learner": "pa1:C=0.1",
            "features": {"columns": ["size"], "bits": 17},
            "label": {"positive": "spam", "negative": "ham"},
            "source": {"url": f"file://{self.path}"},
            "store": {"url": redis_url},
        } | changes
        self.config.write_text(yaml.safe_dump(self.values))
        self.settings = load(self.config, {})
        self.log = log_name(self.settings.source.url)
        self.store = RedisStore(self.settings.store, "m")
        self.begin()

    def begin(self):
        """Restore as a learner does when it starts."""
        settings = self.settings
        self.decoder = Decoder(settings.features, settings.label, settings.limits)
        self.model = Model(settings.learner, settings.features, settings.label, self.decoder)
        self.source = FileSource(self.path)
        self.store.acquire()
        found = self.store.load()
        self.recorder = Recorder(found.snapshot.lineage if found else Lineage())
        if found:
            self.model.restore(found.snapshot)
            positions = {
                key.rpartition("/")[2]: at for key, at in found.snapshot.bookmark.positions.items()
            }
            self.source.seek(Bookmark(positions, found.snapshot.bookmark.marks))
        self.recorder.set_starts(self.source.bookmark().positions)
        return found

    def learn(self, count):
        """Learn this many records into a new generation."""
        records = self.source.poll(0, count)
        assert len(records) == count
        decoded = [self.decoder.event(record.value) for record in records]
        self.model.learn([event for event in decoded if isinstance(event, Event)])
        self.model.count_rejects([event.reason for event in decoded if isinstance(event, Reject)])
        self.recorder.record_applied(records)
        lineage, segments = self.recorder.lineage()
        bookmark = self.source.bookmark().qualified(self.log)
        snapshot = self.model.snapshot(bookmark, lineage, whole=self.store.wants_whole)
        return self.store.save(snapshot, segments)

    def close(self):
        self.source.close()
        self.store.close()
