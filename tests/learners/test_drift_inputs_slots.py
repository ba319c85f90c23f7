"""The watch over inputs watches columns and the slots that occur first, up to its cap."""

import numpy as np

from learners.batch import Batch
from learners.drift.inputs import FEATURES, Inputs
from learners.state import flatten, state_digest
from tests.learners.drift_input_streams import dense, quiet, watch_stream


def test_slots_are_watched_in_order_of_occurrence_up_to_the_cap():
    config = Inputs(features=4)
    rows = [([0, 9, 30], [1.0, 0.0, 2.0]), ([0, 1, 12], [1.0, 1.0, 1.0]), ([0, 7, 9], [1.0] * 3)]
    state = config.init(2)
    assert config.slots(state).tolist() == [1, 2, -1, -1]
    config.watch(state, Batch.from_rows(rows), *quiet(3))
    assert config.slots(state).tolist() == [1, 2, 30, 12], (
        "a value of 0 must not count as an occurrence"
    )
    assert state.seen.tolist() == [3, 3, 3, 3, 3, 2]
    assert state.sample[FEATURES + 3, :2].tolist() == [1.0, 0.0]


def test_a_stream_of_endless_new_slots_keeps_the_state_at_its_size():
    config = Inputs()
    state = config.init(3)
    size = sum(array.nbytes for array in flatten(state).values())
    rows = [([0, *range(4 + 5 * t, 9 + 5 * t)], [1.0] * 6) for t in range(20_000)]
    assert config.watch(state, Batch.from_rows(rows), *quiet(20_000)) == []
    assert sum(array.nbytes for array in flatten(state).values()) == size <= 100_000
    assert config.slots(state).tolist() == [1, 2, 3, *range(4, 65)]


def test_slots_that_share_a_hash_cell_are_kept_apart():
    config = Inputs(features=8)
    state, slots = config.init(0), [32 * k + 1 for k in range(1, 12)]
    for j in slots:
        config.watch(state, Batch.from_rows([([0, j], [1.0, float(j)])]), *quiet(1))
    assert config.slots(state).tolist() == slots[:8]
    assert [state.sample[FEATURES + f, 0] for f in range(8)] == slots[:8]
    config.watch(state, Batch.from_rows([([0, *slots], [1.0, *map(float, slots)])]), *quiet(1))
    assert [state.sample[FEATURES + f, 11 - f] for f in range(8)] == slots[:8]


def test_only_the_first_columns_are_watched_beyond_the_cap():
    config, rng = Inputs(features=4), np.random.default_rng(6)
    values = rng.normal(size=(4000, 9))
    values[2600:, 3:5] += 2.0
    state = config.init(9)
    shifts = config.watch(state, dense(values), *quiet(4000))
    assert config.slots(state).tolist() == [1, 2, 3, 4]
    assert [shift.series for shift in shifts] == [FEATURES + 3]


def test_an_absent_feature_counts_as_0():
    rng = np.random.default_rng(7)
    values = np.where(rng.random((2000, 5)) < 0.6, 0.0, rng.normal(size=(2000, 5)))
    values[900:] = np.where(rng.random((1100, 5)) < 0.05, 0.0, 3.0 + rng.normal(size=(1100, 5)))
    rows = [([int(j) + 1 for j in np.flatnonzero(row)], row[row != 0].tolist()) for row in values]
    y, guess = quiet(2000)
    sparse, full = (
        watch_stream((Batch.from_rows(rows), y, guess)),
        watch_stream((dense(values), y, guess)),
    )
    assert sparse[0] == full[0] != []
    assert state_digest(sparse[1]) == state_digest(full[1])
