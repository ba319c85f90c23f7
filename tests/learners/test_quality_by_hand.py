"""Kappas, losses and outcomes of small cases that are worked out by hand."""

import math

import numpy as np
import pytest

from learners.evaluation.history import whole
from learners.evaluation.progress import WINDOW, predict_labels
from learners.evaluation.quality import SMALLEST, by_class, figures
from tests.learners.quality_streams import LONG, assess_stream, fresh


def test_without_events_every_figure_is_nan():
    progress, quality, _ = fresh(0)
    assert all(math.isnan(figure) for figure in figures(progress, quality))
    assert by_class(quality, 16) == []


def confusion(table):
    """Return the rows of a table of label by guess, without probabilities, one cell after the
    other.
    """
    cells = [(label, guess, n) for label, row in enumerate(table) for guess, n in enumerate(row)]
    y = np.repeat([float(label) for label, _, _ in cells], [n for _, _, n in cells])
    guess = np.repeat([guess for _, guess, _ in cells], [n for _, _, n in cells])
    return y, guess, np.full(y.size, np.nan)


def test_cohens_kappa_equals_tables_by_hand():
    # P₀ = 0.7, pₑ = 0.5·0.6 + 0.5·0.4 = 0.5.
    _, (progress, quality, _) = assess_stream(5, confusion([[20, 5], [10, 15]]))
    assert figures(progress, quality).kappa == pytest.approx(0.4)
    # P₀ = 0.6, pₑ = 0.6·0.7 + 0.4·0.3 = 0.54.
    _, (progress, quality, _) = assess_stream(5, confusion([[45, 15], [25, 15]]))
    assert figures(progress, quality).kappa == pytest.approx(0.06 / 0.46)


def test_figures_of_six_events_equal_those_by_hand():
    # The majority baseline says -, -, -, + (first to reach two), + (a tie), -.
    y = np.array([-1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    guess = np.array([-1, -1, 1, 1, -1, -1])
    wrong, (progress, quality, history) = assess_stream(
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


def test_kappas_of_a_single_class_are_nan():
    n = WINDOW + 1
    _, (progress, quality, _) = assess_stream(
        3, (np.zeros(n), np.zeros(n, np.int64), np.full(n, np.nan))
    )
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


def test_the_no_change_baseline_has_temporal_kappa_0():
    y = LONG[0][0]
    said = np.concatenate([[-y[0]], y[:-1]])  # the no-change baseline, wrong at first
    _, (progress, quality, _) = assess_stream(
        0, (y, said.astype(np.int64), np.full(y.size, np.nan))
    )
    assert (
        figures(progress, quality).kappa_temporal,
        figures(progress, quality).kappa_temporal_recent,
    ) == (0.0, 0.0)


def test_classes_beyond_the_listed_are_reported_as_one():
    y = np.array([0.0, 1.0, 1.0, 3.0, 4.0, 4.0])
    _, (_, quality, _) = assess_stream(6, (y, np.array([0, 1, 3, 4, 4, 0]), np.full(6, np.nan)))
    listed = by_class(quality, 2)
    assert [tuple(entry) for entry in listed[:2]] == [
        (0, 1, 2, 0.5, 1.0, 2 / 3),
        (1, 2, 1, 1.0, 0.5, 2 / 3),
    ]
    assert tuple(listed[2]) == (-1, 3, 3, 1 / 3, 1 / 3, 1 / 3)
    assert [entry.number for entry in by_class(quality, 4)] == [0, 1, 3, -1]
    assert [entry.number for entry in by_class(quality, 3)] == [0, 1, -1], (
        "listed classes must keep their order by number"
    )
    assert [entry.number for entry in by_class(quality, 5)] == [0, 1, 3, 4]


def test_a_label_of_no_class_is_always_an_error():
    wrong, (progress, quality, _) = assess_stream(
        2, (np.array([-1.0, -1.0, 0.0]), np.array([-1, -1, -1]), np.full(3, np.nan))
    )
    assert wrong.tolist() == [1, 1, 1]
    assert (figures(progress, quality).majority, figures(progress, quality).no_change) == (1.0, 1.0)


def test_the_log_loss_of_probabilities_0_and_1_is_bounded():
    for p, y, loss in (
        (1.0, -1.0, -math.log(SMALLEST)),
        (0.0, 1.0, -math.log(SMALLEST)),
        (1.0, 1.0, SMALLEST),
    ):
        _, (progress, quality, _) = assess_stream(0, (np.array([y]), np.array([1]), np.array([p])))
        assert figures(progress, quality).log_loss == pytest.approx(loss)


def test_a_score_of_0_predicts_the_positive_class():
    guess = predict_labels(np.array([0.0, 0.0, -0.1, -0.1]))
    assert assess_stream(0, (np.array([1.0, -1.0, 1.0, -1.0]), guess, np.full(4, np.nan)))[
        0
    ].tolist() == [
        0,
        1,
        1,
        0,
    ]


def test_the_highest_class_wins_and_an_unseen_class_is_an_error():
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
    assert assess_stream(3, rows)[0].tolist() == [1, 1, 0, 1, 0]
