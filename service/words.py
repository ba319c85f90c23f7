"""Text to the words that are features."""

import re

WORDS = re.compile(r"[^\W_]+")


def words(text: str, ngrams: int) -> list[str]:
    """Lower-cased words, then runs of up to so many of them."""
    found = WORDS.findall(text.lower())
    longer = range(2, ngrams + 1)
    return found + [" ".join(found[i : i + n]) for n in longer for i in range(len(found) - n + 1)]
