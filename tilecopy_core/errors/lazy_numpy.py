"""NumPy, imported at first use, to keep imports fast: a process that has arrays has imported it."""

from typing import TYPE_CHECKING, Any

from .fork_lock import LOCK

__all__ = ["np"]

if TYPE_CHECKING:
    import numpy as np
else:

    class _LazyNumPy:
        """The attributes of NumPy. Each is looked up once."""

        def __getattr__(self, name: str) -> Any:
            with LOCK:
                import numpy as np
            value = getattr(np, name)
            setattr(self, name, value)  # the next use finds it there
            return value

    np = _LazyNumPy()
