"""Write a C++ header of exported copies with ``tc.cuda_header``. The package tilecopy-export does the work."""

from collections.abc import Sequence

from tilecopy_core.registry import exporter


def cuda_header(functions: Sequence[str]) -> str:
    """Return a C++ header with ``functions`` and, in the namespace ``tilecopy``, functions that complete copies.

    Args:
        functions: results of :meth:`tilecopy_core.Plan.cuda`.

    Raises:
        RequestError: a text is not such a result, or two functions have the same name.
        PluginError: the package that writes CUDA C++ is not installed; the message names it.
    """
    text: str = exporter("cuda_header")(functions)
    return text
