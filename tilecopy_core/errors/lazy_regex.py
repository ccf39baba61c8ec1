"""Regular expressions that are compiled at first use, to keep imports fast."""

import re
from typing import TYPE_CHECKING, Any

__all__ = ["pattern"]

if TYPE_CHECKING:  # what it does as a whole
    pattern = re.compile
else:

    class pattern:  # noqa: N801 - used as the function that it stands for
        """A regular expression that has the methods of :class:`re.Pattern` and is compiled at first use."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self._text, self._flags = text, flags

        def __getattr__(self, name: str) -> Any:
            method = getattr(re.compile(self._text, self._flags), name)
            setattr(self, name, method)  # the next use finds it there
            return method
