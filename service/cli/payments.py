"""The demo's stream: card payments, some of them fraud, by a rule that changes at known moments.

Event n depends on the seed and n alone, so a stream can be taken up where it was left.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

CHUNK = 500
"""Events drawn from one generator."""

DRIFT_EVERY = 10_000
"""After so many events the rule changes: the error jumps, and falls again as the model follows."""

COLUMNS = ("amount", "age_days", "hour", "distance_km", "attempts")
COUNTRIES = ("de", "fr", "it", "pl", "us", "br", "in", "jp")
RULES = (
    ((1.2, -0.8, 0.3, 0.9, 1.1), ("br", "us")),
    ((-0.9, 0.7, 0.9, -1.1, 1.0), ("de", "jp")),
    ((0.4, 1.2, -1.0, 0.5, -1.2), ("in", "fr")),
)
"""Weights of the standardised columns, and the countries that add to the risk; one rule after the other."""


def payments(seed: int, first: int) -> Iterator[bytes]:
    """Events first, first + 1, … for ever."""
    chunk, skip = divmod(first, CHUNK)
    while True:
        yield from _chunk(seed, chunk)[skip:]
        chunk, skip = chunk + 1, 0


def _chunk(seed: int, chunk: int) -> list[bytes]:
    draws = np.random.default_rng([seed, chunk])
    standard = draws.normal(size=(CHUNK, len(COLUMNS)))
    countries = draws.integers(len(COUNTRIES), size=CHUNK)
    noise = draws.normal(scale=0.3, size=CHUNK)
    weights, risky = RULES[chunk * CHUNK // DRIFT_EVERY % len(RULES)]
    risk = standard @ np.array(weights) + np.isin(np.array(COUNTRIES)[countries], risky) * 1.5 + noise
    # Each column in its own unit, as real ones are: this is what GN scaling is for.
    columns = np.round(standard * [120.0, 400.0, 5.0, 900.0, 2.0] + [250.0, 900.0, 12.0, 1500.0, 4.0], 3)
    return [
        msgspec.json.encode(
            {
                "id": f"payment-{chunk * CHUNK + row}",
                "features": dict(zip(COLUMNS, columns[row].tolist(), strict=True))
                | {"country": COUNTRIES[countries[row]]},
                "label": "fraud" if risk[row] > 1.0 else "fine",
            }
        )
        for row in range(CHUNK)
    ]
