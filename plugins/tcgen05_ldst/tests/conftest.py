"""How many examples hypothesis draws."""

import tilecopy_testkit.profiles  # noqa: F401
