"""How many examples hypothesis draws."""

import tilecopy_test_helpers.profiles  # noqa: F401
