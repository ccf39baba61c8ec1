"""What the tests of several packages share."""

from .nvidia import nvidia_module

__all__ = ["nvidia_module"]
