"""Bollegala 5.3, McKenna 6.1: a binary learner for each class, from the first event with its label
on.
"""

import numpy as np


class Oracle:
    def __init__(self, base, max_classes):
        self.base, self.max_classes = base, max_classes
        self.classes = {}

    def score(self, x):
        scores = np.full(self.max_classes, -np.inf)
        for c, learner in self.classes.items():
            scores[c] = learner.score(x)
        return scores

    def learn(self, x, y, c):
        self.classes.setdefault(int(y), self.base())
        moved = [learner.learn(x, 1 if k == y else -1, c) for k, learner in self.classes.items()]
        return any(moved)

    def weights(self):
        return {k: learner.weights() for k, learner in self.classes.items()}
