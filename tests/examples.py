"""How many examples a property gets, and which.

`make test` draws the same examples in every run, whatever the text of the tests and of the product.
`make chaos PART=properties` draws fresh ones, TIMES as many. An example that fails there becomes an
`@example` of the property.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

FRESH = os.environ.get("ONEPASS_PROPERTIES") == "fresh"
TIMES = 20

_COMMON = {
    "derandomize": False,  # if CI=true, hypothesis' own profile "ci" would set it
    "deadline": None,  # a duration
    "database": None,  # a run would depend on earlier runs
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],  # another duration
}


def how_many(count):
    """Return the number of examples for this run; `make test` tries `count`."""
    return count * TIMES if FRESH else count


def examples(count, **options):
    """Return the settings of a property that `make test` tries on `count` examples."""
    return settings(max_examples=how_many(count), **options)


def fix_examples():
    """Fix which examples are drawn. Call it before the first property is defined."""
    # Not hypothesis' profile "ci": it takes the seed of a property from the property's text.
    settings.register_profile("onepass", examples(100), **_COMMON)
    settings.load_profile("onepass")
    if not FRESH:
        # Hypothesis also draws constants that it reads from whichever of our modules are imported.
        providers._get_local_constants = providers.Constants
