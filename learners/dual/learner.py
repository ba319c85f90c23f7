"""What kernel learners share: a kernel by its parameters, a support set in the state, and the counts."""

from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from learners.batch import Array, Batch, Flags
from learners.dual.decisive import influences
from learners.dual.similarity import LINEAR, NO_VECTOR, POLYNOMIAL, RBF, SIGMOID, Kernel, kernel_refusals, kernel_scores
from learners.dual.support import Support, fresh_support
from learners.dual.support import possible as possible_support
from learners.dual.trees import own
from learners.dual.work import Work, lent
from learners.influences import Influences, Stock
from learners.kernels import refusals
from learners.learner import ONCE, Layout, Learned, Learner, Memory, tally
from learners.state import State

VECTORS = {"tree": NO_VECTOR, "linear": LINEAR, "polynomial": POLYNOMIAL, "rbf": RBF, "sigmoid": SIGMOID}

HASHED_WIDTH = 64
"""Entries per stored row, on average, where features are hashed."""


class KernelLearner(Learner):
    """A learner whose state has `support: Support`, `square` (‖f‖²), `updates` and `dropped`."""

    kernel: Literal[
        "linear", "polynomial", "rbf", "sigmoid", "tree", "tree+linear", "tree+polynomial", "tree+rbf", "tree+sigmoid"
    ] = "rbf"
    """Of rows `linear`, `polynomial`, `rbf`, `sigmoid`; of trees `tree`; or `tree+rbf` and so on, the weighted sum."""
    gamma: PositiveFloat | None = None
    """γ of rbf, exp(−γ‖a−b‖²). Left out: 1 over the number of columns; with hashed features 0.01."""
    s: PositiveFloat = 1.0
    """Scale of polynomial, (s·a·b + c)^d, and sigmoid, tanh(s·a·b + c)."""
    c: float = Field(default=1.0, ge=0.0)
    """Offset of polynomial and sigmoid."""
    d: int = Field(default=3, ge=1, le=16)
    """Degree of polynomial."""
    lam: float = Field(default=0.4, gt=0.0, le=1.0)
    """λ of tree: a common fragment of n productions counts λ^n."""
    normalise: Literal["tree", "both", "none"] = "tree"
    """Which kernels are divided by √(K(a,a)·K(b,b)), so that K(x,x) is 1: that of the `tree`, `both`, or `none`."""
    tree_weight: PositiveFloat = 1.0
    """Weight of the tree kernel in a sum."""
    vector_weight: PositiveFloat = 1.0
    """Weight of the other kernel in a sum."""
    width: int | None = Field(default=None, ge=1, le=1 << 20)
    """Room for entries per stored row, on average. Left out: all columns; with hashed features 64."""
    nodes: int = Field(default=64, ge=1, le=1 << 20)
    """Room for inner nodes per stored tree, on average."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kernel.endswith("sigmoid") and not self.takes_sigmoid():
            raise ValueError(
                "sigmoid is not positive definite, so there is nothing to project onto: take another kernel"
            )
        return self

    def rows(self) -> int:
        """Most rows that are ever stored."""
        raise NotImplementedError

    def fresh(self, support: Support) -> State:
        """A fresh state around an empty support set."""
        raise NotImplementedError

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        """Call the kernel: scores before each update, and what each event did."""
        raise NotImplementedError

    def answer(self, state: State, K: Kernel, X: Batch, work: Work) -> Array:
        """Call the kernel: scores, and nothing learned."""
        return kernel_scores(state.support, K, X, work)

    def takes_sigmoid(self) -> bool:
        """Whether the rule can do without a positive definite kernel."""
        return True

    def takes_trees(self) -> bool:
        return self.kernel.startswith("tree")

    def settled(self, layout: Layout) -> Self:
        gamma = self.gamma or (1.0 / max(1, layout.dim - 1) if layout.dense else 0.01)
        width = self.width or (max(1, layout.dim - 1) if layout.dense else HASHED_WIDTH)
        return self.model_copy(update={"gamma": gamma, "width": width})

    def scalable(self) -> str:
        return "a tree kernel sees no features: leave scaled out" if self.kernel == "tree" else ""

    def function(self) -> Kernel:
        """The kernel in numbers."""
        has_tree = self.takes_trees()
        return Kernel(
            vector=VECTORS[self.kernel.removeprefix("tree+")],
            vector_weight=self.vector_weight if "+" in self.kernel else 1.0,
            gamma=self.gamma or 1.0,
            s=self.s,
            c=self.c,
            d=self.d,
            vectors_normalised=self.normalise == "both",
            tree_weight=(self.tree_weight if "+" in self.kernel else 1.0) if has_tree else 0.0,
            lam=self.lam,
            trees_normalised=self.normalise != "none",
        )

    def init(self, dim: int) -> State:
        if self.gamma is None or self.width is None:
            raise ValueError(f"{self.kind}: gamma and width are open until the features are known; settle or set them")
        rows, sees_rows = self.rows(), self.kernel != "tree"
        return self.fresh(
            fresh_support(dim, rows, rows * self.width * sees_rows, rows * self.nodes * self.takes_trees())
        )

    def possible(self, state: State) -> bool:
        numbers = [part for part in state if isinstance(part, np.ndarray)]
        finite = all(np.isfinite(part).all() and (part.dtype != np.int64 or (part >= 0).all()) for part in numbers)
        if not (possible_support(state.support) and finite):
            return False
        support, n = state.support, int(state.support.size[0])
        trees = [own(support.trees, i, self.lam) for i in range(n)] if self.takes_trees() else np.zeros(n)
        return bool(state.square[0] >= 0.0 and np.allclose(trees, support.tree_squares[:n], rtol=1e-9, atol=0.0))

    def refusals(self, X: Batch) -> Flags:
        return kernel_refusals(self.function(), X, refusals(X))

    def score_rows(self, state: State, X: Batch) -> Array:
        with lent(state.support) as work:
            return self.answer(state, self.function(), X, work)

    def stores_rows(self) -> bool:
        return True

    def influences(self, state: State, X: Batch | None, column: int, most: int) -> Influences:
        del column
        a, constant = self.answering(state)
        return influences(state.support, self.function(), X, a, constant, most)

    def stock(self, state: State, column: int) -> Stock:
        del column
        return Stock(int(state.support.size[0]), self.rows(), self.norm(state))

    def answering(self, state: State) -> tuple[Array, float]:
        """The coefficients by which it answers, and what is added to their sum."""
        return state.support.a[: state.support.size[0]], 0.0

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        del memory
        with lent(state.support) as work:
            learned = Learned(*self.run(state, self.function(), X, y, work))
        tally(state, learned.moved)
        return learned

    def updates(self, state: State) -> int:
        return int(state.updates[0])

    def dropped(self, state: State) -> int:
        return int(state.dropped[0])

    def norm(self, state: State) -> float:
        return float(np.sqrt(state.square[0]))


class UnboundedLearner(KernelLearner):
    """One whose rule never forgets a row; when all room is taken it learns no more, and counts that as dropped."""

    max_support: int = Field(default=10_000, ge=1, le=1 << 20)
    """Most rows that are stored; mistakes beyond it change nothing and are counted as dropped."""

    def rows(self) -> int:
        return self.max_support


class WeighingLearner(UnboundedLearner):
    """One whose rule can weigh an event: by its importance, times the cost of its class."""

    J: float = Field(default=1.0, gt=0.0, le=1e6)
    """Cost factor of the positive class: its events count J times."""

    def weighs(self) -> bool:
        return True

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        if self.J != 1.0:
            X = X._replace(weights=np.where(y > 0.0, self.J * X.weights, X.weights))
        return super().learn_rows(state, X, y, memory)


class BudgetLearner(KernelLearner):
    """One whose rule says what to do when the budget is full."""

    budget: int = Field(default=1000, ge=1, le=1 << 20)
    """B, the most rows that are stored."""

    def rows(self) -> int:
        return self.budget
