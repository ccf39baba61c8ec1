"""Methods of a kernel's scopes that record copies, such as ``k.cta.copy``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tilecopy_core.description import Scope
from tilecopy_core.dispatch import demanded_names
from tilecopy_core.errors import RequestError, short_repr
from tilecopy_core.integers import is_int_like
from tilecopy_core.memory import Region, outside_of

from .barriers import Mbarrier
from .bounds import NOTHING
from .recording import Recorder
from .statements import CopyStatement
from .values import Value

VariantNames: TypeAlias = "str | Sequence[str] | None"


class ScopedCopies:
    """The copy methods of one scope: ``k.cta.copy(dst, src)``, ``k.warp.copy_async(dst, src, variant="ldgsts")``."""

    def __init__(self, kernel: Recorder, scope: Scope) -> None:
        self._kernel, self._scope = kernel, scope

    def copy(
        self, dst: Region, src: Region, *, variant: VariantNames = None, outside: Any = None, **options: Any
    ) -> None:
        """Copy synchronously. A thread may then use the elements that it copied. Other threads must wait for a barrier.

        A copy of regions without elements, such as ``A[0:0, :]``, is checked and emits nothing.

        Args:
            dst: destination region.
            src: source region.
            variant: the name of a variant, or several in order, such as ``("tma", "ldgsts")``; by default the accepting variant
                with the highest priority. It is chosen at ``build``.
            outside: allows regions to exceed their buffers' shapes, at both ends. ``"zero"`` or a number replaces source
                elements outside. With ``"keep"`` the destination is not written there. Destination elements outside are
                never written.
            options: options of variants, such as ``mbar=``.
        """
        self._record("copy", dst, src, variant, outside, options)

    def copy_async(
        self, dst: Region, src: Region, *, variant: VariantNames = None, outside: Any = None, **options: Any
    ) -> None:
        """Copy asynchronously. Then wait with the steps in ``plan.completion``. For the arguments, see :meth:`copy`."""
        self._record("copy_async", dst, src, variant, outside, options)

    def _record(
        self, op: str, dst: Region, src: Region, variant: VariantNames, outside: Any, options: dict[str, Any]
    ) -> None:
        kernel = self._kernel
        for operand, region in (("destination", dst), ("source", src)):
            if not isinstance(region, Region):
                raise RequestError(f"{op}: {operand} must be a region such as buffer[0:8, :], got {short_repr(region)}")
        demanded = demanded_names(variant)
        filled = outside_of(outside, dst.buffer.dtype)
        kernel._check_region(src, f"{op}: source", overhang=filled is not None)
        kernel._check_region(dst, f"{op}: destination", written=True, overhang=filled is not None)
        for name, value in options.items():
            argument = value.as_region() if isinstance(value, Mbarrier) else value
            if isinstance(argument, Region):
                kernel._check_region(argument, f"{op}: option {name}")
            elif is_int_like(argument):
                kernel._check_symbols(argument, f"{op}: option {name}")
            elif isinstance(argument, Value):
                kernel._check_value(argument, f"{op}: option {name}")
        around = NOTHING
        if filled is not None:
            around = kernel._known(*dst.starts, *dst.buffer.shape, *src.starts, *src.buffer.shape)
        kernel.record(
            CopyStatement(op, dst, src, self._scope, kernel._frame.active, demanded or None, options, filled, around)
        )
