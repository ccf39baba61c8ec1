"""Pictures of copies, layouts and fragments: who moves what, which bank, who owns what, the boxes of an engine.

A picture shows what the emitted PTX does: the copy is run on the emulator with marks in its source.
"""

from .drawing import KINDS, draw
from .picture import Picture

__all__ = ["KINDS", "Picture", "draw"]
__version__ = "0.2.0"
