"""The compilers of instructions. Each returns a step, a function that executes the instruction for some lanes.

Compilation raises :class:`UnsupportedPtxError` for unsupported forms; a step raises :class:`tilecopy.HazardError`.
"""
