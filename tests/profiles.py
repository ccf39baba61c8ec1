"""Hypothesis profiles; importing this module loads the one that HYPOTHESIS_PROFILE names."""

import os

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "default", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("many", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "first",
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
