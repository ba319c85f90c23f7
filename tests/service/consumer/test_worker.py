"""The worker learns to the end or until a stop, and makes checkpoints meanwhile."""

import pytest

from service.checkpoint.store import InMemoryStore, Loaded
from service.consumer.checkpointer import CheckpointPolicy
from service.model.checkpoint_checks import MismatchError
from tests.looped import looped
from tests.service.consumer.learner_process import (
    NEVER,
    PLACE,
    VALUES,
    Process,
    no_waiting,  # noqa: F401  # a fixture
    truth_fixture,  # noqa: F401  # a fixture
)
from tests.service.fakes import FaultyStore, Log, Plan


def test_the_undisturbed_run_has_every_kind_of_event(truth):
    assert truth.last.rejects.keys() == {"malformed", "type", "numeric", "label"}
    assert sorted(truth.last.classes) == ["x", "y", "z"]
    assert 0 < truth.last.arrays["progress/errors"][0] < truth.last.events < len(VALUES)


def test_until_end_stops_at_the_end_that_the_log_had_at_the_start():
    log, store = Log(VALUES[:20], [3]), InMemoryStore()
    Process(log, store).run(after_round=lambda: log.values.append(VALUES[0]))
    assert len(log.values) > 20
    assert store.load().snapshot.bookmark.positions == {PLACE: "20"}


def test_the_end_of_an_empty_log_is_a_checkpoint():
    store = InMemoryStore()
    process = Process(Log([]), store)
    process.run()
    assert store.newest().generation == 1
    assert store.load().snapshot.bookmark.positions == {PLACE: "0"}
    assert process.health.checkpoint == store.newest()


def test_without_new_events_no_checkpoint_is_made():
    log, store = Log(VALUES), InMemoryStore()
    Process(log, store).run()
    before = store.newest()
    process = Process(log, store)
    process.run()
    assert store.newest() == before == process.health.checkpoint


def test_a_stopped_worker_leaves_a_checkpoint(truth):
    log, store = Log(VALUES, [10]), InMemoryStore()
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000), most=10, until_end=False)
    process.run(after_round=lambda: process.stop.set() if process.at == "30" else None)
    snapshot = store.load().snapshot
    assert snapshot.bookmark.positions == {PLACE: "30"}
    truth.check(snapshot, log.dead_letters)
    assert not process.health.ready


@looped(("every", "saves"), [(10, 6), (25, 2 + 1), (60, 1), (1000, 1)])
def test_checkpoints_are_made_by_event_count(every, saves):
    plan = Plan()
    Process(
        Log(VALUES, [10] if every == 10 else [5]),
        FaultyStore(plan),
        plan,
        pace=CheckpointPolicy(NEVER, every),
    ).run()
    assert plan.history.count("save") == saves


def test_checkpoints_are_made_by_time():
    plan = Plan()
    Process(Log(VALUES, [10]), FaultyStore(plan), plan, pace=CheckpointPolicy(0.0, 1000)).run()
    assert plan.history.count("save") == 6
    plan = Plan()
    Process(
        Log(VALUES, [10, 0, 0]), FaultyStore(plan), plan, pace=CheckpointPolicy(0.0, 1000)
    ).run()
    assert plan.history.count("save") == 6, "without new events there must be no checkpoint"


def test_a_checkpoint_of_another_model_stops_the_worker():
    store = InMemoryStore()
    log = Log(VALUES)
    Process(log, store).run()
    manifest, snapshot, _ = store.load()
    store._kept = Loaded(
        manifest, snapshot._replace(model=snapshot.model | {"learner": {"kind": "other"}})
    )
    with pytest.raises(MismatchError):
        Process(log, store).run()
    assert store.newest() == manifest


def test_the_worker_is_ready_once_restored_and_connected():
    log, store = Log(VALUES), InMemoryStore()
    states: list[bool] = []

    def source():
        states.append(process.health.ready)
        return log.source(Plan())

    process = Process(log, store, source=source)
    process.run(after_round=lambda: states.append(process.health.ready))
    assert states[:2] == [False, True]
    assert not process.health.ready


def test_counters_match_the_learned_events(truth):
    process = Process(Log(VALUES), InMemoryStore())
    process.run()

    def sample(name: str, **labels) -> float | None:
        return process.registry.get_sample_value(name, {"model": "m"} | labels)

    assert sample("onepass_events_total", result="learned") == truth.last.events
    assert sample("onepass_events_total", result="rejected") == len(truth.rejected)
    assert sample("onepass_errors_total") == truth.last.arrays["progress/errors"][0]
    assert sample("onepass_updates_total") == process.model.updates()
    assert sample("onepass_checkpoint_seconds_count") == 1
    for reason, count in truth.last.rejects.items():
        assert sample("onepass_rejects_total", reason=reason) == count
