"""NumPy, imported at first use, to keep imports fast: a process that has arrays has imported it."""

from typing import TYPE_CHECKING, Any

from .fork_lock import LOCK

__all__ = ["np"]

if TYPE_CHECKING:
    import numpy as np
else:

    class _LazyNumPy:
        def __getattr__(self, name: str) -> Any:
            with LOCK:
                import numpy as np
            self.__dict__ = vars(np)  # where the next use looks, so that what a test replaces in NumPy is replaced here
            return getattr(np, name)

        def __reduce__(self) -> str:
            return "np"

    np = _LazyNumPy()
