"""Delta checkpoints: a whole copy merged with the later dirty slots is the model, bit for bit."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import service.checkpoint.dirty_slots
from learners.registry import LEARNERS, make
from learners.state import flatten, state_digest
from service.checkpoint.dirty_slots import DirtySlots
from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import ALARMS, SLOTS, merge
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, Event
from service.model.model import Model
from service.sources.base import BEGINNING
from tests.examples import examples
from tests.looped import looped

HASHED = Features(bits=6)
COLUMNS = Features(columns=tuple("abcdefg"), bits=0)
GROW = Label(classes="grow", max_classes=3)
OFTEN = {"kind": "selected", "every": 5, "base": "pa1"}
EFS = {"kind": "selected", "selector": "efs", "every": 5, "K": 3}

SHRINKING = [
    "norma:lam=0.9",
    "sgd-log:lam=4900,horizon=1000",
    "pa-l1:beta=0.3",
    "pa-l2:beta=0.1",
    "fs2:nu=4900,mu=4900",
]
"""Parameters with which every weight is rewritten often."""

SPECS = [
    *LEARNERS,
    *SHRINKING,
    OFTEN,
    {**EFS, "base": {"kind": "averaged", "base": "mbw"}},
    *(
        {"kind": "averaged", "base": base}
        for base in ("pa1", "norma:lam=0.9", "romma", "winnow-norm:W=1e-6")
    ),
    *({"kind": "scaled", "base": base} for base in ("pa1", "arow", OFTEN)),
    {"kind": "scaled", "halflife": 3, "base": {"kind": "averaged", "mode": "vote", "base": "pa2"}},
    {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"},
    {
        "kind": "scaled",
        "base": {
            "kind": "one_vs_rest",
            "max_classes": 3,
            "base": {**OFTEN, "base": "norma:lam=0.9"},
        },
    },
]

some = examples(15)

VALUES = st.one_of(st.floats(0, 10), st.sampled_from([0.0, 1e-162, 1e50, 1e60]), st.floats(-10, 10))
ROWS = st.tuples(
    st.dictionaries(st.integers(1, 7), VALUES, max_size=4),
    st.integers(0, 2),
    st.sampled_from([1.0, 1.0, 0.0, 2.5]),
)
STEPS = st.lists(
    st.one_of(
        st.lists(ROWS, max_size=5),
        st.tuples(st.sampled_from(["whole", "delta", "delta", "failed whole", "failed delta"])),
    ),
    max_size=14,
)
"""Batches to learn, and checkpoints of both forms, some of which fail."""


@pytest.fixture(autouse=True)
def _every_model_is_large(monkeypatch):
    monkeypatch.setattr(service.checkpoint.dirty_slots, "SMALLEST_DELTA", 1)


def build(spec, features=HASHED):
    learner = make(spec)
    grows = "one_vs_rest" in str(learner.model_dump())
    label = GROW if grows else Label(positive="0")
    return Model(learner, features, label, Decoder(features, label, Limits()))


def events(rows, stride=1):
    """Return events whose slots are spread over all slots, so that a batch touches few of them."""
    return [
        Event(
            [0, *(1 + (slot - 1) * stride for slot in sorted(row))],
            [1.0, *(row[s] for s in sorted(row))],
            str(c),
            w,
        )
        for row, c, w in rows
    ]


def live(model):
    return flatten(model.state, "state/") | model.monitor.arrays() | {ALARMS: model.alarms.array()}


def copy_arrays(model, *, whole):
    return model.snapshot(BEGINNING, Lineage(), whole=whole)


def slots(snapshot):
    return None if snapshot.whole else snapshot.arrays[SLOTS].tolist()


def bits(arrays):
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


FIXED = [
    [({1: 1.0, 2: 3.0}, 0, 1.0), ({3: 2.0}, 1, 1.0)],
    ("delta",),
    [({1: -2.0, 4: 1.0}, 1, 1.0), ({1: 60.0}, 2, 1.0), ({2: 1.0}, 0, 1.0)],
    ("failed delta",),
    [({5: 1.0}, 1, 1.0)] * 7,
    ("delta",),
    [({6: 5.0, 7: 0.5}, 0, 1.0)],
    ("failed whole",),
    ("delta",),
    [({7: 1e-3}, 2, 1.0)],
    ("delta",),
]


@looped("spec", SPECS, ids=str)
@some
@given(steps=STEPS)
@example(steps=FIXED)
def test_a_chain_of_checkpoints_equals_the_model_bit_for_bit(spec, steps):
    check_chain(build(spec), steps, stride=9)


@pytest.mark.parametrize("spec", [{"kind": "scaled", "base": "pa1"}, "fs", "romma"], ids=str)
@some
@given(steps=STEPS)
@example(steps=FIXED)
def test_a_chain_of_checkpoints_equals_a_model_of_columns(spec, steps):
    check_chain(build(spec, COLUMNS), steps, stride=1)


def own_arrays(snapshot):
    return {name: array.copy() for name, array in snapshot.arrays.items()}


def check_chain(model, steps, stride):
    kept = None
    for step in [*steps, ("delta",)]:
        if isinstance(step, list):
            model.learn(events(step, stride))
            continue
        taken = copy_arrays(model, whole="whole" in step[0])
        assert taken.whole or kept is not None, "the first checkpoint must be whole"
        together = taken if taken.whole else merge(kept._replace(arrays=own_arrays(kept)), taken)
        assert bits(together.arrays) == bits(live(model))
        if "failed" in step[0]:
            model.put_back(taken)
        else:
            kept = together


def test_few_touched_slots_make_a_small_delta():
    model = build({"kind": "scaled", "base": "pa1"})
    assert slots(copy_arrays(model, whole=False)) is None
    model.learn(events([({1: 1.0, 2: 3.0}, 0, 1.0), ({2: 2.0}, 1, 1.0)], 9))
    delta = copy_arrays(model, whole=False)
    assert slots(delta) == [0, 1, 10]
    assert delta.arrays[SLOTS].dtype == np.int64
    assert delta.sliced == ("state/mean", "state/spread", "state/upto", "state/base/w/v")
    assert all(delta.arrays[name].shape == (3,) for name in delta.sliced)
    assert delta.arrays["progress/events"].tolist() == [2]
    assert slots(copy_arrays(model, whole=False)) == [0], "a slot must be taken only once"


def test_the_slots_of_a_failed_save_are_in_the_next_one():
    model = build("pa1")
    copy_arrays(model, whole=True)
    model.learn(events([({1: 1.0}, 0, 1.0)]))
    model.put_back(copy_arrays(model, whole=False))
    model.learn(events([({2: 1.0}, 0, 1.0)]))
    assert slots(copy_arrays(model, whole=False)) == [0, 1, 2]
    model.put_back(copy_arrays(model, whole=True))
    assert slots(copy_arrays(model, whole=False)) is None


def test_the_first_delta_after_a_restore_builds_on_the_restored_state():
    first, second = build("pa1"), build("pa1")
    first.learn(events([({1: 1.0}, 0, 1.0)]))
    second.learn(events([({5: 1.0}, 0, 1.0)]))
    second.restore(copy_arrays(first, whole=True))
    second.learn(events([({2: 1.0}, 1, 1.0)]))
    assert slots(copy_arrays(second, whole=False)) == [0, 2]


def test_small_models_and_widely_touched_ones_are_copied_whole(monkeypatch):
    model = build("pa1")
    copy_arrays(model, whole=True)
    for slot in range(1, 18):  # with the bias more than a quarter of 65
        model.learn([Event([0, slot], [1.0, 1.0], "0", 1.0)])
    assert slots(copy_arrays(model, whole=False)) is None
    assert slots(copy_arrays(model, whole=False)) is not None
    monkeypatch.setattr(service.checkpoint.dirty_slots, "SMALLEST_DELTA", 100)
    model = build("pa1")
    assert [slots(copy_arrays(model, whole=False)) for _ in range(2)] == [None, None]


def test_a_copy_shares_no_memory_with_the_model():
    model = build("pa1")
    for taken in (copy_arrays(model, whole=True), copy_arrays(model, whole=False)):
        for name, array in live(model).items():
            assert not np.shares_memory(array, taken.arrays[name])


def test_a_whole_copy_has_the_digest_of_the_state():
    model = build("pa1")
    model.learn(events([({1: 1.0}, 0, 1.0)]))
    taken = copy_arrays(model, whole=True)
    assert taken.state_digest is None
    assert taken.with_digest().state_digest == state_digest(model.state)
    assert copy_arrays(model, whole=False).with_digest().state_digest is None


@given(st.lists(st.lists(st.integers(0, 999), max_size=20), max_size=8))
def test_dirty_slots_are_sorted_unique_and_include_the_bias(batches):
    dirty = DirtySlots(1000)
    assert dirty.take() is None
    for slots in batches:
        dirty.add(np.array(slots, np.int32))
    taken = dirty.take()
    assert taken.tolist() == sorted({0, *(slot for slots in batches for slot in slots)})
    assert dirty.take().tolist() == [0]
    dirty.put_back(taken)
    assert dirty.take().tolist() == taken.tolist()
