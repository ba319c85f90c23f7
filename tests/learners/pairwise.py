"""A small choice out of many candidates in which every pair of features still occurs."""

import itertools


def cover_pairs(groups, features):
    """Choose from each group of candidates until every pair of features that any of them has is
    covered.

    Greedy: of a group, the candidate with the most pairs that no chosen one has is taken, the first
    of equals, until the group has no new pair left. Candidates of all groups share the pairs, so a
    later group takes fewer.
    """
    covered, chosen = set(), []
    for group in groups:
        left = [(candidate, pairs(features(candidate))) for candidate in group]
        while left:
            candidate, new = max(left, key=lambda entry: len(entry[1] - covered))
            if not new - covered:
                break
            covered |= new
            chosen.append(candidate)
    return chosen


def pairs(found):
    """All pairs of features; the order in a pair is that of the features."""
    return set(itertools.combinations(found, 2))
