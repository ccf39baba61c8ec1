"""The compilers of PTX instructions. A compiler returns a *step*, a function that executes the instruction.

Compilation raises :class:`UnsupportedPtxError` for unsupported forms; a step raises :class:`tilecopy.HazardError`.
"""
