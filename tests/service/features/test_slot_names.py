"""The names of slots are a pure function of the log, whatever happens to the process; requests add
no names.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import learners.hashing
import service.checkpoint.dirty_slots
import service.features.slot_names
from learners.hashing import SlotTable
from learners.registry import make
from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import NAMES, SLOTS, Snapshot, SnapshotError, decode, encode, merge
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, Event, batch
from service.features.reject import Reject
from service.features.slot_names import SlotNames
from service.model.checkpoint_checks import MismatchError
from service.model.model import Model
from service.sources.base import BEGINNING
from tests.examples import examples
from tests.looped import looped

FEATURES = Features(columns=("amount",), text=("note",), bits=5)
LABEL = Label(positive="x", negative="y")
MOST = 20


@pytest.fixture(autouse=True)
def _every_model_is_large(monkeypatch):
    monkeypatch.setattr(service.checkpoint.dirty_slots, "SMALLEST_DELTA", 1)


def record(label="x", **features) -> bytes:
    return json.dumps({"features": features, "label": label}).encode()


class World:
    """A learner and its store: a chain of snapshots, and the position in the log at which each was
    taken.
    """

    def __init__(self, most=MOST, features=FEATURES) -> None:
        self.decoder = Decoder(features, LABEL, Limits(), most)
        self.door = Decoder(features, LABEL, Limits())
        self.model = Model(make("pa1"), features, LABEL, self.decoder)
        self.saved: list[tuple[int, Snapshot]] = []
        self.place = 0

    def go_on(self, log, size):
        part = log[self.place : self.place + size]
        self.learn(*part)
        self.place += len(part)

    def learn(self, *records):
        decoded = [self.decoder.event(data) for data in records]
        self.model.learn([event for event in decoded if isinstance(event, Event)])

    def save(self, *, whole, fails=False):
        taken = self.model.snapshot(BEGINNING, Lineage(), whole=whole)
        if fails:
            self.model.put_back(taken)
            return
        read = decode(encode_all(taken))
        self.saved.append((self.place, read if read.whole else merge(self.saved[-1][1], read)))

    def go_back(self, generation):
        """Crash or roll back: events learned since that generation are learned again."""
        if not self.saved:
            self.model.reset()
            self.place = 0
            return
        self.saved = self.saved[: 1 + generation % len(self.saved)]
        self.place, snapshot = self.saved[-1]
        self.model.restore(snapshot)

    def ask(self, data):
        document = json.loads(data)
        event = self.door.instance(json.dumps({"features": document["features"]}).encode())
        if isinstance(event, Event):
            self.model.predict(batch([event]))

    @property
    def bytes(self):
        """The whole model as bytes, without saving it."""
        taken = self.model.snapshot(BEGINNING, Lineage(), whole=True)
        self.model.put_back(taken)
        return encode_all(taken)


def encode_all(snapshot: Snapshot) -> bytes:
    return b"".join(encode(snapshot).buffers)


WORDS = st.sampled_from(
    ["a", "b", "cc", "é", "\n", '"', "ab cd", "x" * 30, *(f"w{n}" for n in range(30))]
)
RECORDS = st.builds(
    record,
    label=st.sampled_from(["x", "y", "x", "y", "neither"]),
    note=WORDS,
    kind=WORDS,
    amount=st.sampled_from([1, 2, "not a number"]),
    tags=st.lists(WORDS, max_size=2),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.integers(1, 6)),
        st.tuples(
            st.just("save"),
            st.sampled_from(["whole", "delta", "delta", "failed whole", "failed delta"]),
        ),
        st.tuples(st.just("back"), st.integers(0, 9)),
        st.tuples(st.just("ask"), RECORDS),
    ),
    max_size=25,
)


@examples(150)
@given(
    log=st.lists(RECORDS, min_size=1, max_size=30),
    steps=STEPS,
    most=st.sampled_from([3, MOST, 1000]),
)
def test_names_depend_only_on_the_log(log, steps, most):
    straight, world = World(most), World(most)
    straight.learn(*log)
    remembered = learners.hashing.REMEMBERED
    learners.hashing.REMEMBERED = 3
    try:
        for step, how in steps:
            if step == "learn":
                world.go_on(log, how)
            elif step == "save":
                world.save(whole="whole" in how or not world.saved, fails="failed" in how)
            elif step == "back":
                world.go_back(how)
            else:
                before = world.bytes
                world.ask(how)
                assert world.bytes == before
        world.go_on(log, len(log))
        if world.saved:
            world.save(whole=False)
            assert world.saved[-1][1].arrays[NAMES].tobytes() == names(straight)
    finally:
        learners.hashing.REMEMBERED = remembered
    assert names(world) == names(straight)


def names(world) -> bytes:
    return decode(world.bytes).arrays[NAMES].tobytes()


def kept_names(world) -> dict[int, list[str]]:
    return {
        slot: found
        for slot in range(world.decoder.slots.dim)
        if (found := world.model.names.of(slot))
    }


def test_a_slot_keeps_its_name_and_the_first_collision():
    world = World(most=1000, features=Features(columns=("amount",), text=("note",), bits=1))
    world.learn(record(amount=1, note="odd one", kind="k", big=True, n=3, tags=["t"]))
    told = ["note=odd", "note=one", "kind=k", "big=true", "n", "tags=t"]
    found = kept_names(world)
    assert (found.pop(0), found.pop(1)) == (["bias"], ["amount"])
    for slot, pair in found.items():
        assert pair == [name for name in told if world.decoder.slots.compute_slot(name) == slot][:2]
    assert [len(pair) for pair in found.values()] == [2, 2]
    before = kept_names(world)
    world.learn(b"", record(note="another third"), record(amount=1, note="odd"))
    assert kept_names(world) == before
    assert world.model.names.complete


def test_a_rejected_event_neither_adds_nor_hides_a_name():
    world, straight = World(), World()
    rejected = [
        record(kind="met", other=[1]),
        record(kind="met", amount="no"),
        b'{"features": {"kind": "met"}}',
    ]
    assert all(isinstance(world.decoder.event(data), Reject) for data in rejected)
    assert kept_names(world).keys() == {0, 1}
    for one in (world, straight):
        one.learn(record(kind="met"))
    assert names(world) == names(straight) != b""


def test_a_known_name_is_not_committed_again(monkeypatch):
    world = World()
    world.learn(record(kind="k", note="some words"))
    monkeypatch.setattr(SlotNames, "commit", lambda *_, **__: pytest.fail("nothing is new"))
    world.learn(record(), record(kind="k", note="words some"))


def test_names_beyond_the_room_are_left_out_and_reported():
    world = World(most=2)
    world.learn(record(a=1))
    assert world.model.names.complete
    world.learn(record(), record(kind="b"), record(kind="c"), record(kind="d"))
    assert not world.model.names.complete
    found = sum(len(pair) for slot, pair in kept_names(world).items() if slot > 1)
    assert found == 2
    assert names(world).count(b"\n") == 3
    other = World(most=2)
    other.model.restore(decode(world.bytes))
    assert not other.model.names.complete
    assert names(other) == names(world)


def test_the_total_length_of_names_is_bounded(monkeypatch):
    monkeypatch.setattr(service.features.slot_names, "LONGEST", 100)
    world = World(most=1000)
    world.learn(record(kind="k" * 20), record(kind="l" * 200), record(kind="s"))
    assert len(names(world)) <= 100 + len(b'[0,""]\n')
    assert not world.model.names.complete
    assert b"kind=s" in names(world)


def test_a_delta_has_only_the_new_names():
    world = World(most=1000, features=FEATURES.model_copy(update={"bits": 12}))
    world.learn(record(kind="first"))
    world.save(whole=True)
    world.learn(record(kind="second"))
    delta = world.model.snapshot(BEGINNING, Lineage(), whole=False)
    assert SLOTS in delta.arrays
    assert b"second" in delta.arrays[NAMES].tobytes()
    assert b"first" not in delta.arrays[NAMES].tobytes()
    world.model.put_back(delta)
    again = world.model.snapshot(BEGINNING, Lineage(), whole=False)
    assert again.arrays[NAMES].tobytes() == delta.arrays[NAMES].tobytes()
    assert world.model.snapshot(BEGINNING, Lineage(), whole=False).arrays[NAMES].size == 0


@pytest.mark.parametrize(("then", "now"), [(0, MOST), (MOST, 0)])
def test_a_checkpoint_with_another_setting_of_names_is_restored(then, now):
    before, after = World(then), World(now)
    before.learn(record(kind="k"))
    after.learn(record(kind="another"))
    after.save(whole=True)
    after.model.restore(decode(before.bytes))
    assert kept_names(after).keys() == {0, 1}
    assert not after.model.names.complete
    following = after.model.snapshot(BEGINNING, Lineage(), whole=False)
    assert following.whole
    assert (NAMES in following.arrays) == (now > 0)
    assert not after.model.snapshot(BEGINNING, Lineage(), whole=False).whole


def test_a_fresh_model_restored_without_names_is_complete():
    world = World()
    world.model.restore(decode(World(most=0).bytes))
    assert world.model.names.complete


def test_a_model_of_columns_alone_needs_no_names():
    world = World(most=0, features=Features(columns=("a", "b"), bits=0))
    assert world.model.names.complete
    assert kept_names(world) == {0: ["bias"], 1: ["a"], 2: ["b"]}


def test_a_restore_into_less_room_keeps_all_names():
    large, small = World(most=1000), World(most=1)
    large.learn(record(a=1, b=2, c=3))
    small.model.restore(decode(large.bytes))
    assert names(small) == names(large)
    small.learn(record(new="name"))
    assert kept_names(small).keys() == kept_names(large).keys()


SLOTS_OF = SlotTable(FEATURES.columns, FEATURES.bits, bias=True).compute_slot
A, B = SLOTS_OF("a"), SLOTS_OF("b")
SAME = [name for name in (f"n{k}" for k in range(500)) if SLOTS_OF(name) == A][:3]
DAMAGED = {
    "not UTF-8": f'[{A},"a'.encode() + b'\xff"]\n',
    "not lines": b"[1",
    "not a slot": b'["a","b"]\n',
    "beyond the slots": b'[999,"a"]\n',
    "below 0": b'[-1,"a"]\n',
    "another slot": f'[{B},"a"]\n'.encode(),
    "twice": f'[{A},"a"]\n[{A},"a"]\n'.encode(),
    "three of a slot": "".join(f'[{A},"{name}"]\n' for name in SAME).encode(),
    "left out twice": b'[0,""]\n[0,""]\n',
    "another spelling": f'[{A}, "a"]\n'.encode(),
    "no end": f'[{A},"a"]'.encode(),
    "too long": b" " * (service.features.slot_names.LONGEST + 8),
}


@looped("known", [False, True])
@looped("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_names_are_refused_and_change_nothing(data, known):
    world = World()
    if known:
        world.learn(record(zz=1))
    before = world.bytes
    snapshot = decode(before)
    damaged = np.frombuffer((names(world) if known else b"") + data, np.uint8)
    with pytest.raises(MismatchError, match="name") as caught:
        world.model.restore(snapshot._replace(arrays=snapshot.arrays | {NAMES: damaged}))
    assert "\n" not in str(caught.value)
    assert world.bytes == before


def test_names_of_another_type_are_refused():
    world = World()
    world.save(whole=True)
    _, snapshot = world.saved[0]
    for odd in (np.zeros(3), np.zeros((1, 3), np.uint8)):
        with pytest.raises(MismatchError, match="names have a wrong type"):
            world.model.restore(snapshot._replace(arrays=snapshot.arrays | {NAMES: odd}))
        world.learn(record())
        delta = world.model.snapshot(BEGINNING, Lineage(), whole=False)
        with pytest.raises(SnapshotError, match="names have a wrong type"):
            merge(snapshot, delta._replace(arrays=delta.arrays | {NAMES: odd}))


def test_a_delta_of_another_past_is_refused():
    world, without = World(), World(most=0)
    world.save(whole=True)
    delta = world.model.snapshot(BEGINNING, Lineage(), whole=False)
    with pytest.raises(SnapshotError, match="other arrays"):
        merge(decode(without.bytes), delta)


def test_a_replica_computes_only_the_slots_of_new_names(monkeypatch):
    wide = FEATURES.model_copy(update={"bits": 12})
    world, replica = World(most=1000, features=wide), World(most=1000, features=wide)
    world.learn(*(record(kind=f"k{n}") for n in range(20)))
    replica.model.restore(decode(world.bytes))
    world.learn(record(fresh=1))
    computed, original = [], SlotTable.compute_slot

    def count_and_compute(table, name):
        computed.append(name)
        return original(table, name)

    monkeypatch.setattr(SlotTable, "compute_slot", count_and_compute)
    replica.model.restore(decode(world.bytes))
    assert computed == ["fresh"]
    assert kept_names(replica) == kept_names(world)
    replica.model.restore(decode(World(most=1000, features=wide).bytes))
    assert kept_names(replica).keys() == {0, 1}
