"""Kernels written from the thesis, sections 2.3 and 2.5: of dense rows, and of bracketed trees by
plain recursion.
"""

import functools
import math

import numpy as np


def kernel(spec):
    """Return K(a, b) of rows with an attribute `tree`, from a learner's parameters."""
    vector = VECTORS[spec["kernel"].removeprefix("tree+")]
    weights = (spec["vector_weight"], spec["tree_weight"]) if "+" in spec["kernel"] else (1.0, 1.0)

    def similarity(a, b):
        total = 0.0
        if vector is not None:
            one = normalise(vector) if spec["normalise"] == "both" else vector
            # Kernels do not see the bias.
            total += weights[0] * one(np.asarray(a)[1:], np.asarray(b)[1:], spec)
        if "tree" in spec["kernel"]:
            one = trees if spec["normalise"] == "none" else normalise(trees)
            total += weights[1] * one(a.tree, b.tree, spec)
        return total

    return similarity


VECTORS = {
    "linear": lambda a, b, _: a @ b,
    "polynomial": lambda a, b, spec: (spec["s"] * (a @ b) + spec["c"]) ** spec["d"],
    "rbf": lambda a, b, spec: math.exp(-spec["gamma"] * ((a - b) @ (a - b))),
    "sigmoid": lambda a, b, spec: math.tanh(spec["s"] * (a @ b) + spec["c"]),
    "tree": None,
}


def normalise(K):
    def divide(a, b, spec):
        aa, bb = K(a, a, spec), K(b, b, spec)
        return K(a, b, spec) / math.sqrt(aa * bb) if aa > 0 and bb > 0 else 0.0

    return divide


def trees(one, other, spec):
    """Return Σ Δ(n1, n2) over all pairs of inner nodes."""
    if one is None or other is None:
        return 0.0
    pair = one, other, spec["lam"]
    if pair not in COMPARED:
        COMPARED[pair] = sum(
            delta(a, b, pair[2]) for a in inner(parse(one)) for b in inner(parse(other))
        )
    return COMPARED[pair]


COMPARED = {}
"""Cache of results: the tests compare the same few trees often."""


def delta(a, b, lam):
    if production(a) != production(b):
        return 0.0
    result = lam
    for mine, theirs in zip(a[1], b[1], strict=True):
        if mine[1]:
            result *= 1.0 + delta(mine, theirs, lam)
    return result


def production(node):
    return (node[0], [(child[0], bool(child[1])) for child in node[1]])


def inner(node):
    return [node, *(below for child in node[1] for below in inner(child))] if node[1] else []


@functools.cache
def parse(text):
    """Parse a bracketed text into (label, children); a word is a node without children."""
    tokens = text.replace("(", " ( ").replace(")", " ) ").split()

    def node(place):
        label, children, place = tokens[place + 1], [], place + 2
        while tokens[place] != ")":
            if tokens[place] == "(":
                child, place = node(place)
            else:
                child, place = (tokens[place], []), place + 1
            children.append(child)
        return (label, children), place + 1

    return node(0)[0]
