"""Every figure of quality equals its definition over a list of all events."""

import math

import numpy as np
import pytest
from hypothesis import given

from learners.evaluation.progress import WINDOW
from learners.evaluation.quality import FADING, by_class, figures
from tests.examples import examples
from tests.learners.quality_streams import CLASSES, LONG, assess_stream, stream, streams
from tests.looped import looped

some = examples(60)


class Oracle:
    """All outcomes in lists, from which each figure is computed by its definition."""

    def __init__(self, classes, rows):
        self.pairs, self.wrong, self.majority, self.no_change, self.losses = [], [], [], [], []
        came, reached = [], {}
        for label, guess, p in zip(*(array.tolist() for array in rows), strict=True):
            c, g = (
                ({-1: 0, 1: 1}[int(label)], {-1: 0, 1: 1}[guess])
                if classes == 0
                else (int(label), guess)
            )
            # most frequent; of equals, the first to reach the count
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
            "fading": fading_mean(self.wrong),
            "majority": mean(self.majority),
            "majority_recent": mean(self.majority[-WINDOW:]),
            "no_change": mean(self.no_change),
            "no_change_recent": mean(self.no_change[-WINDOW:]),
            "kappa": kappa(
                1.0 - rate,
                sum(self.count(c) * self.claimed(c) for c in range(9)) / n**2 if n else 1.0,
            ),
            "kappa_temporal": kappa(1.0 - rate, 1.0 - mean(self.no_change)),
            "kappa_majority": kappa(1.0 - rate, 1.0 - mean(self.majority)),
            "kappa_temporal_recent": kappa(
                1.0 - mean(self.wrong[-WINDOW:]), 1.0 - mean(self.no_change[-WINDOW:])
            ),
            "kappa_majority_recent": kappa(
                1.0 - mean(self.wrong[-WINDOW:]), 1.0 - mean(self.majority[-WINDOW:])
            ),
            "log_loss": mean(self.losses),
            "log_loss_fading": fading_mean(self.losses),
        }

    def count(self, c):
        return sum(label == c for label, _ in self.pairs)

    def claimed(self, c):
        return sum(guess == c for _, guess in self.pairs)

    def hits(self, c):
        return sum(label == guess == c for label, guess in self.pairs)


def mean(values):
    return sum(values) / len(values) if values else math.nan


def fading_mean(values):
    weights = [FADING ** (len(values) - 1 - k) for k in range(len(values))]
    return (
        sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        if values
        else math.nan
    )


def kappa(right, chance):
    return math.nan if math.isnan(right) or chance == 1.0 else (right - chance) / (1.0 - chance)


def check_figures(classes, rows):
    wrong, (progress, quality, _) = assess_stream(classes, rows)
    oracle = Oracle(classes, rows)
    assert wrong.dtype == np.uint8
    assert wrong.tolist() == oracle.wrong
    # Counts are exact; a kappa divides differences of rates, which are at least 1/300².
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
def test_all_figures_follow_their_definition(events):
    check_figures(*events)


@looped("calm", [False, True])
@looped("classes", CLASSES)
def test_all_figures_follow_their_definition_over_a_long_stream(classes, calm):
    check_figures(classes, stream(7, 2600, classes, calm=calm))


@looped("size", [0, 1, 7, 300, WINDOW - 1, WINDOW, WINDOW + 1, 2500])
def test_the_window_holds_the_last_outcomes(size):
    wrong, (progress, _, _) = assess_stream(0, [array[:size] for array in LONG[0]])
    assert (int(progress.events[0]), int(progress.errors[0])) == (size, int(wrong.sum()))
    assert progress.error_rate == int(wrong.sum()) / max(1, size)
    assert progress.recent_error_rate == int(wrong[-WINDOW:].sum()) / max(1, min(WINDOW, size))
    for n in range(max(0, size - WINDOW), size):
        assert progress.recent[n % WINDOW] == wrong[n]
