"""Hypothesis profiles; importing this module loads the one that HYPOTHESIS_PROFILE names.

``default`` draws the same examples at every run; ``fresh`` (the nox session of that name) draws anew, many more;
``first`` stops at the first example that fails and does not look for a smaller one.
"""

import os

from hypothesis import HealthCheck, Phase, settings

NAME = os.environ.get("HYPOTHESIS_PROFILE", "default")
TIMES = {"fresh": 20}.get(NAME, 1)
"""How many times the examples that a test asks for are drawn."""

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "default", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "fresh", max_examples=60 * TIMES, deadline=None, derandomize=False, print_blob=True, suppress_health_check=QUIET
)
settings.register_profile(
    "first", max_examples=60, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=QUIET
)
settings.load_profile(NAME)


def examples(count: int) -> settings:
    """``@examples(200)``: so many examples, or that many times :data:`TIMES`."""
    return settings(max_examples=count * TIMES)
