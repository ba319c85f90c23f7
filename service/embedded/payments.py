"""The demo's stream: card payments, some of them fraud, by a rule that changes at known events.

Event n depends only on the seed and on n, so a stream can resume at any event.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

CHUNK = 500
"""Events that one random generator draws."""

DRIFT_EVERY = 10_000
"""Events between two changes of the rule: the error jumps, then falls as the model adapts."""

COLUMNS = ("amount", "age_days", "hour", "distance_km", "attempts")
COUNTRIES = ("de", "fr", "it", "pl", "us", "br", "in", "jp")
RULES = (
    ((1.2, -0.8, 0.3, 0.9, 1.1), ("br", "us")),
    ((-0.9, 0.7, 0.9, -1.1, 1.0), ("de", "jp")),
    ((0.4, 1.2, -1.0, 0.5, -1.2), ("in", "fr")),
)
"""Weights of the standardised columns and the risky countries, rule by rule."""


def payments(seed: int, first: int) -> Iterator[bytes]:
    """Yield the events first, first + 1, … without end."""
    chunk, skip = divmod(first, CHUNK)
    while True:
        yield from _draw_chunk(seed, chunk)[skip:]
        chunk, skip = chunk + 1, 0


def _draw_chunk(seed: int, chunk: int) -> list[bytes]:
    draws = np.random.default_rng([seed, chunk])
    standard = draws.normal(size=(CHUNK, len(COLUMNS)))
    countries = draws.integers(len(COUNTRIES), size=CHUNK)
    noise = draws.normal(scale=0.3, size=CHUNK)
    weights, risky = RULES[chunk * CHUNK // DRIFT_EVERY % len(RULES)]
    risk = (
        standard @ np.array(weights) + np.isin(np.array(COUNTRIES)[countries], risky) * 1.5 + noise
    )
    # Each column has its own unit, as real data has; GN scaling handles this.
    columns = np.round(
        standard * [120.0, 400.0, 5.0, 900.0, 2.0] + [250.0, 900.0, 12.0, 1500.0, 4.0], 3
    )
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
