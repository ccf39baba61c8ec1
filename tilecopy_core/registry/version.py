"""The version of tilecopy-core."""

__version__ = "0.2.0"
