"""`onepass bench kernels`: the cost of comparing a row or a tree with a large support set."""

import gzip
import os
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from learners.batch import Batch, Trees
from learners.kernel.support import add
from learners.kernel.tree_parser import flatten_tree
from learners.registry import make
from service.bench.report import Bar, document, time_interleaved

STORED, COLUMNS, SCORED = 5_000, 128, 16
TREES = 2_000
QUESTIONS = "trec_qc_deptrees.jsonl.gz"
LAM = 0.4

ONE_THREAD = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""Environment variables that limit NumPy's products to one thread. NumPy reads them at import, so
they need a new process."""

Node = tuple[str, tuple[str, ...], tuple["Node", ...]]
"""A label, the labels of all children, and the children that are inner nodes."""


def bench_kernels(*, quick: bool) -> dict[str, Any]:
    rows = run_in_one_thread(rbf, 50 if quick else 400)
    trees = run_in_one_thread(tree_pairs, 20 if quick else 100, 3 if quick else 7)
    bars = [
        Bar(
            "RBF, one row against 5,000 of 128 columns, times NumPy's product and exp",
            rows["ratio"],
            "<=",
            2.0,
        ),
        Bar("tree kernel, pairs per second, times a plain recursion", trees["ratio"], ">=", 50.0),
    ]
    return document({"microseconds_per_row": rows, "pairs_of_trees_per_second": trees}, bars)


def run_in_one_thread(
    function: Callable[..., dict[str, float]], *arguments: int
) -> dict[str, float]:
    """Call `function` in a process whose matrix products use one thread."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(function, *arguments).result()
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def rbf(rounds: int) -> dict[str, float]:
    """Return microseconds per scored row, ours and NumPy's, measured alternately."""
    draws = np.random.default_rng(0)
    A, Q = draws.normal(size=(STORED, COLUMNS)), draws.normal(size=(SCORED, COLUMNS))
    gamma = 1.0 / COLUMNS
    learner = make(f"k-perceptron:gamma={gamma},width={COLUMNS},max_support={STORED}")
    state = learner.init(COLUMNS + 1)
    X = _dense_batch(A)
    squares = (A * A).sum(axis=1)
    for t in range(STORED):
        add(state.support, X, t, 1.0 if t % 2 else -1.0, squares[t], 0.0)
    a, rows = state.support.a.copy(), _dense_batch(Q)

    def plain() -> list[float]:
        return [float(np.exp(-gamma * (squares - 2.0 * (A @ x) + x @ x)) @ a) for x in Q]

    if not np.allclose(learner.scores(state, rows), plain(), rtol=1e-9, atol=1e-9):
        raise RuntimeError("the two computations disagree, so their times mean nothing")
    taken = time_interleaved(
        {"onepass": lambda: learner.scores(state, rows), "numpy": plain}, rounds
    )
    micros = {name: 1e6 * seconds / SCORED for name, seconds in taken.items()}
    return {**micros, "ratio": micros["onepass"] / micros["numpy"]}


def _dense_batch(A: np.ndarray) -> Batch:
    rows, columns = A.shape
    slots = np.tile(np.arange(columns + 1, dtype=np.int32), rows)
    values = np.column_stack([np.ones(rows), A]).ravel()
    return Batch(np.arange(0, (columns + 1) * rows + 1, columns + 1), slots, values, np.ones(rows))


def tree_pairs(few: int, rounds: int) -> dict[str, float]:
    """Return tree pairs per second: ours with all stored trees, a plain recursion with few."""
    texts = _read_questions() or _generate_trees()
    stored, asked = texts[:TREES], texts[TREES : TREES + few]
    learner = make(f"k-perceptron:kernel=tree,gamma=1,width=1,normalise=none,max_support={TREES}")
    state = learner.init(1)
    X = _tree_batch(stored)
    for t in range(len(stored)):
        add(state.support, X, t, 1.0, 0.0, 0.0)
    rows = _tree_batch(asked)
    nodes = [[inner_nodes(parse(text)) for text in part] for part in (asked, stored[:few])]

    def plain() -> list[float]:
        return [sum(plain_kernel(one, other) for other in nodes[1]) for one in nodes[0]]

    state.support.size[0] = few
    if not np.allclose(learner.scores(state, rows), plain(), rtol=1e-9):
        raise RuntimeError("the two computations disagree, so their times mean nothing")
    state.support.size[0] = len(stored)
    jobs: dict[str, Callable[[], object]] = {
        "onepass": lambda: learner.scores(state, rows),
        "recursion": plain,
    }
    taken = time_interleaved(jobs, rounds)
    fast, slow = len(stored) * few / taken["onepass"], few * few / taken["recursion"]
    return {"onepass": fast, "recursion": slow, "ratio": fast / slow}


def _tree_batch(texts: list[str]) -> Batch:
    trees = Trees.concatenate([flatten_tree(text, 1000) for text in texts])
    return Batch.from_rows([((), ())] * len(texts), trees=trees)


def _read_questions() -> list[str]:
    """Return parses of real questions, if the data folder has them."""
    path = Path(os.environ.get("ONEPASS_DATA", ""), QUESTIONS)
    if not path.exists():
        return []
    with gzip.open(path) as lines:
        return [msgspec.json.decode(line)["grct"] for line in lines]


def _generate_trees() -> list[str]:
    """Draw trees of a similar size, over few labels and many words."""
    draws = np.random.default_rng(0)

    def node(depth: int) -> str:
        label = "ABCDEFGH"[draws.integers(8)]
        if depth == 0 or draws.random() < 0.2:
            return f"({label} w{draws.zipf(1.5) % 5000})"
        return f"({label} {' '.join(node(depth - 1) for _ in range(draws.integers(1, 4)))})"

    return [node(4) for _ in range(TREES + 100)]


def parse(text: str) -> Node:
    """Parse a bracketed tree into nested tuples."""
    pieces = re.findall(r"[()]|[^\s()]+", text)
    position = 0

    def node() -> Node:
        nonlocal position
        label, position = pieces[position + 1], position + 2
        names: list[str] = []
        inside: list[Node] = []
        while pieces[position] != ")":
            if pieces[position] == "(":
                child = node()
                names.append("(" + child[0] if child[1] else child[0])
                inside += [child] if child[1] else []
            else:
                names.append(pieces[position])
                position += 1
        position += 1
        return label, tuple(names), tuple(inside)

    return node()


def inner_nodes(node: Node) -> list[Node]:
    return [node, *(below for child in node[2] for below in inner_nodes(child))]


def plain_kernel(one: list[Node], other: list[Node]) -> float:
    """Return Σ Δ over all pairs of inner nodes (Collins & Duffy), without memoization."""
    return sum(delta(a, b) for a in one for b in other)


def delta(a: Node, b: Node) -> float:
    if a[0] != b[0] or a[1] != b[1]:
        return 0.0
    product = LAM
    for mine, theirs in zip(a[2], b[2], strict=True):
        product *= 1.0 + delta(mine, theirs)
    return product
