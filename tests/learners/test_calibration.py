"""The calibrator obeys the learners' laws bit for bit, its probabilities are sensible, and its
curve matches a formula.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.evaluation.calibration import (
    BINS,
    CELLS,
    FADING,
    PRIOR,
    _join,
    calibrate,
    calibration_error,
    fresh_calibration,
    probabilities,
    read_curve,
    restore_calibration,
)
from learners.state import flatten, state_digest
from tests.examples import examples
from tests.looped import looped

ODD = [
    0.0,
    -0.0,
    1.0,
    5e-324,
    -5e-324,
    1e-300,
    1e150,
    -1e150,
    1.7e308,
    -1.7e308,
    1.0 + 2**-52,
    np.inf,
    -np.inf,
]
WEIGHTS = [1.0, 1.0, 1.0, 0.0, 1e-50, 1e50]
some = examples(60)


def stream(seed, events, classes, *, hostile=False):
    """Return labels, scores and weights; the scores are informative, drift, and are sometimes
    hostile.
    """
    rng = np.random.default_rng(seed)
    if classes == 1:
        y = np.where(rng.random(events) < 0.3, 1.0, -1.0)
        scores = (y + 2 * rng.normal(size=events)) * np.exp(np.arange(events) / 1000)
    else:
        y = rng.integers(0, classes, events).astype(np.float64)
        scores = rng.normal(size=(events, classes))
        scores[np.arange(events), y.astype(int)] += 1.0
        for c in range(classes):  # class c appears after 10·c events
            scores[: 10 * c + 1, c] = -np.inf
    if hostile:
        odd = (rng.random(scores.shape) < 0.2) & ~np.isneginf(scores)
        scores[odd] = rng.choice(ODD if classes == 1 else ODD[:-2], int(odd.sum()))
        scores[rng.random(events) < 0.05] = np.nan  # a refused row
    return y, scores, rng.choice(WEIGHTS, events)


LONG = [
    stream(1, 5000, 1),
    stream(2, 3000, 1, hostile=True),
    stream(3, 3000, 4),
    stream(4, 700, 4, hostile=True),
]
every_stream = looped("events", LONG, ids=["binary", "hostile", "classes", "hostile classes"])


@st.composite
def streams(draw):
    classes, size = draw(st.sampled_from([1, 3])), draw(st.integers(1, 80))
    return stream(draw(st.integers(0, 10**6)), size, classes, hostile=draw(st.booleans()))


@st.composite
def states(draw):
    """A calibrator after a stream, and whether it has several classes."""
    events, calibration = draw(streams()), fresh_calibration()
    calibrate(calibration, *events)
    return calibration, events[1].ndim == 2


def part(events, first, last):
    return [array[first:last] for array in events]


def same(one, other):
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def calibrate_stream(events, cuts=()):
    """Calibrate a stream in pieces; return the probabilities and the digest."""
    calibration, ends = fresh_calibration(), [*sorted(cuts), len(events[0])]
    found = [
        calibrate(calibration, *part(events, a, b)) for a, b in zip([0, *ends], ends, strict=False)
    ]
    return np.concatenate(found), state_digest(calibration)


def check_learn_returns_probabilities(events):
    calibration = fresh_calibration()
    for t in range(len(events[0])):
        said = probabilities(calibration, events[1][t : t + 1])
        assert same(calibrate(calibration, *part(events, t, t + 1)), said), f"at event {t}"


@some
@given(streams())
def test_calibrate_returns_the_probabilities_from_before_the_event(events):
    check_learn_returns_probabilities(events)


@every_stream
def test_calibrate_returns_the_probabilities_from_before_over_a_long_stream(events):
    check_learn_returns_probabilities(part(events, 0, 1200))


@some
@given(streams(), st.data())
def test_a_probability_does_not_depend_on_its_own_label(events, data):
    place = data.draw(st.integers(0, len(events[0]) - 1))
    y, scores, weights = events
    other = y.copy()
    other[place] = 1.0 - y[place]
    assert same(
        calibrate_stream((other, scores, weights))[0][: place + 1],
        calibrate_stream(events)[0][: place + 1],
    )


def check_cuts(events, cuts):
    whole, pieces = calibrate_stream(events), calibrate_stream(events, cuts)
    assert same(whole[0], pieces[0])
    assert whole[1] == pieces[1]


@some
@given(streams(), st.lists(st.integers(0, 80), max_size=5))
def test_any_cut_into_batches_gives_the_same_bits(events, cuts):
    check_cuts(events, [min(cut, len(events[0])) for cut in cuts])


@every_stream
def test_single_events_give_the_same_bits(events):
    check_cuts(events, range(1, len(events[0])))


def save_and_restore(calibration):
    """Restore a calibrator from its saved arrays."""
    saved = {name: (a.tobytes(), a.dtype.str, a.shape) for name, a in flatten(calibration).items()}
    return restore_calibration(
        {n: np.frombuffer(raw, kind).reshape(shape) for n, (raw, kind, shape) in saved.items()}
    )


@every_stream
@looped("place", [0, 1, 33, 511, 650, 1387, 2700])
def test_a_restored_calibrator_continues_with_the_same_bits(events, place):
    calibration, place = fresh_calibration(), min(place, len(events[0]))
    before = calibrate(calibration, *part(events, 0, place))
    calibration = save_and_restore(calibration)
    after = calibrate(calibration, *part(events, place, None))
    whole = calibrate_stream(events)
    assert same(np.concatenate([before, after]), whole[0])
    assert state_digest(calibration) == whole[1]


@some
@given(states(), streams())
def test_reading_writes_nothing(made, other):
    calibration, several = made
    scores = (
        other[1] if (other[1].ndim == 2) == several else ODD * np.ones((4 if several else 1, 1))
    )
    scores = np.ascontiguousarray(scores if several == (scores.ndim == 2) else scores[0])
    before, wanted = state_digest(calibration), scores.copy()
    for array in flatten(calibration).values():
        array.flags.writeable = False
    found = probabilities(calibration, scores)
    assert state_digest(calibration) == before
    assert same(scores, wanted)
    assert same(
        found,
        np.concatenate([probabilities(calibration, scores[t : t + 1]) for t in range(len(scores))]),
    )


@some
@given(states())
def test_probabilities_are_within_0_and_1_and_rise_with_the_score(made):
    calibration, several = made
    used = calibration.score[: int(calibration.cells[0])]
    beside = [np.nextafter(used, side) for side in (-np.inf, np.inf)]
    scores = np.sort(np.concatenate([ODD, used, *beside, np.linspace(-5, 5, 201)]))
    if several:
        scores = np.maximum(scores[np.isfinite(scores)], 0.0)
        scores = np.stack([np.zeros_like(scores), scores, np.full_like(scores, -np.inf)], axis=1)
    found = probabilities(calibration, scores)
    # This holds exactly, even between neighbouring floats: the reader clamps rounding errors.
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert (np.diff(found) >= 0.0).all()


@every_stream
def test_hostile_scores_leave_a_state_that_can_be_restored(events):
    """A restore checks that every number is finite, ordered and consistent with the counts."""
    calibration = fresh_calibration()
    for first in range(0, len(events[0]), 100):
        found = calibrate(calibration, *part(events, first, first + 100))
        assert (np.isnan(found) | ((found >= 0.0) & (found <= 1.0))).all()
        save_and_restore(calibration)
    assert int(calibration.cells[0]) == CELLS


@looped("events", [LONG[1], LONG[3]], ids=["binary", "classes"])
def test_events_of_weight_0_and_refused_events_do_not_count(events):
    y, scores, weights = events
    unseen = np.isnan(scores) if scores.ndim == 1 else ~(scores > -np.inf).any(axis=1)
    counted = (weights > 0.0) & ~unseen
    calibration, clean = fresh_calibration(), fresh_calibration()
    found = calibrate(calibration, *events)
    calibrate(clean, y[counted], scores[counted], np.ones(int(counted.sum())))
    assert state_digest(calibration) == state_digest(clean)
    assert int(calibration.events[0]) == int(counted.sum())
    assert np.isnan(found).tolist() == unseen.tolist()


@looped("power", [-500, -3, 20, 400])
def test_the_unit_of_the_scores_does_not_matter(power):
    y, scores, weights = LONG[0]
    assert same(
        calibrate_stream((y, scores * 2.0**power, weights))[0], calibrate_stream(LONG[0])[0]
    )


def test_a_lead_is_the_best_score_minus_the_second():
    scores = np.array(
        [[-np.inf] * 3, [-np.inf, 2.0, -np.inf], [1.0, -np.inf, 4.5], [3.0, 3.0, 1.0]]
    )
    calibration = fresh_calibration()
    calibrate(calibration, np.array([0.0, 0.0, 2.0, 0.0]), scores, np.ones(4))
    assert calibration.score[:3].tolist() == [0.0, 2.0, 3.5]
    assert calibration.hits[:3].astype(bool).tolist() == [True, False, True]


def test_the_curve_is_the_isotonic_regression_of_fading_rates():
    """The expected curve is max over i ≤ k of min over j ≥ k of the rate of i … j, computed from
    the events.
    """
    rng = np.random.default_rng(5)
    scores = rng.integers(0, CELLS, 9001).astype(np.float64)  # a separate cell each
    hits = rng.random(9001) < (0.2 + scores / CELLS / 2)
    calibration = fresh_calibration()
    found = calibrate(calibration, np.where(hits, 1.0, -1.0), scores, np.ones(9001))
    kept = (1.0 + FADING) ** -np.arange(8992.0, 0.0, -1.0)  # the curve is drawn after 8,992 events
    s, h = scores[:8992], hits[:8992]
    mass = np.array([kept[s == k].sum() for k in range(CELLS)])
    hit = np.array([(kept * h)[s == k].sum() for k in range(CELLS)])
    rate = (hit.sum() + 0.5) / (mass.sum() + 1.0)
    mass, hit = mass + PRIOR, hit + PRIOR * rate
    mean = {
        (i, j): hit[i : j + 1].sum() / mass[i : j + 1].sum()
        for i in range(CELLS)
        for j in range(i, CELLS)
    }
    wanted = [
        max(min(mean[i, j] for j in range(k, CELLS)) for i in range(k + 1)) for k in range(CELLS)
    ]
    assert len(set(wanted)) < CELLS, "no cells are pooled"
    assert found[8992:] == pytest.approx([wanted[int(k)] for k in scores[8992:]], rel=1e-9)


def test_cells_share_the_events_evenly():
    """However the scores lie, no cell has much more than its share of the mass."""
    rng = np.random.default_rng(6)
    scores = np.exp(20 * rng.normal(size=9000)) * rng.choice([-1.0, 1.0], 9000)
    calibration = fresh_calibration()
    calibrate(calibration, np.ones(9000), scores, np.ones(9000))
    assert calibration.mass.sum() == pytest.approx(calibration.total[0])
    assert calibration.mass.max() < 3.0 * calibration.total[0] / CELLS


def test_a_cell_whose_mass_faded_to_0_can_be_merged():
    calibration = fresh_calibration()
    calibrate(calibration, np.ones(CELLS), np.arange(float(CELLS)), np.ones(CELLS))
    calibration.mass[:-1] = 0.0
    calibration.hits[:-1] = 0.0
    found = calibrate(calibration, np.ones(3), np.array([0.5, 1.5, 1.25]), np.ones(3))
    assert ((found > 0.0) & (found < 1.0)).all()
    save_and_restore(calibration)


def test_rounding_never_lifts_the_curve_above_its_points():
    rng = np.random.default_rng(8)
    at = np.array([-1e150, 1.0])  # 0.5 and the second are equally far from the first
    for rates in np.sort(rng.random((20_000, 2)) ** 3, axis=1):
        assert rates[0] <= read_curve(2, at, rates, 0.5) <= rates[1]


def test_rounding_never_puts_a_merged_cell_outside_its_two():
    rng = np.random.default_rng(9)
    for first, second in rng.normal(size=(20_000, 2)):
        score = np.array([first])
        _join(score, np.array([1e-300]), np.zeros(1), 0, second, 1.0, 0.0)
        assert min(first, second) <= score[0] <= max(first, second)


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


SHIFTS = {
    "scale, up": (1.0, -1.0, 1e6, -1.0),
    "scale, down": (1.0, -1.0, 1e-3, -1.0),
    "rate": (1.0, -2.0, 1.0, 1.5),
    "both": (1.0, 2.0, 300.0, -2.0),
}


@looped("shift", SHIFTS.values(), ids=SHIFTS)
def test_a_shift_is_followed_within_some_thousand_events(shift):
    rng = np.random.default_rng(7)
    calibration = fresh_calibration()
    for scale, bias, events in ((*shift[:2], 12_000), (*shift[2:], 8000)):
        z = 1.5 * rng.normal(size=events)
        truth = sigmoid(z + bias)
        y = np.where(rng.random(events) < truth, 1.0, -1.0)
        found = calibrate(calibration, y, z * scale, np.ones(events))
        assert np.abs(found - truth)[-3000:].mean() < 0.05


def test_the_calibration_error_is_that_of_the_returned_probabilities():
    y, scores, weights = LONG[0]
    calibration = fresh_calibration()
    found = calibrate(calibration, y, scores, weights)[weights > 0]
    hits, bins = y[weights > 0] > 0, np.minimum((found * BINS).astype(int), BINS - 1)
    gaps = [abs(found[bins == b].sum() - hits[bins == b].sum()) for b in range(BINS)]
    assert calibration_error(calibration) == pytest.approx(sum(gaps) / found.size)
    assert calibration_error(calibration) > 0.0
    assert calibration_error(fresh_calibration()) == 0.0


def test_a_fresh_calibrator_gives_probability_one_half():
    assert probabilities(fresh_calibration(), np.array([-3.0, 0.0, 1e150])).tolist() == [0.5] * 3


DAMAGE = {
    "nan": ("mass", lambda a: a * np.nan),
    "infinite score": ("score", lambda a: np.where(np.arange(CELLS) == CELLS - 1, np.inf, a)),
    "negative mass": ("mass", lambda a: -a),
    "more hits than events": ("hits", lambda a: a + 1e5),
    "negative hits": ("hits", lambda a: a - 1e5),
    "huge mass": ("mass", lambda a: a + 1e5),
    "scores out of order": ("score", lambda a: a[::-1].copy()),
    "points out of order": ("at", lambda a: a[::-1].copy()),
    "a rate above 1": ("rate", lambda a: a + 1.0),
    "rates that fall": ("rate", lambda a: a[::-1].copy()),
    "cells that are not there": ("cells", lambda a: a + 1),
    "fewer than none": ("cells", lambda a: a - 100),
    "fewer cells than are filled": ("cells", lambda a: a - 1),
    "too many points": ("points", lambda a: a + 1),
    "unit": ("unit", lambda a: a * 4),
    "total": ("total", lambda a: a[::-1].copy()),
    "events": ("events", lambda a: a + 1),
    "negative count": ("came", lambda a: a - 10**6),
    "expected": ("expected", lambda a: a + 10**6),
    "shape": ("rate", lambda a: a[:-1]),
    "type": ("rate", lambda a: a.astype(np.int64)),
}


@looped(("name", "change"), DAMAGE.values(), ids=DAMAGE)
def test_a_state_that_no_events_lead_to_is_refused(name, change):
    calibration = fresh_calibration()
    calibrate(calibration, *LONG[0])
    arrays = flatten(calibration)
    restore_calibration(arrays)
    with pytest.raises(
        ValueError, match="corrupt" if name != "rate" else "corrupt|this learner has"
    ):
        restore_calibration(arrays | {name: change(arrays[name])})
