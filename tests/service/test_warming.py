"""Whoever waits for kernels that are being compiled is told so, and nobody else."""

import threading

import service.warming
from learners.registry import make
from learners.warmup import Columns
from service.drift_settings import Drift
from service.warming import warmed

LEARNER = make("pa1").settled(Columns())


def test_kernels_that_take_long_are_told_once(monkeypatch):
    told, said = [], threading.Event()

    def compiling(learner, detectors, inputs):
        assert (learner, detectors, inputs) == (LEARNER, Drift().detectors, Drift().inputs)
        assert said.wait(10)

    monkeypatch.setattr(service.warming, "warm", compiling)
    monkeypatch.setattr(service.warming, "PATIENCE", 0.01)
    warmed(LEARNER, Drift(), lambda words: (told.append(words), said.set()))
    assert [words.partition(",")[0] for words in told] == ["compiling the kernels of this learner"]


def test_kernels_that_are_there_are_not_told(monkeypatch):
    told, before = [], threading.active_count()
    monkeypatch.setattr(service.warming, "warm", lambda *_: None)
    warmed(LEARNER, Drift(), told.append)
    for thread in threading.enumerate()[before:]:
        thread.join(1)
    assert threading.active_count() == before, "nothing is left that would tell later"
    assert told == []
