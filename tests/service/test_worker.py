"""The worker: whatever dies or is away, and whenever, the state is that of an undisturbed run."""

import json
import logging
import threading

import pytest
from fakes import Fault, FaultyStore, Killed, Log, Plan
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

import service.worker
from learners.registry import make
from service.checkpoints import Fenced, Remembered, StoreDown
from service.events import Decoder
from service.health import Health
from service.metrics import Metrics
from service.model import Mismatch, Model
from service.settings import Features, Label, Limits
from service.snapshot import Snapshot
from service.sources.contract import SourceDown, SourceLost
from service.sources.file import FileSource
from service.worker import Pace, Unsaved, Worker

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
    return json.dumps({"features": features, "label": "q" if n % 13 == 12 else "xyz"[n * 7 % 5 % 3]}).encode()


VALUES = [value(n) for n in range(60)]


@pytest.fixture(autouse=True, scope="module")
def _no_waiting():
    """Waits would only be waited for: nothing else happens meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.worker, "FIRST_WAIT", 0.0)
        yield


class Process:
    """One life of a learner: everything that dies with it."""

    def __init__(self, log: Log, store, plan=None, *, pace=None, until_end=True, source=None, sink=None) -> None:
        plan = plan or Plan()
        decoder = Decoder(FEATURES, LABEL, Limits())
        self.model = Model(make(LEARNER), FEATURES, LABEL, decoder)
        self.health = Health()
        self.registry = CollectorRegistry()
        self.worker = Worker(
            "m",
            "memory:log",
            pace or Pace(500, NEVER, 10),
            self.model,
            decoder,
            store,
            source or (lambda: log.source(plan)),
            sink or (lambda: log.sink(plan)),
            Metrics(self.registry, "m"),
            self.health,
            until_end=until_end,
        )
        self.stop = threading.Event()

    def run(self, after_round=lambda: None) -> None:
        self.worker.run(self.stop, after_round)


class Truth:
    """The undisturbed run, one event at a time: state and rejected records at every position."""

    def __init__(self) -> None:
        log = Log(VALUES)
        self.snapshots: dict[str, Snapshot] = {}
        store = FaultyStore(Plan(), lambda snapshot: self.snapshots.update({snapshot.positions[PLACE]: snapshot}))
        Process(log, store, pace=Pace(1, NEVER, 1)).run()
        self.rejected = {letter.key: letter for letter in log.letters}
        assert len(self.snapshots) == len(VALUES)
        assert len(self.rejected) == len(log.letters) == sum(self.last.rejects.values())

    @property
    def last(self) -> Snapshot:
        return self.snapshots[str(len(VALUES))]

    def check(self, snapshot: Snapshot, letters) -> None:
        """The state is exactly that of the records before its positions, and those rejected are kept."""
        position = snapshot.positions[PLACE]
        expected = self.snapshots[position]
        assert snapshot.state_digest == expected.state_digest
        assert snapshot.classes == expected.classes
        assert snapshot.rejects == expected.rejects
        for name, array in expected.arrays.items():
            assert snapshot.arrays[name].tobytes() == array.tobytes(), name
        kept = {letter.key for letter in letters}
        passed = {key for key in self.rejected if int(key.decode().rpartition(":")[2]) < int(position)}
        assert passed <= kept, "rejected events are kept before the checkpoint that passes them"


@pytest.fixture(scope="module")
def truth():
    return Truth()


def test_the_truth_has_something_of_everything(truth):
    assert truth.last.rejects.keys() == {"malformed", "type", "numeric", "label"}
    assert sorted(truth.last.classes) == ["x", "y", "z"]
    assert 0 < truth.last.arrays["progress/errors"][0] < truth.last.events < len(VALUES)


FAULTS = st.lists(
    st.builds(Fault, st.integers(0, 80), st.sampled_from(["before", "after"]), st.sampled_from(["kill", "down"])),
    max_size=12,
)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(FAULTS, st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), st.integers(1, 40), st.integers(1, 20))
def test_faults_at_any_call_change_nothing_in_the_end(truth, faults, sizes, every, most):
    log, plan = Log(VALUES, sizes), Plan(faults)
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.letters))
    while True:
        process = Process(log, store, plan, pace=Pace(most, NEVER, every))
        try:
            process.run()
            break
        except Killed:
            continue
    snapshot = store.kept
    assert snapshot.positions == {PLACE: str(len(VALUES))}
    truth.check(snapshot, log.letters)
    for letter in log.letters:
        assert letter == truth.rejected[letter.key], "repeated at most, never another"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["kill", "down"])
def test_a_fault_at_each_call_in_turn(truth, when, how):
    """The same over every single place, so that none depends on luck."""
    calm = Plan()
    Process(Log(VALUES, [7]), FaultyStore(calm), calm).run()
    for call in range(len(calm.history)):
        log, plan = Log(VALUES, [7]), Plan([Fault(call, when, how)])
        store = FaultyStore(plan, lambda snapshot, log=log: truth.check(snapshot, log.letters))
        try:
            Process(log, store, plan).run()
        except Killed:
            Process(log, store, plan).run()
        snapshot = store.kept
        assert snapshot.positions == {PLACE: str(len(VALUES))}, (call, calm.history[call])
        truth.check(snapshot, log.letters)


def test_a_file_is_a_log_too(truth, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in VALUES))
    store = Remembered()
    Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    _, snapshot = store.load()
    assert snapshot.state_digest == truth.last.state_digest
    assert snapshot.rejects == truth.last.rejects


def test_the_end_is_the_one_at_the_start():
    log, store = Log(VALUES[:20], [3]), Remembered()
    Process(log, store).run(after_round=lambda: log.values.append(VALUES[0]))
    assert len(log.values) > 20
    assert store.load()[1].positions == {PLACE: "20"}


def test_the_end_of_an_empty_log_is_a_checkpoint():
    store = Remembered()
    process = Process(Log([]), store)
    process.run()
    assert store.newest().generation == 1
    assert store.load()[1].positions == {PLACE: "0"}
    assert process.health.checkpoint == store.newest()


def test_nothing_new_is_no_new_checkpoint():
    log, store = Log(VALUES), Remembered()
    Process(log, store).run()
    before = store.newest()
    process = Process(log, store)
    process.run()
    assert store.newest() == before == process.health.checkpoint


def test_told_to_stop_it_leaves_a_checkpoint(truth):
    log, store = Log(VALUES, [10]), Remembered()
    process = Process(log, store, pace=Pace(10, NEVER, 1000), until_end=False)
    process.run(after_round=lambda: process.stop.set() if process.worker._positions == {"0": "30"} else None)
    _, snapshot = store.load()
    assert snapshot.positions == {PLACE: "30"}
    truth.check(snapshot, log.letters)
    assert not process.health.ready


@pytest.mark.parametrize(("every", "saves"), [(10, 6), (25, 2 + 1), (60, 1), (1000, 1)])
def test_checkpoints_by_count(every, saves):
    plan = Plan()
    Process(Log(VALUES, [10] if every == 10 else [5]), FaultyStore(plan), plan, pace=Pace(500, NEVER, every)).run()
    assert plan.history.count("save") == saves


def test_checkpoints_by_time():
    plan = Plan()
    Process(Log(VALUES, [10]), FaultyStore(plan), plan, pace=Pace(500, 0.0, 1000)).run()
    assert plan.history.count("save") == 6
    plan = Plan()
    Process(Log(VALUES, [10, 0, 0]), FaultyStore(plan), plan, pace=Pace(500, 0.0, 1000)).run()
    assert plan.history.count("save") == 6, "not when there is nothing new"


def test_letters_go_out_before_anything_else_is_taken():
    plan = Plan()
    Process(Log(VALUES, [8]), FaultyStore(plan), plan, pace=Pace(500, NEVER, 1)).run()
    rounds = "".join({"poll": "p", "append": "a", "save": "s"}.get(name, "") for name in plan.history)
    assert set(rounds.split("p")[1:]) == {"as"}


def test_no_polling_and_no_checkpoint_while_a_letter_has_no_place(truth):
    """The dead-letter log is away for long; the log and the store are there all the time."""
    log, plan = Log(VALUES, [8]), Plan()
    away = [SourceDown("dead letters away")] * 20
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.letters))

    def sink():
        if away:
            assert "save" not in plan.history
            assert plan.history.count("poll") == 1
            raise away.pop()
        return log.sink(plan)

    Process(log, store, plan, sink=sink).run()
    assert not away
    truth.check(store.kept, log.letters)


def test_told_to_stop_it_still_keeps_the_letters_first(truth):
    log, plan = Log(VALUES, [30]), Plan()
    store = FaultyStore(plan, lambda snapshot: truth.check(snapshot, log.letters))

    def sink():
        if not process.stop.is_set():
            process.stop.set()
            raise SourceDown("dead letters away")
        return log.sink(plan)

    process = Process(log, store, plan, sink=sink)
    process.run()
    assert store.kept.positions == {PLACE: "30"}
    assert log.letters


def test_a_letter_tells_what_why_and_where():
    log = Log([VALUES[0], b"no json", VALUES[1]])
    Process(log, Remembered()).run()
    (letter,) = log.letters
    assert letter.value == b"no json"
    assert letter.key == b"m:0:1"
    assert dict(letter.headers) == {"reason": b"malformed", "partition": b"0", "position": b"1"}


def test_a_letter_fits_a_message():
    log = Log([b"x" * 2_000_000])
    Process(log, Remembered()).run()
    (letter,) = log.letters
    assert letter.value == b"x" * 900_000
    assert dict(letter.headers)["bytes"] == b"2000000"
    assert dict(letter.headers)["reason"] == b"too_long"


def test_without_a_dead_letter_log_rejects_are_only_counted(truth):
    log, store = Log(VALUES), Remembered()
    Process(log, store, sink=lambda: None).run()
    assert store.load()[1].rejects == truth.last.rejects
    assert log.letters == []


def test_what_is_away_is_waited_for_and_said_once(truth, caplog):
    log, plan = Log(VALUES), Plan()
    seen: list[tuple[bool, bool, str]] = []
    away = [SourceDown("the broker is away")] * 5

    def source():
        seen.append((process.health.source_up, process.health.ready, process.health.trouble))
        if away:
            raise away.pop()
        return log.source(plan)

    store = Remembered()
    process = Process(log, store, source=source)
    with caplog.at_level(logging.WARNING, "onepass"):
        process.run()
    assert seen == [(False, False, "")] + [(False, False, "the broker is away")] * 5
    assert [record.getMessage() for record in caplog.records] == ["the broker is away; trying again"]
    assert process.health.trouble == ""
    assert process.health.source_up
    truth.check(store.load()[1], log.letters)


class Away(Remembered):
    """A store that is away for its first saves."""

    def __init__(self, saves: int) -> None:
        super().__init__()
        self.left = saves

    def save(self, snapshot: Snapshot):
        if self.left:
            self.left -= 1
            raise StoreDown("the store is away")
        return super().save(snapshot)


def test_learning_goes_on_while_the_store_is_away(truth):
    log, store = Log(VALUES, [5]), Away(4)
    process = Process(log, store, pace=Pace(500, NEVER, 5))
    positions: list[str] = []
    process.run(after_round=lambda: positions.append(store.load()[1].positions[PLACE]))
    # The first four rounds end in a failed checkpoint; the fifth one's holds what all of them learned.
    assert positions[0] == "25"
    assert process.health.store_up
    assert process.registry.get_sample_value("onepass_checkpoint_failures_total", {"model": "m", "reason": "down"}) == 4
    truth.check(store.load()[1], log.letters)


def test_a_store_that_stays_away_does_not_keep_it_from_ending_and_is_no_success(monkeypatch):
    monkeypatch.setattr(service.worker, "FINISH_SECONDS", 0.05)
    with pytest.raises(Unsaved, match="stopped without a last checkpoint"):
        Process(Log(VALUES), Away(10**9), pace=Pace(500, NEVER, 1000)).run()


def test_positions_of_another_log_are_refused():
    store = Remembered()
    Process(Log(VALUES), store).run()
    manifest, snapshot = store.load()
    store.save(snapshot._replace(positions={"kafka:other/0": "3"}))
    with pytest.raises(SourceLost, match="kafka:other"):
        Process(Log(VALUES), store).run()
    assert manifest.generation == 1


def test_fenced_it_stops_and_writes_nothing_more():
    class Taken(Remembered):
        saves = 0

        def save(self, _: Snapshot):
            self.saves += 1
            raise Fenced("another learner")

    store = Taken()
    with pytest.raises(Fenced):
        Process(Log(VALUES, [5]), store).run()
    assert store.saves == 1


def test_another_models_checkpoint_stops_it():
    store = Remembered()
    log = Log(VALUES)
    Process(log, store).run()
    manifest, snapshot = store.load()
    store._kept = (manifest, snapshot._replace(model=snapshot.model | {"learner": {"kind": "other"}}))
    with pytest.raises(Mismatch):
        Process(log, store).run()
    assert store.newest() == manifest


def test_a_log_that_has_lost_its_place_stops_it(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in VALUES))
    store = Remembered()
    Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    path.write_bytes(VALUES[0])
    before = store.newest()
    with pytest.raises(SourceLost):
        Process(Log([]), store, source=lambda: FileSource(path), sink=lambda: None).run()
    assert store.newest() == before


def test_ready_once_restored_and_connected():
    log, store = Log(VALUES), Remembered()
    process = Process(log, store)
    states: list[bool] = []

    def source():
        states.append(process.health.ready)
        return log.source(Plan())

    process.worker._open_source = source
    process.run(after_round=lambda: states.append(process.health.ready))
    assert states[:2] == [False, True]
    assert not process.health.ready


def test_counters_follow_what_was_learned(truth):
    process = Process(Log(VALUES), Remembered())
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
