"""The worker: whatever dies or is away, and whenever, the state is that of an undisturbed run."""

import json
import logging
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

import service.consumer.checkpointer
import service.consumer.worker
from learners.registry import make
from service.checkpoint.lineage import Frozen, Lost, Run
from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import (
    NO_SEGMENTS,
    Acquired,
    CorruptCheckpointError,
    FencedError,
    Freeze,
    InMemoryStore,
    Loaded,
    StoreUnavailableError,
)
from service.config.settings import Features, Label, Limits
from service.consumer.checkpointer import CheckpointPolicy
from service.consumer.dead_letters import SideOutputs
from service.consumer.replica import Replica
from service.consumer.wiring import Learning, Parts, build_worker
from service.consumer.worker import Reading
from service.errors import UnfinishedError, UnsavedError
from service.features.decoder import Decoder
from service.model.checkpoint_checks import MismatchError
from service.model.model import Model
from service.model.scheduling import RequestGate
from service.monitoring import Monitoring
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics
from service.sources.base import Bookmark, SourceLostError, SourceUnavailableError
from service.sources.file import FileSource
from tests.service.fakes import Fault, FaultyStore, Inline, Killed, Log, Plan

FEATURES = Features(columns=("a", "b"), bits=3)
LABEL = Label(classes="grow", max_classes=3)
LEARNER = {"kind": "scaled", "base": {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}}
NEVER = float("inf")
PLACE = "memory:log/0"


def value(n: int) -> bytes:
    """Event n; some are rejected, by the decoder, for their label, or by the learner."""
    if n % 7 == 3:
        return [b"no json %d" % n, b'{"features": {"a": null}, "label": "x", "n": %d}' % n][n % 2]
    features = {"a": n * 37 % 11 - 5, "b": n * 53 % 17 / 4} | ({"a": 1e60} if n % 11 == 5 else {})
    return json.dumps(
        {"features": features, "label": "q" if n % 13 == 12 else "xyz"[n * 7 % 5 % 3]}
    ).encode()


VALUES = [value(n) for n in range(60)]


@pytest.fixture(autouse=True, scope="module")
def _no_waiting():
    """Waits would only be waited for: nothing else happens meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.consumer.worker, "FIRST_WAIT", 0.0)
        patch.setattr(service.consumer.checkpointer, "RETRY_SECONDS", 0.0)
        patch.setattr(service.consumer.checkpointer, "Background", Inline)
        # Or a slow machine cuts batches.
        patch.setattr(service.consumer.worker, "PIECE_SECONDS", 1e6)
        yield


@pytest.fixture
def _every_record_a_piece(monkeypatch):
    monkeypatch.setattr(service.consumer.worker, "PIECE_SECONDS", 0.0)


class Process:
    """One life of a learner: everything that dies with it."""

    def __init__(
        self,
        log: Log,
        store,
        plan=None,
        *,
        pace=None,
        most=500,
        until_end=True,
        source=None,
        sink=None,
    ) -> None:
        plan = plan or Plan()
        decoder = Decoder(FEATURES, LABEL, Limits())
        self.model = Model(make(LEARNER), FEATURES, LABEL, decoder)
        self.health = Health()
        self.registry = CollectorRegistry()
        monitoring = Monitoring(Metrics(self.registry, "m"), self.health)
        parts = Parts(
            log_name="memory:log",
            reading=Reading(source or (lambda: log.source(plan)), most, until_end),
            store=store,
            policy=pace or CheckpointPolicy(NEVER, 10),
            outputs=SideOutputs("m", sink or (lambda: log.sink(plan))),
            gate=RequestGate(),
            replica=Replica(self.model, store, monitoring),
        )
        self.worker = build_worker(Learning(decoder, self.model), parts, monitoring)
        self.checkpointer = self.worker._checkpointer
        self.stop = threading.Event()

    @property
    def at(self) -> str:
        """The position after the last applied record."""
        return self.checkpointer.position.positions.get("0", "")

    def run(self, after_round=lambda: None) -> None:
        self.worker.run(self.stop, after_round)


class Truth:
    """The undisturbed run, one event at a time: state and rejected records at every position."""

    def __init__(self) -> None:
        log = Log(VALUES)
        self.snapshots: dict[str, Snapshot] = {}
        store = FaultyStore(
            Plan(),
            lambda snapshot: self.snapshots.update({snapshot.bookmark.positions[PLACE]: snapshot}),
        )
        Process(log, store, pace=CheckpointPolicy(NEVER, 1), most=1).run()
        self.rejected = {letter.key: letter for letter in log.dead_letters}
        assert len(self.snapshots) == len(VALUES)
        assert len(self.rejected) == len(log.dead_letters) == sum(self.last.rejects.values())

    @property
    def last(self) -> Snapshot:
        return self.snapshots[str(len(VALUES))]

    def check(self, snapshot: Snapshot, dead_letters) -> None:
        """The state is exactly that of the records before its positions, and those rejected are
        kept.
        """
        position = snapshot.bookmark.positions[PLACE]
        expected = self.snapshots[position]
        assert snapshot.state_digest == expected.state_digest
        assert snapshot.classes == expected.classes
        assert snapshot.rejects == expected.rejects
        for name, array in expected.arrays.items():
            assert snapshot.arrays[name].tobytes() == array.tobytes(), name
        kept = {letter.key for letter in dead_letters}
        passed = {
            key for key in self.rejected if int(key.decode().rpartition(":")[2]) < int(position)
        }
        assert passed <= kept, "rejected events are kept before the checkpoint that passes them"


@pytest.fixture(scope="module")
def truth():
    return Truth()


def test_the_truth_has_something_of_everything(truth):
    assert truth.last.rejects.keys() == {"malformed", "type", "numeric", "label"}
    assert sorted(truth.last.classes) == ["x", "y", "z"]
    assert 0 < truth.last.arrays["progress/errors"][0] < truth.last.events < len(VALUES)


FAULTS = st.lists(
    st.builds(
        Fault,
        st.integers(0, 80),
        st.sampled_from(["before", "after"]),
        st.sampled_from(["kill", "down"]),
    ),
    max_size=12,
)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    FAULTS,
    st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
    st.integers(1, 40),
    st.integers(1, 20),
)
def test_faults_at_any_call_change_nothing_in_the_end(truth, faults, sizes, every, most):
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
        assert letter == truth.rejected[letter.key], "repeated at most, never another"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["kill", "down"])
def test_a_fault_at_each_call_in_turn(truth, when, how):
    """The same over every single place, so that none depends on luck."""
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
@settings(
    max_examples=50,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
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
        assert letter == truth.rejected[letter.key], "repeated at most, never another"


@pytest.mark.usefixtures("_every_record_a_piece")
@pytest.mark.parametrize("until_end", [True, False])
@pytest.mark.parametrize("records", [1, 3, 17, 59, 60])
def test_a_stop_is_heard_within_a_batch(truth, monkeypatch, records, until_end):
    """What was learned by then is in the checkpoint, and the rest is learned by the next
    process.
    """
    log, store = Log(VALUES), InMemoryStore()
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000), until_end=until_end)
    learn, learned = process.worker._learn, []

    def counted(left):
        piece = learn(left)
        learned.extend(piece)
        if len(learned) == records:
            process.stop.set()
        return piece

    monkeypatch.setattr(process.worker, "_learn", counted)
    if until_end and records < len(VALUES):
        with pytest.raises(UnfinishedError):
            process.run()
    else:
        process.run()
    assert len(learned) == records
    snapshot = store.load().snapshot
    assert snapshot.bookmark.positions == {PLACE: str(records)}
    truth.check(snapshot.with_digest(), log.dead_letters)
    Process(log, store).run()
    truth.check(store.load().snapshot.with_digest(), log.dead_letters)
    assert store.load().snapshot.bookmark.positions == {PLACE: str(len(VALUES))}


@pytest.mark.usefixtures("_every_record_a_piece")
def test_a_checkpoint_that_is_due_is_made_within_a_batch(truth):
    plan, log = Plan(), Log(VALUES)
    saved = []
    store = FaultyStore(plan, saved.append)
    Process(log, store, plan, pace=CheckpointPolicy(NEVER, 10)).run()
    assert plan.history.count("poll") == 1
    assert [snapshot.bookmark.positions[PLACE] for snapshot in saved] == [
        str(n) for n in range(10, 61, 10)
    ]
    for snapshot in saved:
        truth.check(snapshot, log.dead_letters)


@pytest.mark.usefixtures("_every_record_a_piece")
def test_who_is_fenced_within_a_batch_learns_no_further(truth):
    log = Log(VALUES)

    class Disturbed(InMemoryStore):
        disturbed = False

    store = Disturbed()
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000))
    learn, learned = process.worker._learn, []

    def counted(left):
        piece = learn(left)
        learned.extend(piece)
        store.disturbed = len(learned) == 5
        return piece

    process.worker._learn = counted
    process.worker.step()
    assert len(learned) == 5
    assert process.worker._source is None
    assert process.at == "5"
    store.disturbed = False
    process.run()
    assert [record.position for record in learned] == [str(n) for n in range(len(VALUES))]
    truth.check(store.load().snapshot.with_digest(), log.dead_letters)


def test_a_file_is_a_log_too(truth, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in VALUES))
    store = InMemoryStore()
    Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    snapshot = store.load().snapshot
    assert snapshot.state_digest == truth.last.state_digest
    assert snapshot.rejects == truth.last.rejects


def test_the_end_is_the_one_at_the_start():
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


def test_nothing_new_is_no_new_checkpoint():
    log, store = Log(VALUES), InMemoryStore()
    Process(log, store).run()
    before = store.newest()
    process = Process(log, store)
    process.run()
    assert store.newest() == before == process.health.checkpoint


def test_told_to_stop_it_leaves_a_checkpoint(truth):
    log, store = Log(VALUES, [10]), InMemoryStore()
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000), most=10, until_end=False)
    process.run(after_round=lambda: process.stop.set() if process.at == "30" else None)
    snapshot = store.load().snapshot
    assert snapshot.bookmark.positions == {PLACE: "30"}
    truth.check(snapshot, log.dead_letters)
    assert not process.health.ready


@pytest.mark.parametrize(("every", "saves"), [(10, 6), (25, 2 + 1), (60, 1), (1000, 1)])
def test_checkpoints_by_count(every, saves):
    plan = Plan()
    Process(
        Log(VALUES, [10] if every == 10 else [5]),
        FaultyStore(plan),
        plan,
        pace=CheckpointPolicy(NEVER, every),
    ).run()
    assert plan.history.count("save") == saves


def test_checkpoints_by_time():
    plan = Plan()
    Process(Log(VALUES, [10]), FaultyStore(plan), plan, pace=CheckpointPolicy(0.0, 1000)).run()
    assert plan.history.count("save") == 6
    plan = Plan()
    Process(
        Log(VALUES, [10, 0, 0]), FaultyStore(plan), plan, pace=CheckpointPolicy(0.0, 1000)
    ).run()
    assert plan.history.count("save") == 6, "not when there is nothing new"


def test_letters_go_out_before_anything_else_is_taken():
    plan = Plan()
    Process(Log(VALUES, [8]), FaultyStore(plan), plan, pace=CheckpointPolicy(NEVER, 1)).run()
    rounds = "".join(
        {"poll": "p", "append": "a", "save": "s"}.get(name, "") for name in plan.history
    )
    assert set(rounds.split("p")[1:]) == {"as"}


def test_no_polling_and_no_checkpoint_while_a_letter_has_no_place(truth):
    """The dead-letter log is away for long; the log and the store are there all the time."""
    log, plan = Log(VALUES, [8]), Plan()
    away = [SourceUnavailableError("dead letters away")] * 20
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.dead_letters))

    def sink():
        if away:
            assert "save" not in plan.history
            assert plan.history.count("poll") == 1
            raise away.pop()
        return log.sink(plan)

    Process(log, store, plan, sink=sink).run()
    assert not away
    truth.check(store.kept, log.dead_letters)


def test_told_to_stop_it_still_keeps_the_letters_first(truth):
    log, plan = Log(VALUES, [30]), Plan()
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.dead_letters))

    def sink():
        if not process.stop.is_set():
            process.stop.set()
            raise SourceUnavailableError("dead letters away")
        return log.sink(plan)

    process = Process(log, store, plan, sink=sink)
    with pytest.raises(UnfinishedError):
        process.run()
    assert store.kept.bookmark.positions == {PLACE: "30"}
    assert log.dead_letters


def test_a_letter_tells_what_why_and_where():
    log = Log([VALUES[0], b"no json", VALUES[1]])
    Process(log, InMemoryStore()).run()
    (letter,) = log.dead_letters
    assert letter.value == b"no json"
    assert letter.key == b"m:0:1"
    assert dict(letter.headers) == {"reason": b"malformed", "partition": b"0", "position": b"1"}


def test_a_letter_fits_a_message():
    log = Log([b"x" * 2_000_000])
    Process(log, InMemoryStore()).run()
    (letter,) = log.dead_letters
    assert letter.value == b"x" * 900_000
    assert dict(letter.headers)["bytes"] == b"2000000"
    assert dict(letter.headers)["reason"] == b"too_long"


def test_without_a_dead_letter_log_rejects_are_only_counted(truth):
    log, store = Log(VALUES), InMemoryStore()
    Process(log, store, sink=lambda: None).run()
    assert store.load().snapshot.rejects == truth.last.rejects
    assert log.dead_letters == []


def test_what_is_away_is_waited_for_and_said_once(truth, caplog):
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


class Away(InMemoryStore):
    """A store that is away for its first saves."""

    def __init__(self, saves: int) -> None:
        super().__init__()
        self.left = saves

    def save(self, snapshot: Snapshot, segments=NO_SEGMENTS):
        if self.left:
            self.left -= 1
            raise StoreUnavailableError("the store is away")
        return super().save(snapshot, segments)


def test_learning_goes_on_while_the_store_is_away(truth):
    log, store = Log(VALUES, [5]), Away(4)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 5))
    saved: list[tuple[str, bool]] = []
    process.run(after_round=lambda: saved.append((process.at, store.newest() is not None)))
    # Four checkpoints fail, each begun after a round; learning goes on, and the fifth holds what
    # all rounds learned.
    assert saved[:6] == [(str(5 * n), n == 6) for n in range(1, 7)]
    assert process.health.store_up
    assert (
        process.registry.get_sample_value(
            "onepass_checkpoint_failures_total", {"model": "m", "reason": "down"}
        )
        == 4
    )
    truth.check(store.load().snapshot, log.dead_letters)


def test_a_store_that_stays_away_does_not_keep_it_from_ending_and_is_no_success(monkeypatch):
    monkeypatch.setattr(service.consumer.worker, "FINISH_SECONDS", 0.05)
    with pytest.raises(UnsavedError, match="stopped without a last checkpoint"):
        Process(Log(VALUES), Away(10**9), pace=CheckpointPolicy(NEVER, 1000)).run()


def test_positions_of_another_log_are_refused():
    store = InMemoryStore()
    Process(Log(VALUES), store).run()
    manifest, snapshot, _ = store.load()
    store.save(snapshot._replace(bookmark=Bookmark({"kafka:other/0": "3"}, {})))
    with pytest.raises(SourceLostError, match="kafka:other"):
        Process(Log(VALUES), store).run()
    assert manifest.generation == 1


class Shared(InMemoryStore):
    """A store in which others write too, as the test says."""

    def __init__(self, *standings: Acquired) -> None:
        super().__init__()
        self.standings = list(standings)
        self.acquired = 0
        self.refusing = 0

    def acquire(self) -> Acquired:
        self.acquired += 1
        self.disturbed = False
        return self.standings.pop(0) if self.standings else Acquired.CURRENT

    def save(self, snapshot: Snapshot, segments=NO_SEGMENTS):
        if self.refusing:
            self.refusing -= 1
            self.disturbed = True
            raise FencedError("another learner has taken over")
        return super().save(snapshot, segments)


def test_fenced_by_a_foreign_history_it_begins_there(truth):
    """Another learner has gone on from 10 to 20 meanwhile; what this one had learned on its own is
    dropped.
    """
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.STALE)

    def replace() -> None:
        if process.at == "40" and store.acquired == 1:
            store.save(truth.snapshots["20"])
            store.refusing = 1

    process = Process(log, store, pace=CheckpointPolicy(NEVER, 10))
    process.run(after_round=replace)
    assert store.acquired == 2
    assert process.registry.get_sample_value("onepass_fenced_total", {"model": "m"}) == 1
    truth.check(store.load().snapshot, log.dead_letters)
    assert store.load().snapshot.events == truth.last.events


def test_fenced_by_its_own_past_it_writes_on_top(truth):
    """The store went back in time: nothing is learned twice, and the newer state is there again at
    once.
    """
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.CURRENT)

    def back_in_time() -> None:
        if process.at == "40" and store.acquired == 1:
            store._kept = None
            store.refusing = 1

    process = Process(log, store, pace=CheckpointPolicy(NEVER, 10))
    process.run(after_round=back_in_time)
    assert process.registry.get_sample_value(
        "onepass_events_total", {"model": "m", "result": "learned"}
    ) == (truth.last.events), "each event once"
    truth.check(store.load().snapshot, log.dead_letters)


def test_what_the_store_lost_is_written_again_though_nothing_is_learned():
    log, store = Log(VALUES), Shared(Acquired.STALE, Acquired.CURRENT)
    process = Process(log, store, pace=CheckpointPolicy(0.0, 1000), until_end=False)
    rounds = []

    def flush() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            store._kept, store.disturbed = None, True
        if len(rounds) == 6:
            assert store.newest() is not None
            process.stop.set()

    process.run(after_round=flush)


@pytest.mark.parametrize(("lost", "level"), [(True, logging.WARNING), (False, logging.INFO)])
def test_only_a_store_that_lost_something_is_warned_of(caplog, lost, level):
    """A freeze that was lifted before it was seen fences too, and nothing is amiss."""
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.CURRENT)

    def disturb() -> None:
        if process.at == "40" and store.acquired == 1:
            store._kept = None if lost else store._kept
            store.disturbed = True

    process = Process(log, store, pace=CheckpointPolicy(NEVER, 10))
    with caplog.at_level(logging.INFO, "onepass"):
        process.run(after_round=disturb)
    assert store.acquired == 2
    words = ("written on top", "learning continues")
    told = [record for record in caplog.records if record.getMessage().endswith(words)]
    assert [record.levelno for record in told] == [level]
    assert told[0].getMessage().endswith(words[not lost])


def test_standing_by_it_follows_and_then_takes_over(truth):
    log, store = (
        Log(VALUES),
        Shared(Acquired.HELD_ELSEWHERE, Acquired.HELD_ELSEWHERE, Acquired.STALE),
    )
    store.save(truth.snapshots["30"])
    process = Process(log, store)
    seen = []
    process.run(
        after_round=lambda: seen.append((process.health.ready, process.health.checkpoint.events))
    )
    assert seen[0] == (True, truth.snapshots["30"].events)
    assert "standing by" in process.health.trouble or process.health.trouble == ""
    assert process.registry.get_sample_value(
        "onepass_events_total", {"model": "m", "result": "learned"}
    ) == (truth.last.events - truth.snapshots["30"].events)
    truth.check(store.load().snapshot, truth.rejected.values())


def test_what_it_follows_can_be_stale_and_what_it_learns_cannot(truth):
    log, store = (
        Log(VALUES),
        Shared(Acquired.HELD_ELSEWHERE, Acquired.HELD_ELSEWHERE, Acquired.STALE),
    )
    store.save(truth.snapshots["30"])
    process = Process(log, store)
    asked = []
    process.run(after_round=lambda: asked.append(process.health.confirmed_at))
    assert [at is None for at in asked[:3]] == [False, False, True]
    assert process.health.stale_seconds == 0.0


def test_frozen_it_is_the_newest_generation_and_learns_nothing(truth):
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 20), until_end=True)
    rounds = []

    def freeze() -> None:
        at = process.checkpointer.position.positions["0"]
        if at == "30" and not rounds:
            store.frozen, store.disturbed = Freeze(1.0, store.newest().generation), True
        if store.frozen is not None and not store.disturbed:
            rounds.append(process.health.frozen)
            assert int(process.model.progress.events[0]) == store.newest().events
            if len(rounds) == 4:
                store.frozen = None

    process.run(after_round=freeze)
    assert rounds[-1] is True
    assert not process.health.frozen
    kept = store.load().snapshot
    truth.check(kept, log.dead_letters)
    assert [type(entry) for entry in kept.lineage.entries].count(Frozen) == 1


def test_learning_pauses_when_too_much_is_in_no_checkpoint(truth):
    log, store = Log(VALUES, [5]), Away(8)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 5, max_uncheckpointed_events=20))
    most = []
    process.run(
        after_round=lambda: most.append(
            (process.checkpointer.uncheckpointed, process.health.trouble)
        )
    )
    assert max(unsaved for unsaved, _ in most) == 20
    truth.check(store.load().snapshot, log.dead_letters)
    assert any("pauses" in trouble for _, trouble in most)


def test_a_gap_is_recorded_counted_and_passed():
    log, store = Log(VALUES), InMemoryStore()
    log.first = 25
    process = Process(log, store)
    process.run()
    kept = store.load().snapshot
    assert kept.lineage.entries == (Lost("0", "0", "25", 25, "retention"), Run("0", "25", "60", 35))
    labels = {"model": "m", "reason": "retention"}
    assert process.registry.get_sample_value("onepass_events_lost_total", labels) == 25
    assert process.health.events_lost == 25


def test_durable_positions_are_told_to_the_log():
    log = Log(VALUES, [10])
    Process(log, InMemoryStore(), pace=CheckpointPolicy(NEVER, 10)).run()
    assert log.settled == {"0": "60"}


def test_told_by_the_watchdog_it_connects_anew(truth):
    log, store, plan = Log(VALUES, [10]), InMemoryStore(), Plan()
    process = Process(log, store, plan)
    process.run(
        after_round=lambda: (
            process.worker.renew_source() if plan.history.count("poll") == 3 else None
        ),
    )
    assert plan.history.count("open") == 2
    truth.check(store.load().snapshot, log.dead_letters)


def test_another_models_checkpoint_stops_it():
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


def test_a_log_that_has_lost_its_place_stops_it(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in VALUES))
    store = InMemoryStore()
    Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    path.write_bytes(VALUES[0])
    before = store.newest()
    with pytest.raises(SourceLostError):
        Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    assert store.newest() == before


def test_without_a_checkpoint_to_go_back_to_it_begins_anew_and_not_on_top(truth):
    """Paused before its first checkpoint, and then another learner came and went without
    one, too.
    """
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.HELD_ELSEWHERE, Acquired.STALE)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000))

    def disturb() -> None:
        if process.at == "30" and store.acquired == 1:
            store.disturbed = True

    process.run(after_round=disturb)
    assert store.acquired == 3
    truth.check(store.load().snapshot, log.dead_letters)


def test_a_store_found_empty_after_it_was_followed_stops_it(truth):
    log, store = Log(VALUES), Shared(Acquired.HELD_ELSEWHERE, Acquired.STALE)
    store.save(truth.snapshots["30"])

    def flush() -> None:
        store._kept = None

    with pytest.raises(CorruptCheckpointError, match="the store is empty"):
        Process(log, store).run(after_round=flush)


def test_a_log_that_is_lost_leaves_what_was_learned_in_a_checkpoint(truth):
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


def test_stopped_right_after_the_store_was_emptied_it_still_saves(truth):
    log, store = Log(VALUES, [10]), Shared(Acquired.STALE, Acquired.CURRENT)
    process = Process(log, store, pace=CheckpointPolicy(NEVER, 1000), until_end=False)

    def end() -> None:
        if process.at == "30":
            store.disturbed = True
            process.stop.set()

    process.run(after_round=end)
    truth.check(store.load().snapshot, log.dead_letters)
    assert store.load().snapshot.bookmark.positions == {PLACE: "30"}


def test_frozen_nothing_is_written(truth):
    log, store = Log(VALUES), Shared(Acquired.STALE)
    store.save(truth.snapshots["30"])
    store.frozen = Freeze(1.0, 1)
    log.first = 40
    process = Process(log, store, pace=CheckpointPolicy(0.0, 1), until_end=False)
    rounds = []
    process.run(
        after_round=lambda: rounds.append(1) or (process.stop.set() if len(rounds) == 5 else None)
    )
    assert process.health.frozen
    assert store.newest().generation == 1


def test_ready_once_restored_and_connected():
    log, store = Log(VALUES), InMemoryStore()
    states: list[bool] = []

    def source():
        states.append(process.health.ready)
        return log.source(Plan())

    process = Process(log, store, source=source)
    process.run(after_round=lambda: states.append(process.health.ready))
    assert states[:2] == [False, True]
    assert not process.health.ready


def test_counters_follow_what_was_learned(truth):
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
