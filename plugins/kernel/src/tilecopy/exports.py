"""Copies that leave for CUDA C++, by the package that writes it."""

from __future__ import annotations

from collections.abc import Sequence

from tilecopy_core.registry import exporter


def cuda_header(functions: Sequence[str]) -> str:
    """Return a self-contained header: exported functions, and the steps that complete their copies, in namespace ``tilecopy``.

    Args:
        functions: texts of :meth:`tilecopy_core.Plan.cuda`.

    Raises:
        RequestError: something else, or two functions of one name.
        PluginError: the package that writes CUDA C++ is not installed; the message says which.
    """
    text: str = exporter("cuda_header")(functions)
    return text
