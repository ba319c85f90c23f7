"""Trees: bracketed text to flat arrays, and the kernel over them against the plain
recursive one.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tests.learners.plain_kernels as oracle
from learners.batch import NO_TREE, NO_TREES, Trees
from learners.kernel.tree_kernel import common, normalise, own
from learners.kernel.tree_parser import LONGEST, TreeSyntaxError, flatten_tree
from tests.examples import examples
from tests.learners.streams import bracketed
from tests.looped import looped

GOLDEN = Path(__file__).parent / "golden" / "productions.json"
MOST = 1 << 20

some = examples(150)
few = examples(25)


def draw_trees(seed, count=2, depth=4):
    rng = np.random.default_rng(seed)
    return [bracketed(rng, depth) for _ in range(count)]


def k(one, other, lam=0.4):
    a, b = (flatten_tree(text, MOST) if isinstance(text, str) else text for text in (one, other))
    alike = np.full(1, np.nan)
    common(a, 0, b, 0, 1, lam, alike)
    return float(alike[0])


def children_of(tree, node):
    return tree.children[tree.child_ends[node] : tree.child_ends[node + 1]].tolist()


# Text to arrays.


def test_a_tree_becomes_flat_arrays():
    tree = flatten_tree("(S (NP (PRP I)) (VP (VBP run)))", MOST)
    tree.validate(1)
    assert tree.ends.tolist() == [0, 5]
    assert (np.diff(tree.productions) > 0).all()
    prp, np_, vbp, vp, s = tree.order.tolist()
    assert [children_of(tree, node) for node in (prp, np_, vbp, vp, s)] == [
        [],
        [prp],
        [],
        [vbp],
        [np_, vp],
    ]


@looped(
    "other",
    [
        "(S (NP (PRP I))(VP(VBP run)))",
        "  ( S\n(NP (PRP I ) )\t(VP (VBP run)) )  ",
        "(S\u2003(NP (PRP (I))) (VP (VBP (run))))",
    ],
    ids=["tight", "wide", "words in brackets"],
)
def test_spaces_and_brackets_around_words_do_not_matter(other):
    for mine, theirs in zip(
        flatten_tree("(S (NP (PRP I)) (VP (VBP run)))", MOST),
        flatten_tree(other, MOST),
        strict=True,
    ):
        assert mine.tolist() == theirs.tolist()


def test_a_word_differs_from_a_node_of_the_same_name():
    assert not np.isin(
        flatten_tree("(S (A x))", MOST).productions, flatten_tree("(S A)", MOST).productions
    ).any()
    assert k("(S (A x) b)", "(S (A y) b)") == 0.4, "only the roots may match"
    assert k("(S (A x) b)", "(S A b)") == 0.0


def test_productions_have_the_same_hashes_in_every_version():
    """Checkpoints hold the hashes: this golden file is never regenerated."""
    for text, productions in json.loads(GOLDEN.read_text(encoding="utf-8")).items():
        assert flatten_tree(text, MOST).productions.tolist() == productions, text


def test_long_productions_are_hashed_like_short_ones():
    """Productions that are cached and those too long for the cache get the same hash."""
    for words in (1, LONGEST - 3, LONGEST - 2, LONGEST - 1, 10 * LONGEST):
        digest = hashlib.blake2b(f"S {'x' * words}".encode(), digest_size=8).digest()
        wanted = [int.from_bytes(digest, "little", signed=True)]
        for _ in range(2):
            assert flatten_tree(f"(S {'x' * words})", MOST).productions.tolist() == wanted


@looped(
    ("text", "why", "position"),
    [
        ("", "no tree", 0),
        (" \n ", "no tree", 3),
        ("word", "must begin with an opening bracket", 0),
        ("  )", "must begin with an opening bracket", 2),
        ("é (S x)", "must begin with an opening bracket", 0),
        ("(S x) y", "text after", 6),
        ("(S x))", "text after", 5),
        ("(S x)(S y)", "text after", 5),
        ("(S x) ( ", "text after", 6),
        ("(😀 ü)  )", "text after", 7),
        ("(S (A x) (B y)", "never closed", 0),
        ("(S (A x) (B y", "never closed", 9),
        ("(", "never closed", 0),
        ("(A (B (C (D x))))", "more than 3 inner nodes", 9),
        ("(A (B x) (C y) (D z))", "more than 3 inner nodes", 15),
    ],
)
def test_a_text_that_is_no_tree_is_refused_with_the_position(text, why, position):
    with pytest.raises(TreeSyntaxError, match=why) as caught:
        flatten_tree(text, 3)
    assert caught.value.position == position
    assert str(position) in str(caught.value)


def test_the_limit_counts_only_inner_nodes():
    flat = f"(S {' '.join(f'(w{n})' for n in range(5000))})"
    assert flatten_tree(flat, 1).productions.size == 1
    with pytest.raises(TreeSyntaxError):
        flatten_tree("(S (A x))", 1)


@some
@given(st.one_of(st.text(), st.text("() \nab\ud800é", max_size=60)))
@example("()")
@example("(())")
@example("\x1c(a\x1cb)")
def test_any_text_is_a_tree_or_refused_with_a_position_within_it(text):
    tree, position = read(text)
    depths = [0, *np.cumsum([{"(": 1, ")": -1}.get(letter, 0) for letter in text])]
    outside = "".join(letter for letter, depth in zip(text, depths, strict=False) if depth == 0)
    assert (tree is not None) == (outside.strip() == "(" and depths[-1] == 0), (
        "a text is accepted if and only if it is exactly one tree"
    )
    if tree is None:
        assert 0 <= position <= len(text)
        return
    tree.validate(1)
    assert sorted(tree.order.tolist()) == list(range(tree.productions.size))
    assert (np.diff(tree.productions) >= 0).all()
    seen = set()
    for node in tree.order.tolist():
        assert seen.issuperset(children_of(tree, node)), "children must come first"
        seen.add(node)
    assert len(tree.children) == tree.productions.size - 1, (
        "each node except the root must be a child"
    )


def read(text):
    """Return the tree of a text, or the position of its error."""
    try:
        return flatten_tree(text, MOST), None
    except TreeSyntaxError as error:
        return None, error.position


# Batches.


def test_concatenated_trees_can_be_cut_and_chosen():
    single = [flatten_tree(text, MOST) for text in draw_trees(1, 6)]
    parts = [single[0], NO_TREE, Trees.concatenate(single[1:3]), *single[3:]]
    joined = Trees.concatenate(parts)
    joined.validate(7)
    order = [single[0], NO_TREE, *single[1:]]
    for t, tree in enumerate(order):
        for found in (joined.rows(t, t + 1), joined.where(np.arange(7) == t)):
            assert [array.tolist() for array in found] == [array.tolist() for array in tree]
    Trees.concatenate([]).validate(0)
    assert NO_TREES.rows(0, 3) is NO_TREES


# The kernel.


@some
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.4, 1.0]))
def test_the_flat_kernel_equals_the_recursive_one(seed, lam):
    one, other = draw_trees(seed)
    # Sums of positive terms in another order: at most one rounding per pair of nodes.
    assert k(one, other, lam) == pytest.approx(oracle.trees(one, other, {"lam": lam}), rel=1e-12)
    assert k(one, other, lam) == pytest.approx(k(other, one, lam), rel=1e-12)
    assert own(flatten_tree(one, MOST), 0, lam) == k(one, one, lam)


@few
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.4, 1.0]))
def test_the_gram_matrix_is_positive_semidefinite(seed, lam):
    texts = draw_trees(seed, 10, depth=3)
    gram = np.array([[k(a, b, lam) for b in texts] for a in texts])
    scale = np.sqrt(np.diag(gram))
    # The least eigenvalue is 0 if two trees are the same.
    assert np.linalg.eigvalsh(gram / np.outer(scale, scale)).min() >= -1e-9


@few
@given(st.integers(0, 10**6))
def test_a_normalised_tree_has_similarity_1_with_itself(seed):
    one, other = draw_trees(seed)
    mine, theirs = k(one, one), k(other, other)
    # A root of a product and a quotient; two equal trees give 1 as well.
    assert normalise(mine, mine, mine) == pytest.approx(1.0, rel=1e-15)
    assert 0.0 <= normalise(k(one, other), mine, theirs) <= 1.0 + 1e-12
    assert normalise(0.0, 0.0, mine) == 0.0


def test_an_absent_tree_has_similarity_0():
    """Nothing is read, either: the last row of a batch without trees is as empty as the first."""
    assert [own(NO_TREES, t, 0.4) for t in (0, 1, 1 << 40)] == [0.0] * 3
    assert own(NO_TREE, 0, 0.4) == 0.0


def test_fragments_are_counted_as_by_hand():
    """λ + λ for the pre-terminals, and λ(1+λ)² for the root: alone, with either child,
    with both.
    """
    text = "(S (A x) (B y))"
    assert k(text, text, 1.0) == 1 + 1 + 4
    assert k(text, text, 0.5) == pytest.approx(0.5 + 0.5 + 0.5 * 1.5**2)
    assert k(text, "(S (A x) (B z))", 1.0) == 1 + 2
    assert k(text, "(T (A x) (B y))", 1.0) == 2
    assert k(text, "(S (B y) (A x))", 1.0) == 2, (
        "the order of children must be part of a production"
    )
    assert k(text, NO_TREE, 1.0) == k(NO_TREE, text, 1.0) == 0.0


def test_a_deep_chain_needs_no_recursion():
    """50,000 nodes, each with a different production except the lowest: one pair in all, however
    deep it lies.
    """
    depth = 50_000
    chain, shallow = "".join(f"(N{n} " for n in range(depth)) + "(A x)" + ")" * depth, "(S (A x))"
    tree = flatten_tree(chain, depth + 1)
    tree.validate(1)
    assert tree.productions.size == depth + 1
    small = flatten_tree(shallow, MOST)
    assert k(tree, small) == k(small, tree) == 0.4
    with pytest.raises(TreeSyntaxError, match="more than 1000"):
        flatten_tree(chain, 1000)


@looped("text", ["(" * 100_000, "(A " * 100_000, ")" * 100_000, "(A " * 100_000 + ")" * 100_000])
def test_brackets_100_000_deep_are_refused(text):
    with pytest.raises(TreeSyntaxError):
        flatten_tree(text, 1000)
