"""Where a learner begins, and how a history that the store lost is restored from the files."""

import pytest

import service.checkpoint.lineage
from learners.registry import make
from service.checkpoint.lineage import Lineage, Recorder, history
from service.checkpoint.snapshot import encode
from service.checkpoint.store import InMemoryStore
from service.config.settings import Backup, Features, Label, Limits
from service.consumer.recovery import Recovery
from service.features.decoder import Decoder
from service.model.model import Model
from service.monitoring.metrics import Metrics, Registry
from service.sources.base import BEGINNING, Record
from service.storage.file_backup import FileBackup


class Emptied(InMemoryStore):
    """A store that has lost its segments."""

    def __init__(self):
        super().__init__()
        self.segments = {}

    def segment(self, name):
        return self.segments.get(name)


@pytest.fixture
def recorder(monkeypatch):
    """A history of two sealed segments and one entry, all of them in the store."""
    monkeypatch.setattr(service.checkpoint.lineage, "SEALED_AFTER", 2)
    made = Recorder(Lineage())
    for number in range(5):
        made.record_applied([Record(str(number % 2), str(number), str(number + 1), b"x")])
    made.mark_stored(made.lineage()[1])
    return made


def restart(store, backup):
    features, label = Features(bits=4), Label()
    model = Model(make("pa1"), features, label, Decoder(features, label, Limits()))
    return model, Recovery(model, store, backup, Metrics(Registry(), "m"))


def segments():
    """Return the segments of the same history."""
    again = Recorder(Lineage())
    for number in range(5):
        again.record_applied([Record(str(number % 2), str(number), str(number + 1), b"x")])
    return again.lineage()[1]


def test_lost_segments_are_restored_from_the_backup(recorder, tmp_path):
    folder = FileBackup(Backup(folder=tmp_path), "m")
    store = Emptied()
    model, begin = restart(store, folder)
    lineage, waiting = recorder.lineage()
    assert waiting == {}
    made = segments()
    folder.save(1, encode(model.snapshot(BEGINNING, lineage, whole=True)), made)
    begin.restore_lineage_segments(recorder)
    lineage, waiting = recorder.lineage()
    assert waiting.keys() == made.keys()
    assert len(list(history(lineage, waiting.get))) == 5


def test_without_a_backup_the_loss_is_logged(recorder, caplog):
    _, begin = restart(Emptied(), None)
    begin.restore_lineage_segments(recorder)
    assert "cannot reach the first event" in caplog.text
    assert recorder.lineage()[1] == {}


def test_segments_in_the_store_are_left_alone(recorder, caplog):
    store = Emptied()
    store.segments = segments()
    _, begin = restart(store, None)
    begin.restore_lineage_segments(recorder)
    assert caplog.text == ""
    assert recorder.lineage()[1] == {}


def test_without_a_checkpoint_the_model_starts_fresh():
    model, begin = restart(InMemoryStore(), None)
    model.rejects["type"] = 3
    assert begin.restore(None).bookmark == BEGINNING
    assert model.rejects == {}
