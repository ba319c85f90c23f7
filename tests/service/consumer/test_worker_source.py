"""The worker waits for its log, skips the gaps in it, and stops where its position is lost."""

import logging

import pytest

from service.checkpoint.lineage import Lost, Run
from service.checkpoint.store import InMemoryStore
from service.consumer.checkpointer import CheckpointPolicy
from service.sources.base import Bookmark, SourceLostError, SourceUnavailableError
from service.sources.file import FileSource
from tests.service.consumer.learner_process import (
    NEVER,
    PLACE,
    VALUES,
    Process,
    no_waiting,  # noqa: F401  # a fixture
    truth_fixture,  # noqa: F401  # a fixture
)
from tests.service.fakes import Log, Plan


def test_a_file_can_be_the_log(truth, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in VALUES))
    store = InMemoryStore()
    Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    snapshot = store.load().snapshot
    assert snapshot.state_digest == truth.last.state_digest
    assert snapshot.rejects == truth.last.rejects


def test_a_log_that_is_down_is_waited_for_and_logged_once(truth, caplog):
    log, plan = Log(VALUES), Plan()
    seen: list[tuple[bool, bool, str]] = []
    away = [SourceUnavailableError("the broker is away")] * 5

    def source():
        seen.append((process.health.source_up, process.health.ready, process.health.trouble))
        if away:
            raise away.pop()
        return log.source(plan)

    store = InMemoryStore()
    process = Process(log, store, source=source)
    with caplog.at_level(logging.WARNING, "onepass"):
        process.run()
    assert seen == [(False, False, "")] + [(False, False, "the broker is away")] * 5
    told = [
        record.getMessage()
        for record in caplog.records
        if "an event was rejected" not in record.getMessage()
    ]
    assert told == ["the broker is away; retrying"]
    assert process.health.trouble == ""
    assert process.health.source_up
    truth.check(store.load().snapshot, log.dead_letters)


def test_positions_of_another_log_are_refused():
    store = InMemoryStore()
    Process(Log(VALUES), store).run()
    manifest, snapshot, _ = store.load()
    store.save(snapshot._replace(bookmark=Bookmark({"kafka:other/0": "3"}, {})))
    with pytest.raises(SourceLostError, match="kafka:other"):
        Process(Log(VALUES), store).run()
    assert manifest.generation == 1


def test_a_gap_is_recorded_counted_and_skipped():
    log, store = Log(VALUES), InMemoryStore()
    log.first = 25
    process = Process(log, store)
    process.run()
    kept = store.load().snapshot
    assert kept.lineage.entries == (Lost("0", "0", "25", 25, "retention"), Run("0", "25", "60", 35))
    labels = {"model": "m", "reason": "retention"}
    assert process.registry.get_sample_value("onepass_events_lost_total", labels) == 25
    assert process.health.events_lost == 25


def test_checkpointed_positions_are_committed_to_the_log():
    log = Log(VALUES, [10])
    Process(log, InMemoryStore(), pace=CheckpointPolicy(NEVER, 10)).run()
    assert log.settled == {"0": "60"}


def test_the_worker_reconnects_when_the_watchdog_asks(truth):
    log, store, plan = Log(VALUES, [10]), InMemoryStore(), Plan()
    process = Process(log, store, plan)
    process.run(
        after_round=lambda: (
            process.worker.renew_source() if plan.history.count("poll") == 3 else None
        ),
    )
    assert plan.history.count("open") == 2
    truth.check(store.load().snapshot, log.dead_letters)


def test_a_log_that_lost_the_position_stops_the_worker(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in VALUES))
    store = InMemoryStore()
    Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    path.write_bytes(VALUES[0])
    before = store.newest()
    with pytest.raises(SourceLostError):
        Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    assert store.newest() == before


def test_a_worker_that_loses_its_log_saves_what_it_learned(truth):
    log, store, plan = Log(VALUES, [10]), InMemoryStore(), Plan()
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000))

    def lose() -> None:
        if process.at == "30":
            raise SourceLostError("the topic is gone")

    with pytest.raises(SourceLostError):
        process.run(after_round=lose)
    truth.check(store.load().snapshot, log.dead_letters)
    assert store.load().snapshot.bookmark.positions == {PLACE: "30"}
    assert plan.history == []
