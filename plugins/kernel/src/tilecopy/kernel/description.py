"""The description of a kernel: what KernelBuilder records, and what a build lowers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tilecopy_core.integers import Symbol
from tilecopy_core.memory import Buffer

from .bounds import Bound
from .parameters import Parameter
from .statements import LocatedStatement

if TYPE_CHECKING:
    from .number_parameters import ScalarParameter, SizeParameter


@attrs.define(eq=False, repr=False)
class Description:
    """The description of a kernel, as KernelBuilder recorded it.

    Attributes:
        written: the names of the arrays that it writes.
        notes: sentences about its PTX for :meth:`BuiltKernel.explain`.
        allocations: the number of allocations of tensor memory.
        cta_group: the ``cta_group`` of its instructions, 1 or 2, or None if no instruction has one.
    """

    name: str
    threads: int
    parameters: list[Buffer | Parameter] = attrs.field(factory=list)
    scalars: dict[Symbol, ScalarParameter | SizeParameter] = attrs.field(factory=dict)
    shared: list[Buffer] = attrs.field(factory=list)
    body: list[LocatedStatement] = attrs.field(factory=list)
    bounds: list[Bound] = attrs.field(factory=list)
    written: set[str] = attrs.field(factory=set)
    notes: list[str] = attrs.field(factory=list)
    allocations: int = 0
    cta_group: int | None = None

    @property
    def group(self) -> int:
        """The ``cta_group`` of the kernel's tcgen05 instructions; 1 by default."""
        return self.cta_group or 1
