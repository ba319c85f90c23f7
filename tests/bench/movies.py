"""F1 of MBW and its rivals on movie reviews: Carvalho & Cohen's main result, one pass, 5-fold, ten
orders.

Needs ONEPASS_DATA; `make papers` runs it. Word counts, no scaling; PA-II with their γ = 0.1, i.e. C
= 5.
"""

import os
from pathlib import Path

import numpy as np

from learners.evaluation.progress import report
from learners.registry import make
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, batch
from service.files import events, scan

LEARNERS = ("mbw", "winnow-balanced", "winnow", "pa2:C=5", "pa1", "romma", "perceptron")
FOLDS, SEEDS = 5, 10


def main():
    file = scan(Path(os.environ["ONEPASS_DATA"]) / "movie_reviews_v1.jsonl.gz", text=["text"])
    decoder = Decoder(Features(text=("text",), bits=20), Label(positive="pos"), Limits())
    rows = [decoder.event(value) for value in events(file)]
    X = batch(rows).validate(decoder.slots.dim)
    y = np.array([1.0 if row.label == "pos" else -1.0 for row in rows])
    fold = np.empty(y.size, int)
    for label in (1.0, -1.0):  # every fold has equally many rows of each class
        places = np.flatnonzero(y == label)
        fold[places] = np.arange(places.size) % FOLDS
    for spec in LEARNERS:
        learner = make(spec)
        means = [
            np.mean([f1(learner, decoder.slots.dim, X, y, fold == k, seed) for k in range(FOLDS)])
            for seed in range(SEEDS)
        ]
        print(
            f"{spec:16} F1 {np.mean(means):.4f} ± {np.std(means):.4f} over {SEEDS} orders",
            flush=True,
        )


def f1(learner, dim, X, y, held_out, seed):
    order = np.random.default_rng(seed).permutation(np.flatnonzero(~held_out))
    state = learner.init(dim)
    learner.learn(state, reorder(X, order), y[order])
    places = np.flatnonzero(held_out)
    return report(y[places], learner.scores(state, reorder(X, places))).f1


def reorder(X, places):
    """Return the rows of these places, in this order."""
    parts = [X.rows(place, place + 1) for place in places]
    return type(X).from_rows([(part.indices.tolist(), part.values.tolist()) for part in parts])


if __name__ == "__main__":
    main()
