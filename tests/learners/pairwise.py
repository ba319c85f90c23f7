"""Choose few of many candidates so that every pair of features still occurs."""

import itertools


def cover_pairs(groups, features):
    """Choose candidates from each group until they cover every pair of features that any candidate
    has.

    Greedy: of a group, take the candidate with the most uncovered pairs, the first of equals, until
    the group has no new pair left. All groups share the covered pairs, so a later group takes
    fewer.
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
    """Return all pairs of features; the order within a pair is that of the features."""
    return set(itertools.combinations(found, 2))
