"""What errors are worth: beside two baselines that learn nothing, by class, as probabilities, and as they fade.

All is counted from the label and from what was said of it before the update. The baselines are *majority*, which says
the class that came most often so far, and *no change*, which says the last one again; both are wrong at first.
The kappas of Bifet et al. (KDD 2015) tell how much of a baseline's errors a model avoids: below 0 it is worse. Errors
fade as in Gama, Sebastião & Rodrigues (Machine Learning 2013). Cuts and restores change nothing, bit for bit.
"""

import math
from typing import NamedTuple

import numpy as np

from learners.batch import Array, Flags, Ints
from learners.evaluation import WINDOW, Progress
from learners.history import STEP, History, due, mark
from learners.kernels import kernel

FADING = 0.999
"""What the past keeps of its weight with each event: the last few thousand decide."""

SMALLEST = 1e-6
"""Probabilities are taken as at least this, and at most 1 − this: one event that was said to be impossible would make
the loss infinite for ever."""

EVENTS, ERRORS, MAJORITY, NO_CHANGE, SCORED = 0, 1, 2, 3, 4
"""Places in `Quality.totals`; the first four are a point of the history."""

MASS, WRONG, LOSSES, SCORED_MASS, SCORED_LOSSES = 0, 1, 2, 3, 4
"""Places in `Quality.sums`."""

ACTUAL, GUESSED, HITS = 0, 1, 2
"""Rows of `Quality.classes`."""

NONE = -1
"""No class."""


class Quality(NamedTuple):
    """Counts, which may begin later than those of `Progress`: older checkpoints have only the latter.

    Few arrays, since each costs time in every call of a kernel.
    """

    totals: Ints
    """Events, errors, the majority's errors, no change's errors, and events that had a probability."""
    said: Ints
    """What majority and no change say next; NONE before the first event."""
    outcomes: Flags
    """The last WINDOW of majority and of no change: rings in which event n has place n mod WINDOW."""
    sums: Array
    """Fading mass of events and of errors; log losses; fading mass of events with a probability, and their losses."""
    classes: Ints
    """Events of each class, events that were said to be of it, and those that were both."""


def fresh_quality(classes: int) -> Quality:
    """For labels −1 and +1 if `classes` is 0, else for so many at most; only the former has two places.

    The shape alone tells: −1 is a class of a binary label, and none of several.
    """
    places = max(3, classes) if classes else 2
    return Quality(
        np.zeros(5, np.int64),
        np.full(2, NONE, np.int64),
        np.zeros((2, WINDOW), np.uint8),
        np.zeros(5),
        np.zeros((3, places), np.int64),
    )


class Figures(NamedTuple):
    """Rates and kappas; NaN where one has no meaning yet. `error` and `recent` are of the whole life."""

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
    """How well a class is told from the others; NaN where there is nothing to divide by."""

    number: int
    """NONE: all classes that are not listed, together."""
    events: int
    predicted: int
    precision: float
    recall: float
    f1: float


def assess(progress: Progress, quality: Quality, history: History, y: Array, guess: Ints, p: Array) -> Flags:
    """Row by row: count it everywhere; returns 1 where the label was wrong.

    Probabilities are those given before the update, NaN for none, which counts in no loss: binary, that +1 comes; of
    several classes, that the guess is right, so that the loss is that of being right or wrong. A label without a class
    is an error of all, whatever was guessed.
    """
    events, errors, recent = progress
    totals, said, outcomes, sums, classes = quality
    marked, life, near = history  # arrays one by one: numba takes a named tuple twice as slowly
    return _assess(events, errors, recent, totals, said, outcomes, sums, classes, marked, life, near, y, guess, p)


def figures(progress: Progress, quality: Quality) -> Figures:
    """All rates at this moment."""
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
    """Of the classes with the first numbers, those that have come or been guessed; then of all others as one."""
    met = np.flatnonzero(quality.classes.any(axis=0))
    first, others = met[met < most], met[met >= most]
    listed = [_of(quality, first[k : k + 1], int(first[k])) for k in range(first.size)]
    return [*listed, _of(quality, others, NONE)] if others.size else listed


def _of(quality: Quality, places: Ints, number: int) -> ClassFigures:
    actual, guessed, hits = quality.classes[:, places].sum(axis=1).tolist()
    f1 = _ratio(2 * hits, actual + guessed)
    return ClassFigures(number, actual, guessed, _ratio(hits, guessed), _ratio(hits, actual), f1)


def _cohen(quality: Quality) -> float:
    """κ = (p₀ − pₑ)/(1 − pₑ), pₑ: guesses of the same frequencies that know nothing are right (Cohen, 1960)."""
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
    places = classes.shape[1]
    wrongs = np.empty(y.size, np.uint8)
    for t in range(y.size):
        c, g = _class(y[t], places), _class(guess[t], places)
        wrong, majority, no_change = _missed(g, c), _missed(said[0], c), _missed(said[1], c)
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
            came = c == 1 if places == 2 else wrong == 0
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
            # on a tie the class stays that had so many first
            if said[0] == NONE or classes[ACTUAL, c] > classes[ACTUAL, said[0]]:
                said[0] = c
        said[1] = c
    return wrongs


@kernel
def _class(number: float, places: int) -> int:
    """The place of a label or guess; NONE if it has none."""
    if places == 2:
        return 1 if number > 0 else 0
    c = int(number)
    return c if 0 <= c < places else NONE


@kernel
def _missed(said: int, c: int) -> int:
    return 0 if said == c and c != NONE else 1
