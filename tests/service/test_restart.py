"""Where a learner begins; and history that the store lost, brought back from the files."""

import pytest

import service.lineage
from learners.registry import make
from service.checkpoints import Remembered
from service.copies import CopyFolder
from service.events import Decoder
from service.health import Health
from service.lineage import Lineage, Recorder, history
from service.metrics import Metrics, Registry
from service.model import Model
from service.restart import Restart
from service.settings import Copies, Features, Label, Limits
from service.snapshot import encode
from service.sources.contract import BEGINNING, Record


class Emptied(Remembered):
    """A store that had the segments once."""

    def __init__(self):
        super().__init__()
        self.segments = {}

    def segment(self, name):
        return self.segments.get(name)


@pytest.fixture
def recorder(monkeypatch):
    """A history of two sealed segments and one entry, all of them in the store."""
    monkeypatch.setattr(service.lineage, "SEALED_AFTER", 2)
    made = Recorder(Lineage())
    for number in range(5):
        made.applied([Record(str(number % 2), str(number), str(number + 1), b"x")])
    made.stored(made.lineage()[1])
    return made


def restart(store, copies):
    features, label = Features(bits=4), Label()
    model = Model(make("pa1"), features, label, Decoder(features, label, Limits()))
    return model, Restart(model, store, copies, Metrics(Registry(), "m"), Health())


def segments():
    """The same history, made again, with its segments."""
    again = Recorder(Lineage())
    for number in range(5):
        again.applied([Record(str(number % 2), str(number), str(number + 1), b"x")])
    return again.lineage()[1]


def test_lost_segments_come_back_from_the_copies(recorder, tmp_path):
    folder = CopyFolder(Copies(folder=tmp_path), "m")
    store = Emptied()
    model, begin = restart(store, folder)
    lineage, waiting = recorder.lineage()
    assert waiting == {}
    made = segments()
    folder.save(1, encode(model.snapshot(BEGINNING, lineage, whole=True)), made)
    begin.mend(recorder)
    lineage, waiting = recorder.lineage()
    assert waiting.keys() == made.keys()
    assert len(list(history(lineage, waiting.get))) == 5


def test_without_copies_the_loss_is_said(recorder, caplog):
    _, begin = restart(Emptied(), None)
    begin.mend(recorder)
    assert "will not reach back" in caplog.text
    assert recorder.lineage()[1] == {}


def test_what_the_store_has_is_left_alone(recorder, caplog):
    store = Emptied()
    store.segments = segments()
    _, begin = restart(store, None)
    begin.mend(recorder)
    assert caplog.text == ""
    assert recorder.lineage()[1] == {}


def test_from_nothing_the_model_begins_anew():
    model, begin = restart(Remembered(), None)
    model.rejects["type"] = 3
    assert begin.begin().bookmark == BEGINNING
    assert model.rejects == {}
