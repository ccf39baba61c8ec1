"""The instructions: how each is compiled and what it does.

What compiles raises :class:`UnsupportedPtxError` for what it does not know; a step raises :class:`tilecopy.HazardError`.
"""
