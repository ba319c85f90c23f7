"""A delta sets the values that it names in the snapshot before it."""

import numpy as np
import pytest

from service.checkpoint.snapshot import SnapshotError, decode, merge
from tests.looped import looped
from tests.service.checkpoint.small_snapshot import delta, in_bytes, small

DAMAGED_DELTAS = {
    "an array less": lambda arrays: arrays.pop("w"),
    "an array more": lambda arrays: arrays.update(v=np.zeros(1)),
    "a slot beyond the end": lambda arrays: arrays.update(slots=np.array([1, 4])),
    "slots that are no numbers of slots": lambda arrays: arrays.update(slots=np.array([1.0, 2.0])),
    "values that are too many": lambda arrays: arrays.update(w=np.array([1.0, 2.0, 3.0])),
    "values of another type": lambda arrays: arrays.update(w=np.array([1, 2])),
}


def test_a_delta_sets_the_values_it_names():
    earlier = small({"w": np.arange(4.0)})
    again = merge(
        decode(in_bytes(earlier)), decode(in_bytes(delta(**{"progress/events": np.array([9])})))
    )
    assert again.whole
    assert again.events == 9
    assert again.arrays["w"].tolist() == [0.0, 7.0, 2.0, 8.0]
    assert again.sliced == ()
    assert again.state_digest is None
    assert earlier.arrays["w"].tolist() == [0.0, 1.0, 2.0, 3.0], (
        "a merge must not change the earlier snapshot"
    )
    twice = merge(again, delta(w=np.array([5.0, 6.0])))
    assert twice.arrays["w"].tolist() == [0.0, 5.0, 2.0, 6.0]
    assert twice.arrays["w"] is again.arrays["w"], "a chain of deltas must be merged in place"


def test_a_delta_sets_values_of_several_classes():
    base, values = np.arange(8.0).reshape(2, 4), np.array([[10.0, 11.0], [12.0, 13.0]])
    merged = merge(small({"w": base}), delta(w=values)).arrays["w"]
    assert merged.tolist() == [[0.0, 10.0, 2.0, 11.0], [4.0, 12.0, 6.0, 13.0]]


def test_a_delta_without_a_changed_slot_changes_nothing():
    none = delta(slots=np.zeros(0, np.int64), w=np.zeros(0))
    assert merge(small({"w": np.arange(4.0)}), decode(in_bytes(none))).arrays["w"].tolist() == [
        0.0,
        1.0,
        2.0,
        3.0,
    ]


@looped("change", DAMAGED_DELTAS.values(), ids=DAMAGED_DELTAS)
def test_a_delta_that_does_not_fit_is_refused(change):
    with pytest.raises(SnapshotError):
        merge(small({"w": np.arange(4.0)}), delta(change))


def test_a_delta_must_follow_a_whole_snapshot():
    whole = small({"w": np.arange(4.0)})
    for earlier, later in ((whole, whole), (delta(), delta())):
        with pytest.raises(SnapshotError, match="must follow"):
            merge(earlier, later)
