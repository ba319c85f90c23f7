"""Whatever dies or is down, and whenever: the worker's state is that of an undisturbed run."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from service.consumer.checkpointer import CheckpointPolicy
from tests.examples import examples
from tests.service.consumer.learner_process import (
    NEVER,
    PLACE,
    VALUES,
    Process,
    every_record_a_piece_fixture,  # noqa: F401  # a fixture
    no_waiting,  # noqa: F401  # a fixture
    truth_fixture,  # noqa: F401  # a fixture
)
from tests.service.fakes import Fault, FaultyStore, Killed, Log, Plan

FAULTS = st.lists(
    st.builds(
        Fault,
        st.integers(0, 80),
        st.sampled_from(["before", "after"]),
        st.sampled_from(["kill", "down"]),
    ),
    max_size=12,
)


@examples(100)
@given(
    FAULTS,
    st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
    st.integers(1, 40),
    st.integers(1, 20),
)
def test_faults_at_any_call_do_not_change_the_final_state(truth, faults, sizes, every, most):
    log, plan = Log(VALUES, sizes), Plan(faults)
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.dead_letters))
    while True:
        process = Process(log, store, plan, pace=CheckpointPolicy(NEVER, every), most=most)
        try:
            process.run()
            break
        except Killed:
            continue
    snapshot = store.kept
    assert snapshot.bookmark.positions == {PLACE: str(len(VALUES))}
    truth.check(snapshot, log.dead_letters)
    for letter in log.dead_letters:
        assert letter == truth.rejected[letter.key], (
            "a dead letter may be repeated, but never differ"
        )


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["kill", "down"])
def test_a_fault_at_each_call_in_turn_does_not_change_the_final_state(truth, when, how):
    """Every single call is tried, so that none depends on luck."""
    calm = Plan()
    Process(Log(VALUES, [7]), FaultyStore(calm), calm).run()
    for call in range(len(calm.history)):
        log, plan = Log(VALUES, [7]), Plan([Fault(call, when, how)])
        store = FaultyStore(plan, lambda snapshot, log=log: truth.check(snapshot, log.dead_letters))
        try:
            Process(log, store, plan).run()
        except Killed:
            Process(log, store, plan).run()
        snapshot = store.kept
        assert snapshot.bookmark.positions == {PLACE: str(len(VALUES))}, (call, calm.history[call])
        truth.check(snapshot, log.dead_letters)


@pytest.mark.usefixtures("_every_record_a_piece")
@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FAULTS, st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), st.integers(1, 40))
def test_faults_between_the_pieces_of_a_batch_change_nothing(truth, faults, sizes, every):
    log, plan = Log(VALUES, sizes), Plan(faults)
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.dead_letters))
    while True:
        try:
            Process(log, store, plan, pace=CheckpointPolicy(NEVER, every)).run()
            break
        except Killed:
            continue
    assert store.kept.bookmark.positions == {PLACE: str(len(VALUES))}
    truth.check(store.kept, log.dead_letters)
    for letter in log.dead_letters:
        assert letter == truth.rejected[letter.key], (
            "a dead letter may be repeated, but never differ"
        )
