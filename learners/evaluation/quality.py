"""Quality measures: errors against two baselines that learn nothing, errors per class, log loss and
fading errors.

Everything is computed from the label and the prediction made before the update. The baselines are
*majority*, which predicts the most frequent class so far, and *no change*, which predicts the last
class again. Both are wrong at the first event. The kappas of Bifet et al. (KDD 2015) say what share
of a baseline's errors a model avoids; below 0 it is worse. Errors fade as in Gama, Sebastião &
Rodrigues (Machine Learning 2013). Batches and restores make no difference, bit for bit.
"""

import math
from typing import NamedTuple

import numpy as np

from learners.batch import Array, Flags, Ints
from learners.evaluation.history import STEP, History, due, mark
from learners.evaluation.progress import WINDOW, Progress
from learners.jit import kernel

FADING = 0.999
"""Factor by which the weight of the past shrinks per event. The last few thousand events
dominate."""

SMALLEST = 1e-6
"""Probabilities are clipped to this and 1 − this. Otherwise one event with probability 0 would make
the log loss infinite from then on."""

EVENTS, ERRORS, MAJORITY, NO_CHANGE, SCORED = 0, 1, 2, 3, 4
"""Indices into `Quality.totals`; the first four are a point of the history."""

MASS, WRONG, LOSSES, SCORED_MASS, SCORED_LOSSES = 0, 1, 2, 3, 4
"""Indices into `Quality.sums`."""

ACTUAL, GUESSED, HITS = 0, 1, 2
"""Rows of `Quality.classes`."""

NONE = -1
"""No class."""


class Quality(NamedTuple):
    """Counts of quality. Older checkpoints lack them, so they may begin later than `Progress`.

    There are few arrays, because each one costs time in every call of a kernel.
    """

    totals: Ints
    """Events, errors, errors of majority, errors of no change, and events with a probability."""
    said: Ints
    """The next predictions of majority and of no change. NONE before the first event."""
    outcomes: Flags
    """The last WINDOW outcomes of majority and of no change. Rings: event n is at index n mod
    WINDOW."""
    sums: Array
    """Fading mass of events and of errors; sum of log losses; fading mass of events with a
    probability, and of their losses."""
    classes: Ints
    """Events of each class, events predicted as it, and events that are both."""


class Figures(NamedTuple):
    """Rates and kappas.

    NaN where a figure has no meaning yet. `error` and `recent` come from `Progress`, which may have
    begun before the other counts.
    """

    error: float
    recent: float
    fading: float
    majority: float
    majority_recent: float
    no_change: float
    no_change_recent: float
    kappa: float
    kappa_temporal: float
    kappa_majority: float
    kappa_temporal_recent: float
    kappa_majority_recent: float
    log_loss: float
    log_loss_fading: float


class ClassFigures(NamedTuple):
    """Figures of one class. NaN where there is nothing to divide by."""

    number: int
    """Class number. NONE: all classes that are not listed, together."""
    events: int
    predicted: int
    precision: float
    recall: float
    f1: float


def fresh_quality(classes: int) -> Quality:
    """Counts for labels −1 and +1 if `classes` is 0, otherwise for up to `classes` classes.

    Two columns mean binary counts, in which −1 is a class. With several classes it is none.
    """
    columns = max(3, classes) if classes else 2
    return Quality(
        np.zeros(5, np.int64),
        np.full(2, NONE, np.int64),
        np.zeros((2, WINDOW), np.uint8),
        np.zeros(5),
        np.zeros((3, columns), np.int64),
    )


def assess(
    progress: Progress, quality: Quality, history: History, y: Array, guess: Ints, p: Array
) -> Flags:
    """Count each row in all counts, in order. Return 1 where the label was predicted wrongly.

    `p` is the probability given before the update: of label +1, or with several classes of a right
    prediction. NaN means none, which counts in no loss. A label without a class is an error of the
    model and of both baselines, whatever was predicted.
    """
    events, errors, recent = progress
    totals, said, outcomes, sums, classes = quality
    # pass the arrays one by one: numba takes twice as long with a named tuple
    marked, life, near = history
    return _assess(
        events,
        errors,
        recent,
        totals,
        said,
        outcomes,
        sums,
        classes,
        marked,
        life,
        near,
        y,
        guess,
        p,
    )


def figures(progress: Progress, quality: Quality) -> Figures:
    """All rates as of now."""
    events, errors, majority, no_change, scored = quality.totals.tolist()
    lived, near = int(progress.events[0]), min(events, WINDOW)
    recent = int(progress.recent[np.arange(lived - near, lived) % WINDOW].sum())
    recent_majority, recent_no_change = quality.outcomes.sum(axis=1).tolist()
    sums = quality.sums.tolist()
    return Figures(
        error=_ratio(int(progress.errors[0]), lived),
        recent=_ratio(int(progress.recent.sum()), min(lived, WINDOW)),
        fading=_ratio(sums[WRONG], sums[MASS]),
        majority=_ratio(majority, events),
        majority_recent=_ratio(recent_majority, near),
        no_change=_ratio(no_change, events),
        no_change_recent=_ratio(recent_no_change, near),
        kappa=_cohen(quality),
        kappa_temporal=1.0 - _ratio(errors, no_change),
        kappa_majority=1.0 - _ratio(errors, majority),
        kappa_temporal_recent=1.0 - _ratio(recent, recent_no_change),
        kappa_majority_recent=1.0 - _ratio(recent, recent_majority),
        log_loss=_ratio(sums[LOSSES], scored),
        log_loss_fading=_ratio(sums[SCORED_LOSSES], sums[SCORED_MASS]),
    )


def by_class(quality: Quality, most: int) -> list[ClassFigures]:
    """Figures of the classes numbered below `most` that occurred or were predicted, then of all
    others as one.
    """
    met = np.flatnonzero(quality.classes.any(axis=0))
    first, others = met[met < most], met[met >= most]
    listed = [_class_figures(quality, first[k : k + 1], int(first[k])) for k in range(first.size)]
    return [*listed, _class_figures(quality, others, NONE)] if others.size else listed


def _class_figures(quality: Quality, columns: Ints, number: int) -> ClassFigures:
    actual, guessed, hits = quality.classes[:, columns].sum(axis=1).tolist()
    f1 = _ratio(2 * hits, actual + guessed)
    return ClassFigures(number, actual, guessed, _ratio(hits, guessed), _ratio(hits, actual), f1)


def _cohen(quality: Quality) -> float:
    """κ = (p₀ − pₑ)/(1 − pₑ), where pₑ is the accuracy of random predictions with the same
    frequencies (Cohen, 1960).
    """
    events = float(quality.totals[EVENTS])
    actual, guessed, hits = quality.classes.astype(np.float64)
    chance = float((actual * guessed).sum())
    return _ratio(events * float(hits.sum()) - chance, events * events - chance)


def _ratio(part: float, base: float) -> float:
    return part / base if base else math.nan


@kernel
def _assess(
    events: Ints,
    errors: Ints,
    recent: Flags,
    totals: Ints,
    said: Ints,
    outcomes: Flags,
    sums: Array,
    classes: Ints,
    marked: Ints,
    life: Ints,
    near: Ints,
    y: Array,
    guess: Ints,
    p: Array,
) -> Flags:
    columns = classes.shape[1]
    wrongs = np.empty(y.size, np.uint8)
    for t in range(y.size):
        c, g = _class(y[t], columns), _class(guess[t], columns)
        wrong, majority, no_change = _is_miss(g, c), _is_miss(said[0], c), _is_miss(said[1], c)
        wrongs[t] = wrong
        recent[events[0] % WINDOW] = wrong
        events[0] += 1
        errors[0] += wrong

        n = totals[EVENTS] % WINDOW
        outcomes[0, n] = majority
        outcomes[1, n] = no_change
        totals[EVENTS] += 1
        totals[ERRORS] += wrong
        totals[MAJORITY] += majority
        totals[NO_CHANGE] += no_change
        marked[EVENTS] += 1
        if due(marked[EVENTS], marked[STEP]):
            mark(marked, life, near, totals)

        sums[MASS] = FADING * sums[MASS] + 1.0
        sums[WRONG] = FADING * sums[WRONG] + wrong
        if not math.isnan(p[t]):
            came = c == 1 if columns == 2 else wrong == 0
            q = min(max(p[t], SMALLEST), 1.0 - SMALLEST)
            loss = -math.log(q if came else 1.0 - q)
            totals[SCORED] += 1
            sums[LOSSES] += loss
            sums[SCORED_MASS] = FADING * sums[SCORED_MASS] + 1.0
            sums[SCORED_LOSSES] = FADING * sums[SCORED_LOSSES] + loss

        if g != NONE:
            classes[GUESSED, g] += 1
        if c != NONE:
            classes[ACTUAL, c] += 1
            classes[HITS, c] += 1 - wrong
            # on a tie, the class that was ahead first stays ahead
            if said[0] == NONE or classes[ACTUAL, c] > classes[ACTUAL, said[0]]:
                said[0] = c
        said[1] = c
    return wrongs


@kernel
def _class(number: float, columns: int) -> int:
    """Column of a label or prediction. NONE if it has none."""
    if columns == 2:
        return 1 if number > 0 else 0
    c = int(number)
    return c if 0 <= c < columns else NONE


@kernel
def _is_miss(said: int, c: int) -> int:
    return 0 if said == c and c != NONE else 1
