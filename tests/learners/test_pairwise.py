"""The choice of compositions that `make test` runs the laws on covers every pair."""

import itertools

from learners.registry import LEARNERS
from tests.learners.pairwise import cover_pairs, pairs
from tests.learners.specs import (
    built,
    chosen_specs,
    every_composition,
    features,
    leaf,
    name,
    pairwise_compositions,
    specs,
)


def test_the_choice_has_every_pair_that_can_be_built():
    possible = set().union(
        *(pairs(features(made)) for kind in LEARNERS for made in every_composition(kind))
    )
    chosen = set().union(*(pairs(features(learner)) for learner in pairwise_compositions()))
    assert possible <= chosen
    assert {kind for kind, _ in possible} >= LEARNERS.keys()


def test_the_choice_has_every_plain_learner_and_is_a_subset_of_all():
    chosen = {name(learner) for learner in chosen_specs()}
    assert {name(built(leaf(kind))) for kind in LEARNERS} <= chosen
    assert {name(learner) for learner in specs() if learner.kind in LEARNERS} <= chosen
    assert chosen <= {name(learner) for learner in specs()}


def test_three_switches_need_four_candidates_out_of_eight():
    """Each switch has two values: four rows of an orthogonal array have all twelve pairs."""
    candidates = [tuple(enumerate(values)) for values in itertools.product("ab", repeat=3)]
    chosen = cover_pairs([candidates], tuple)
    assert set().union(*map(pairs, chosen)) == set().union(*map(pairs, candidates))
    assert len(chosen) == 4


def test_a_pair_covered_by_one_group_is_not_covered_again():
    assert cover_pairs([["ab"], ["ab", "ac"]], tuple) == ["ab", "ac"]
