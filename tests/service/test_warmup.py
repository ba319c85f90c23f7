"""Only a command that waits for the compilation of kernels is told so."""

import threading

import service.warmup
from learners.registry import make
from learners.warmup import Columns
from service.config.settings import Drift
from service.warmup import warm_up
from tests.waiting import HANG_SECONDS

LEARNER = make("pa1").bind(Columns())


def test_a_long_compilation_is_announced_once(monkeypatch):
    told, said = [], threading.Event()

    def compiling(learner, detectors, inputs):
        assert (learner, detectors, inputs) == (LEARNER, Drift().detectors, Drift().inputs)
        assert said.wait(HANG_SECONDS)

    monkeypatch.setattr(service.warmup, "warm", compiling)
    monkeypatch.setattr(service.warmup, "PATIENCE", 0.01)
    warm_up(LEARNER, Drift(), lambda words: (told.append(words), said.set()))
    assert [words.partition(",")[0] for words in told] == ["compiling the kernels of this learner"]


def test_cached_kernels_are_not_announced(monkeypatch):
    told, before = [], threading.active_count()
    monkeypatch.setattr(service.warmup, "PATIENCE", 10.0 * HANG_SECONDS)
    monkeypatch.setattr(service.warmup, "warm", lambda *_: None)
    warm_up(LEARNER, Drift(), told.append)
    for thread in threading.enumerate()[before:]:
        thread.join(HANG_SECONDS)
    assert threading.active_count() == before, "a thread remained that could announce later"
    assert told == []
