"""Regular expressions that are compiled when they are first used: an import does not wait for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["pattern"]

if TYPE_CHECKING:  # what it does as a whole
    pattern = re.compile
else:

    class pattern:  # noqa: N801 - used as the function that it stands for
        """A regular expression with the methods of :class:`re.Pattern`, which is compiled at the first of them."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self._text, self._flags = text, flags

        def __getattr__(self, name: str) -> Any:
            method = getattr(re.compile(self._text, self._flags), name)
            setattr(self, name, method)  # the next use finds it there
            return method
