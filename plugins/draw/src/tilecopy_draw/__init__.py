"""Pictures of copies, layouts and fragments: for each element, the thread that moves it, its bank, or its register.

A picture shows what the emitted PTX does: the emulator runs the copy with marked bytes in the source.
"""

from .drawing import KINDS, draw
from .picture import Picture

__all__ = ["KINDS", "Picture", "draw"]
__version__ = "0.2.0"
