"""Quality: every count against plain Python on any stream, the laws bit for bit, and figures known
from elsewhere.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.evaluation.history import MOST, fresh_history, latest, whole
from learners.evaluation.progress import WINDOW, fresh_progress, predict_labels
from learners.evaluation.quality import FADING, SMALLEST, assess, by_class, figures, fresh_quality
from learners.evaluation.validation import check_together, restore_quality
from learners.state import flatten, state_digest
from tests.learners.damage import plus, put
from tests.looped import looped

some = settings(max_examples=60, derandomize=True, deadline=None)
CLASSES = [0, 2, 5]
"""0: binary; of several, 2 is the least that there can be at most."""


def stream(seed, events, classes, *, calm=False):
    """Labels, guesses and probabilities. Some labels and guesses are of no class, and some events
    have no probability; in a calm one labels come in runs and are guessed well.
    """
    rng = np.random.default_rng(seed)
    y = (
        rng.choice([-1, 1], events, p=[0.7, 0.3])
        if classes == 0
        else rng.integers(-1, classes, events)
    )
    if calm:
        y = np.repeat(y, 400)[:events]
    guess = np.where(rng.random(events) < (0.95 if calm else 0.6), y, rng.permutation(y))
    p = np.where(rng.random(events) < 0.1, np.nan, rng.random(events) * 1.2 - 0.1)
    return y.astype(np.float64), guess.astype(np.int64), p


LONG = {classes: stream(classes, 5000, classes) for classes in CLASSES}


@st.composite
def streams(draw):
    classes = draw(st.sampled_from(CLASSES))
    return classes, stream(
        draw(st.integers(0, 10**6)), draw(st.integers(0, 300)), classes, calm=draw(st.booleans())
    )


def fresh(classes):
    return fresh_progress(), fresh_quality(classes), fresh_history()


def passed(classes, rows, cuts=()):
    """Outcomes and the three parts after rows that were learned in pieces."""
    parts, ends = fresh(classes), [*sorted(cuts), len(rows[0])]
    wrong = [
        assess(*parts, *(array[first:last] for array in rows))
        for first, last in zip([0, *ends], ends, strict=False)
    ]
    return np.concatenate(wrong), parts


def digest(parts):
    return [state_digest(part) for part in parts]


class Oracle:
    """Everything that happened in lists, from which each figure is made by its definition."""

    def __init__(self, classes, rows):
        self.pairs, self.wrong, self.majority, self.no_change, self.losses = [], [], [], [], []
        came, reached = [], {}
        for label, guess, p in zip(*(array.tolist() for array in rows), strict=True):
            c, g = (
                ({-1: 0, 1: 1}[int(label)], {-1: 0, 1: 1}[guess])
                if classes == 0
                else (int(label), guess)
            )
            # most frequent; of those the one that had so many first
            top = max(reached, key=lambda k: (len(reached[k]), -reached[k][-1]), default=None)
            self.wrong.append(int(g != c or c < 0))
            self.majority.append(int(top != c))
            self.no_change.append(int(not came or came[-1] != c or c < 0))
            if not math.isnan(p):
                q = min(max(p, 1e-6), 1.0 - 1e-6)
                hit = c == 1 if classes == 0 else not self.wrong[-1]
                self.losses.append(-math.log(q) if hit else -math.log(1.0 - q))
            came.append(c)
            if c >= 0:
                reached.setdefault(c, []).append(len(came))
            self.pairs.append((c, g))

    def figures(self):
        n = len(self.pairs)
        rate = mean(self.wrong)
        return {
            "error": rate,
            "recent": mean(self.wrong[-WINDOW:]),
            "fading": faded(self.wrong),
            "majority": mean(self.majority),
            "majority_recent": mean(self.majority[-WINDOW:]),
            "no_change": mean(self.no_change),
            "no_change_recent": mean(self.no_change[-WINDOW:]),
            "kappa": beyond(
                1.0 - rate,
                sum(self.count(c) * self.claimed(c) for c in range(9)) / n**2 if n else 1.0,
            ),
            "kappa_temporal": beyond(1.0 - rate, 1.0 - mean(self.no_change)),
            "kappa_majority": beyond(1.0 - rate, 1.0 - mean(self.majority)),
            "kappa_temporal_recent": beyond(
                1.0 - mean(self.wrong[-WINDOW:]), 1.0 - mean(self.no_change[-WINDOW:])
            ),
            "kappa_majority_recent": beyond(
                1.0 - mean(self.wrong[-WINDOW:]), 1.0 - mean(self.majority[-WINDOW:])
            ),
            "log_loss": mean(self.losses),
            "log_loss_fading": faded(self.losses),
        }

    def count(self, c):
        return sum(label == c for label, _ in self.pairs)

    def claimed(self, c):
        return sum(guess == c for _, guess in self.pairs)

    def hits(self, c):
        return sum(label == guess == c for label, guess in self.pairs)


def mean(values):
    return sum(values) / len(values) if values else math.nan


def faded(values):
    weights = [FADING ** (len(values) - 1 - k) for k in range(len(values))]
    return (
        sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        if values
        else math.nan
    )


def beyond(right, chance):
    return math.nan if math.isnan(right) or chance == 1.0 else (right - chance) / (1.0 - chance)


def check_figures(classes, rows):
    wrong, (progress, quality, _) = passed(classes, rows)
    oracle = Oracle(classes, rows)
    assert wrong.dtype == np.uint8
    assert wrong.tolist() == oracle.wrong
    assert figures(progress, quality)._asdict() == pytest.approx(
        oracle.figures(), rel=1e-9, abs=1e-12, nan_ok=True
    )
    for number, events, claimed, precision, recall, f1 in by_class(quality, 9):
        hits = oracle.hits(number)
        assert (events, claimed) == (oracle.count(number), oracle.claimed(number))
        assert (precision, recall, f1) == pytest.approx(
            tuple(
                a / b if b else math.nan
                for a, b in ((hits, claimed), (hits, events), (2 * hits, claimed + events))
            ),
            nan_ok=True,
        )
    assert [entry.number for entry in by_class(quality, 9)] == [
        c for c in range(9) if oracle.count(c) or oracle.claimed(c)
    ]


@some
@given(streams())
def test_all_figures_are_those_by_definition(events):
    check_figures(*events)


@looped("calm", [False, True])
@looped("classes", CLASSES)
def test_the_same_over_a_long_stream(classes, calm):
    check_figures(classes, stream(7, 2600, classes, calm=calm))


@some
@given(streams(), st.lists(st.integers(0, 300), max_size=6))
def test_cuts_change_nothing(events, cuts):
    classes, rows = events
    wrong, parts = passed(classes, rows, [min(cut, len(rows[0])) for cut in cuts])
    expected, others = passed(classes, rows)
    assert wrong.tolist() == expected.tolist()
    assert digest(parts) == digest(others)


@looped("classes", CLASSES)
@looped("size", [1, 7, 64, 1000, 1001])
def test_cuts_change_nothing_over_a_long_stream(classes, size):
    rows = LONG[classes]
    assert digest(passed(classes, rows, range(0, len(rows[0]), size))[1]) == digest(
        passed(classes, rows)[1]
    )


@looped("classes", CLASSES)
@looped("first", [0, 1, 2, 999, 1000, 1001, 3333])
def test_a_restore_changes_nothing_later(classes, first):
    rows = LONG[classes]
    progress, quality, history = passed(classes, [array[:first] for array in rows])[1]
    parts = progress, restore_quality(classes, flatten(quality)), history
    check_together(*parts)
    assess(*parts, *(array[first:] for array in rows))
    assert digest(parts) == digest(passed(classes, rows)[1])


@some
@given(streams(), st.data())
def test_an_outcome_depends_on_nothing_that_comes_later(events, data):
    classes, rows = events
    first = data.draw(st.integers(0, len(rows[0])))
    early = passed(classes, [array[:first] for array in rows])[0]
    assert passed(classes, rows)[0][:first].tolist() == early.tolist()


@some
@given(streams())
def test_figures_write_nothing(events):
    classes, rows = events
    parts = passed(classes, rows)[1]
    before = digest(parts)
    assert repr(figures(*parts[:2])) == repr(figures(*parts[:2]))
    by_class(parts[1], 1)
    assert digest(parts) == before


def test_nothing_seen_means_nothing():
    progress, quality, _ = fresh(0)
    assert all(math.isnan(figure) for figure in figures(progress, quality))
    assert by_class(quality, 16) == []


def confusion(table):
    """Rows of a table of label by guess, without probabilities, one cell after the other."""
    cells = [(label, guess, n) for label, row in enumerate(table) for guess, n in enumerate(row)]
    y = np.repeat([float(label) for label, _, _ in cells], [n for _, _, n in cells])
    guess = np.repeat([guess for _, guess, _ in cells], [n for _, _, n in cells])
    return y, guess, np.full(y.size, np.nan)


def test_cohens_kappa_of_tables_done_by_hand():
    # P₀ = 0.7, pₑ = 0.5·0.6 + 0.5·0.4 = 0.5.
    _, (progress, quality, _) = passed(5, confusion([[20, 5], [10, 15]]))
    assert figures(progress, quality).kappa == pytest.approx(0.4)
    # P₀ = 0.6, pₑ = 0.6·0.7 + 0.4·0.3 = 0.54.
    _, (progress, quality, _) = passed(5, confusion([[45, 15], [25, 15]]))
    assert figures(progress, quality).kappa == pytest.approx(0.06 / 0.46)


def test_figures_of_six_events_done_by_hand():
    # Majority says -, -, -, + (first to have two), + (a tie), -.
    y = np.array([-1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    guess = np.array([-1, -1, 1, 1, -1, -1])
    wrong, (progress, quality, history) = passed(
        0, (y, guess, np.array([0.5, 0.5, 1.0, 1.0, 0.0, np.nan]))
    )
    got = figures(progress, quality)
    assert wrong.tolist() == [0, 1, 0, 1, 0, 0]
    assert whole(history).tolist() == [
        [1, 0, 1, 1],
        [2, 1, 2, 2],
        [3, 1, 3, 2],
        [4, 2, 4, 3],
        [5, 2, 5, 3],
        [6, 2, 5, 3],
    ]
    assert (got.error, got.majority, got.no_change) == (2 / 6, 5 / 6, 3 / 6)
    assert (got.kappa_majority, got.kappa_temporal) == pytest.approx((1 - 2 / 5, 1 - 2 / 3))
    sure = -math.log1p(-1e-6)
    assert got.log_loss == pytest.approx((2 * math.log(2) + 2 * sure - math.log(1e-6)) / 5)
    assert [tuple(entry) for entry in by_class(quality, 2)] == [
        (0, 4, 4, 0.75, 0.75, 0.75),
        (1, 2, 2, 0.5, 0.5, 0.5),
    ]


def test_always_right_on_one_class_has_no_kappa_and_no_recent_baseline_to_beat():
    n = WINDOW + 1
    _, (progress, quality, _) = passed(3, (np.zeros(n), np.zeros(n, np.int64), np.full(n, np.nan)))
    got = figures(progress, quality)
    assert (got.error, got.majority, got.kappa_majority, got.majority_recent) == (
        0.0,
        1 / n,
        1.0,
        0.0,
    )
    assert all(
        math.isnan(figure)
        for figure in (got.kappa, got.kappa_majority_recent, got.kappa_temporal_recent)
    )


def test_a_baseline_has_its_own_kappa_0():
    y = LONG[0][0]
    said = np.concatenate([[-y[0]], y[:-1]])  # no change, wrong at first
    _, (progress, quality, _) = passed(0, (y, said.astype(np.int64), np.full(y.size, np.nan)))
    assert (
        figures(progress, quality).kappa_temporal,
        figures(progress, quality).kappa_temporal_recent,
    ) == (0.0, 0.0)


def test_classes_beyond_the_listed_are_one():
    y = np.array([0.0, 1.0, 1.0, 3.0, 4.0, 4.0])
    _, (_, quality, _) = passed(6, (y, np.array([0, 1, 3, 4, 4, 0]), np.full(6, np.nan)))
    listed = by_class(quality, 2)
    assert [tuple(entry) for entry in listed[:2]] == [
        (0, 1, 2, 0.5, 1.0, 2 / 3),
        (1, 2, 1, 1.0, 0.5, 2 / 3),
    ]
    assert tuple(listed[2]) == (-1, 3, 3, 1 / 3, 1 / 3, 1 / 3)
    assert [entry.number for entry in by_class(quality, 4)] == [0, 1, 3, -1]
    assert [entry.number for entry in by_class(quality, 3)] == [0, 1, -1], (
        "by number: each stays where it is"
    )
    assert [entry.number for entry in by_class(quality, 5)] == [0, 1, 3, 4]


def test_a_label_of_no_class_is_an_error_even_where_no_class_was_guessed():
    wrong, (progress, quality, _) = passed(
        2, (np.array([-1.0, -1.0, 0.0]), np.array([-1, -1, -1]), np.full(3, np.nan))
    )
    assert wrong.tolist() == [1, 1, 1]
    assert (figures(progress, quality).majority, figures(progress, quality).no_change) == (1.0, 1.0)


def test_probabilities_of_0_and_1_cost_no_more_than_the_smallest():
    for p, y, loss in (
        (1.0, -1.0, -math.log(SMALLEST)),
        (0.0, 1.0, -math.log(SMALLEST)),
        (1.0, 1.0, SMALLEST),
    ):
        _, (progress, quality, _) = passed(0, (np.array([y]), np.array([1]), np.array([p])))
        assert figures(progress, quality).log_loss == pytest.approx(loss)


def test_counts_that_begin_late_are_compared_over_the_same_events():
    """An older checkpoint has counts of its own life, and none of quality."""
    y, guess, p = LONG[0]
    progress = passed(0, (y, -y.astype(np.int64), p))[1][0]
    quality, history = fresh_quality(0), fresh_history()
    assess(progress, quality, history, y[:300], guess[:300], p[:300])
    check_together(progress, quality, history)
    alone = passed(0, (y[:300], guess[:300], p[:300]))[1]
    got, expected = figures(progress, quality), figures(*alone[:2])
    assert got._replace(error=0.0, recent=0.0) == expected._replace(error=0.0, recent=0.0)
    assert got.error == (5000 + expected.error * 300) / 5300
    assert got.recent == pytest.approx((700 + expected.recent * 300) / 1000)


@looped("size", [0, 1, 7, 300, WINDOW - 1, WINDOW, WINDOW + 1, 2500])
def test_the_window_holds_the_last_outcomes(size):
    wrong, (progress, _, _) = passed(0, [array[:size] for array in LONG[0]])
    assert (int(progress.events[0]), int(progress.errors[0])) == (size, int(wrong.sum()))
    assert progress.error_rate == int(wrong.sum()) / max(1, size)
    assert progress.recent_error_rate == int(wrong[-WINDOW:].sum()) / max(1, min(WINDOW, size))
    for n in range(max(0, size - WINDOW), size):
        assert progress.recent[n % WINDOW] == wrong[n]


def test_a_score_of_0_says_plus():
    guess = predict_labels(np.array([0.0, 0.0, -0.1, -0.1]))
    assert passed(0, (np.array([1.0, -1.0, 1.0, -1.0]), guess, np.full(4, np.nan)))[0].tolist() == [
        0,
        1,
        1,
        0,
    ]


def test_of_several_classes_the_highest_wins_the_first_on_a_tie_and_an_unseen_one_is_an_error():
    none = -np.inf
    scores = np.array(
        [
            [none, none, none],
            [1.0, none, none],
            [1.0, 1.0, none],
            [1.0, 1.0, none],
            [-2.0, -1.0, none],
        ]
    )
    rows = np.array([0.0, 1.0, 0.0, 1.0, 1.0]), predict_labels(scores), np.full(5, np.nan)
    assert passed(3, rows)[0].tolist() == [1, 1, 0, 1, 0]


def test_a_class_costs_24_bytes():
    size = {
        classes: sum(array.nbytes for array in fresh_quality(classes)) for classes in (0, 64, 65)
    }
    assert size[65] - size[64] == 24
    assert size[0] <= 2200


DAMAGE = {
    "one event more": ("totals", plus([1, 0, 0, 0, 0])),
    "an error more": ("totals", plus([0, 1, 0, 0, 0])),
    "fewer than none": ("totals", lambda a: -a),
    "more than can be": ("totals", put(0, MOST + 1)),
    "more errors than events": ("totals", put(1, 10**6)),
    "the majority is never wrong": ("totals", put(2, 0)),
    "fewer than in the window": ("totals", put(3, 10)),
    "more than before the window": ("totals", put(3, 1200)),
    "more scored than events": ("totals", put(4, 1201)),
    "none scored": ("totals", put(4, 0)),
    "a class without a place": ("said", put(0, 5)),
    "below none": ("said", put(1, -2)),
    "not the most frequent": ("said", lambda a: (a + 1) % 2),
    "no majority": ("said", put(0, -1)),
    "an outcome of 2": ("outcomes", put((0, 3), 2)),
    "no errors of late": ("outcomes", lambda a: a * 0),
    "nothing but errors": ("outcomes", lambda a: a * 0 + 1),
    "nan": ("sums", lambda a: a * np.nan),
    "infinite": ("sums", put(2, np.inf)),
    "too much mass": ("sums", put(0, 1100.0)),
    "more wrong than mass": ("sums", put(1, 1010.0)),
    "negative errors": ("sums", put(1, -0.1)),
    "a loss below the smallest": ("sums", put(2, 0.0)),
    "too much mass of scored": ("sums", put(3, 990.0)),
    "a fading loss beyond the worst": ("sums", put(4, 1e5)),
    "an event of a class more": ("classes", plus([[1, 0], [0, 0], [0, 0]])),
    "events of another class": ("classes", plus([[1, -1], [0, 0], [0, 0]])),
    "a hit more": ("classes", plus([[0, 0], [0, 0], [1, 0]])),
    "more hits than guesses": ("classes", plus([[0, 0], [0, 0], [5000, -5000]])),
    "negative": ("classes", lambda a: -a),
    "overflow": ("classes", put((0, 0), 2**63 - 1)),
    "shape": ("classes", lambda a: a[:, :1]),
    "type": ("sums", lambda a: a.astype(np.int64)),
}


@looped(("name", "change"), DAMAGE.values(), ids=DAMAGE)
def test_what_no_events_lead_to_is_refused(name, change):
    arrays = flatten(passed(0, [array[:1200] for array in LONG[0]])[1][1])
    restore_quality(0, arrays)
    with pytest.raises(ValueError, match=r"corrupt checkpoint|this learner has"):
        restore_quality(0, arrays | {name: change(arrays[name])})


SEVERAL = {
    "a class beyond the most there can be": ("classes", plus([[0, 0, 1], [0, 0, 0], [0, 0, 0]])),
    "more labels than events": ("classes", plus([[3000, 3000, 0], [0, 0, 0], [0, 0, 0]])),
    "more guesses than events": ("classes", plus([[0, 0, 0], [3000, 3000, 0], [0, 0, 0]])),
    "a last label that never came": ("said", put(1, 2)),
}


@looped(("name", "change"), SEVERAL.values(), ids=SEVERAL)
def test_the_same_of_several_classes(name, change):
    arrays = flatten(passed(2, LONG[2])[1][1])
    restore_quality(2, arrays)
    with pytest.raises(ValueError, match="corrupt checkpoint"):
        restore_quality(2, arrays | {name: change(arrays[name])})


def test_an_outcome_of_an_event_that_has_not_come_is_refused():
    arrays = flatten(passed(0, [array[:5] for array in LONG[0]])[1][1])
    restore_quality(0, arrays)
    outcomes = arrays["outcomes"].copy()
    outcomes[:, [0, 900]] = outcomes[:, [900, 0]]
    with pytest.raises(ValueError, match="corrupt checkpoint"):
        restore_quality(0, arrays | {"outcomes": outcomes})


def test_arrays_of_another_number_of_classes_are_refused():
    arrays = flatten(fresh_quality(0))
    for classes in (2, 3, 64):
        with pytest.raises(ValueError, match="this learner has"):
            restore_quality(classes, arrays)


@some
@given(
    st.sampled_from(CLASSES),
    st.sampled_from(["totals", "said", "outcomes", "sums", "classes"]),
    st.data(),
)
def test_any_damage_is_refused_or_harmless(classes, name, data):
    """What is taken can be gone on with: figures are numbers, and no count is put outside of the
    arrays.
    """
    rows, length = LONG[classes], data.draw(st.sampled_from([0, 5, 1500]))
    arrays = flatten(passed(classes, [array[:length] for array in rows])[1][1])
    damaged = arrays[name].copy()
    values = {
        "f": st.one_of(st.floats(), st.floats(-2, 2000)),
        "i": st.one_of(st.integers(-5, 2000), st.integers(-(2**63), 2**63 - 1)),
        "u": st.integers(0, 255),
    }
    damaged.flat[data.draw(st.integers(0, damaged.size - 1))] = data.draw(
        values[damaged.dtype.kind]
    )
    try:
        quality = restore_quality(classes, arrays | {name: damaged})
    except ValueError:
        return
    progress = fresh_progress()
    for _ in range(2):
        got = figures(progress, quality)
        assert all(
            math.isnan(rate) or 0.0 <= rate <= 1.0
            for rate in (got.fading, got.majority, got.no_change)
        )
        assert math.isnan(got.log_loss) or 0.0 < got.log_loss < 14.0
        assert all(entry.events >= 0 and not entry.f1 > 1.0 for entry in by_class(quality, 3))
        assess(progress, quality, fresh_history(), *(array[:1200] for array in rows))


def test_parts_of_different_events_are_refused():
    one, other = (passed(0, [array[:n] for array in LONG[0]])[1] for n in (1000, 1400))
    check_together(*one)
    check_together(other[0], *one[1:])  # quality began late
    for parts in ((one[0], *other[1:]), (*one[:2], other[2]), (*other[:2], one[2])):
        with pytest.raises(ValueError, match="not of the same events"):
            check_together(*parts)
    y, guess, p = LONG[0]
    worse = passed(0, (y[:1000], -guess[:1000], p[:1000]))[1]
    for parts in ((worse[0], *one[1:]), (*one[:2], worse[2])):
        with pytest.raises(ValueError, match="not of the same events"):
            check_together(*parts)
    assert len(latest(one[2])) == 5
