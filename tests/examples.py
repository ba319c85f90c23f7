"""How many examples a property gets, and which.

`make test` draws the same examples in every run, whatever the text of the tests and of the product
is. `make chaos PART=properties` draws fresh ones, TIMES as many. An example that it finds to fail
becomes an `@example` of the property.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

FRESH = os.environ.get("ONEPASS_PROPERTIES") == "fresh"
TIMES = 20

_COMMON = {
    "derandomize": False,  # where CI=true, hypothesis' own profile "ci" would be inherited
    "deadline": None,  # a duration
    "database": None,  # or a run would depend on the runs before it
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],  # another duration
}


def how_many(count):
    """Instead of the `count` of `make test`."""
    return count * TIMES if FRESH else count


def examples(count, **options):
    """The settings of a property that `make test` tries on `count` examples."""
    return settings(max_examples=how_many(count), **options)


def fix_examples():
    """Before the first property is defined."""
    # Not hypothesis' profile "ci": it takes the seed of a property from the property's text.
    settings.register_profile("onepass", examples(100), **_COMMON)
    settings.load_profile("onepass")
    if not FRESH:
        # Hypothesis also draws constants that it reads from whichever of our modules are imported.
        providers._get_local_constants = providers.Constants
