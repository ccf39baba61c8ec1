"""The instructions: their compilation to steps, and the steps.

Compilation raises :class:`UnsupportedPtxError` for unsupported forms; a step raises :class:`tilecopy.HazardError`.
"""
