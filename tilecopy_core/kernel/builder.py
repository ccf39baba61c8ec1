"""KernelBuilder: describe a kernel around tile copies; nothing is lowered before ``build``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ..dtypes import dtype_of
from ..errors import LayoutError, RequestError
from ..expr import Condition, Expr, Int, as_expr, bounds_of, is_int, simplify, symbol
from ..layout import Layout, S, TCol, TileLayout
from ..memory import Buffer, Region, check_identifier
from ..ptx import PtxBuilder
from ..registry import Registry
from ..scope import WARP_THREADS, ActiveThreads, Scope, cta, thread, tid_symbol, warp, warpgroup
from ..target import Target
from .barriers import Mbarrier, barrier_address
from .built import BuiltKernel, lower_kernel
from .parameters import ScalarParameter
from .statements import Action, Bound, Copy, If, Load, Loop, Store, bounds_checks, element_offset
from .values import Value, as_value, cast, lower_value

_GRID_LIMIT = {"x": 2**31 - 1, "y": 65535, "z": 65535}


class ScopedCopies:
    """Copies by one scope: ``k.cta.copy(dst, src)``, ``k.warp.copy_async(dst, src, variant="ldgsts")``."""

    def __init__(self, kernel: KernelBuilder, scope: Scope) -> None:
        self._kernel, self._scope = kernel, scope

    def copy(self, dst: Region, src: Region, *, variant: str | None = None, **options: Any) -> None:
        """A synchronous copy: each thread's own part is done when its instructions are; others see it after a barrier.

        Args:
            dst: destination region.
            src: source region.
            variant: a variant to demand, else the best is chosen when the kernel is built.
            options: what variants take beyond that.
        """
        self._kernel._copy("copy", dst, src, self._scope, variant, options)

    def copy_async(self, dst: Region, src: Region, *, variant: str | None = None, **options: Any) -> None:
        """An asynchronous copy: the caller waits, as the variant's README says. Arguments as :meth:`copy`."""
        self._kernel._copy("copy_async", dst, src, self._scope, variant, options)


class _Block:
    """What ``k.if_`` and ``k.range`` return: ``with`` it, or iterate over it once."""

    def __init__(self, kernel: KernelBuilder, statement: Any, active: ActiveThreads, index: Any = None) -> None:
        self._kernel, self._statement, self._active, self._index = kernel, statement, active, index

    def __enter__(self) -> Any:
        self._kernel._open(self._statement.body, self._active, guarded=isinstance(self._statement, If))
        return self._index

    def __exit__(self, kind: object = None, *_: object) -> None:
        self._kernel._close()
        if kind is None:
            self._kernel._append(self._statement)

    def __iter__(self) -> Iterator[Any]:
        with self:
            yield self._index


@attrs.frozen(eq=False, repr=False)
class Elected(Condition):
    """True in one lane of each warp; a ``with`` of it is an ``if_``."""

    kernel: KernelBuilder | None = None

    def __repr__(self) -> str:
        return "elect"

    def __enter__(self) -> None:
        assert self.kernel is not None
        block = self.kernel.if_(self)
        self.kernel._elected.append(block)
        block.__enter__()

    def __exit__(self, *exception: object) -> None:
        assert self.kernel is not None
        self.kernel._elected.pop().__exit__(*exception)


class KernelBuilder:
    """A kernel in the making.

    Args:
        name: the kernel's name in PTX, an identifier.
        threads: threads of each CTA, 1 to 1024.

    Attributes:
        thread, warp, warpgroup, cta: the scopes to copy at.
    """

    def __init__(self, name: str, *, threads: int) -> None:
        self.name = check_identifier(name, "kernel name")
        self.thread = ScopedCopies(self, thread())
        self.warp = ScopedCopies(self, warp())
        self.warpgroup = ScopedCopies(self, warpgroup())
        self.cta = ScopedCopies(self, cta(threads))
        self.threads = threads
        self._parameters: list[Buffer | ScalarParameter] = []
        self._shared: list[Buffer] = []
        self._names: set[str] = set()
        self._bounds: list[Bound] = []
        self._written: set[str] = set()
        self._counter: dict[str, int] = {}
        self._elected: list[_Block] = []
        self._body: list[Any] = []
        self._stack: list[tuple[list[Any], ActiveThreads, bool]] = [(self._body, ActiveThreads(threads), False)]

    # ------------------------------------------------------------------------------------------- declarations

    def param(
        self,
        name: str,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        strides: Sequence[Int] | None = None,
        align_bytes: int = 16,
    ) -> Buffer:
        """A global array that the caller passes.

        Args:
            name: an identifier.
            shape: extents.
            dtype: element type.
            strides: in elements, row-major by default; one may be a :meth:`scalar`.
            align_bytes: what the base address is a multiple of; checked at every launch.
        """
        extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        layout = None
        if strides is not None:
            if len(strides) != len(extents):
                raise LayoutError(f"param {name}: {len(extents)} extents and {len(strides)} strides")
            layout = TileLayout(S[extents : tuple(strides)])
        buffer = Buffer(
            extents, dtype, space="global", layout=layout, name=self._claim(name, "param"), align_bytes=align_bytes
        )
        self._parameters.append(buffer)
        return buffer

    def scalar(
        self, name: str, dtype: str = "int32", *, multiple_of: int = 1, lower: int = 0, upper: int | None = None
    ) -> Expr:
        """An integer that the caller passes, for starts, strides and counts; what is declared is checked at launch.

        Args:
            name: an identifier.
            dtype: ``int32``, ``uint32`` or ``int64``.
            multiple_of: a divisor of every value that will be passed.
            lower: smallest value.
            upper: largest value; by default the largest of an int32 (2**62 for int64). A uint32 for which more is
                declared is computed with in 64 bits.
        """
        parameter = ScalarParameter.declare(name, dtype, multiple_of=multiple_of, lower=lower, upper=upper)
        self._claim(name, "scalar")
        self._parameters.append(parameter)
        return symbol(name, lower=parameter.lower, upper=parameter.upper, multiple_of=parameter.multiple_of)

    def shared(
        self,
        shape: Sequence[int] | int,
        dtype: Any,
        *,
        layout: Layout | None = None,
        name: str | None = None,
        align_bytes: int | None = None,
    ) -> Buffer:
        """A shared-memory buffer of the CTA; it occupies its layout's span."""
        name = self._claim(name or self._fresh("smem"), "shared buffer")
        buffer = Buffer(shape, dtype, space="shared", layout=layout, name=name, align_bytes=align_bytes)
        self._shared.append(buffer)
        return buffer

    def local(
        self, shape: Sequence[int] | int, dtype: Any, *, layout: Layout | None = None, name: str | None = None
    ) -> Buffer:
        """A register buffer: thread axes of its layout say which thread owns what, ``m`` which register."""
        name = self._claim(name or self._fresh("frag"), "local buffer")
        return Buffer(shape, dtype, space="local", layout=layout, name=name)

    def registers(self, fragment: Buffer) -> Buffer:
        """A thread's own part of a local buffer, as a flat buffer indexed by constants."""
        if fragment.space != "local":
            raise RequestError(f"{fragment.name} is in {fragment.space} memory; registers() takes a local buffer")
        return Buffer(fragment.span_elems, fragment.dtype, space="local", name=fragment.name)

    def _claim(self, name: str, what: str) -> str:
        check_identifier(name, f"{what} name")
        if name in self._names:
            raise RequestError(f"{what} name {name!r} is taken in kernel {self.name}")
        self._names.add(name)
        return name

    def _fresh(self, stem: str) -> str:
        while True:
            number = self._counter.get(stem, 0)
            self._counter[stem] = number + 1
            if f"{stem}{number}" not in self._names:
                return f"{stem}{number}"

    # ------------------------------------------------------------------------------------------- ids

    def block_id(self, dim: str = "x") -> Expr:
        """The CTA's index in the grid along ``x``, ``y`` or ``z``."""
        if dim not in _GRID_LIMIT:
            raise RequestError(f"block_id takes x, y or z, not {dim!r}")
        return symbol(f"ctaid.{dim}", upper=_GRID_LIMIT[dim] - 1)

    def thread_id(self, dim: str = "x") -> Int:
        """The thread's index in the CTA (CTAs are one-dimensional)."""
        if dim != "x":
            raise RequestError(f"a CTA has threads along x alone, not {dim!r}")
        return simplify(tid_symbol(self.threads)) if self.threads > 1 else 0

    def lane_id(self) -> Int:
        """The thread's index in its warp."""
        return self.thread_id() % WARP_THREADS

    def warp_id(self) -> Int:
        """The warp's index in the CTA."""
        return self.thread_id() // WARP_THREADS

    def cluster_rank(self) -> Expr:
        """The CTA's rank in its cluster."""
        return symbol("cluster_ctarank", upper=15)

    # ------------------------------------------------------------------------------------------- control

    def range(self, count: Int, *, start: Int = 0) -> _Block:
        """A loop at run time: ``for i in k.range(n):`` or ``with k.range(n) as i:``; a plain ``for`` unrolls."""
        if not is_int(count) or not is_int(start):
            raise RequestError(f"range takes integers, not {count!r} from {start!r}")
        name = self._fresh("loop")
        low, high = bounds_of(start)[0] or 0, bounds_of(start + count)[1]
        index = symbol(name, lower=low, upper=2**31 - 2 if high is None else max(high - 1, low), varies="cta")
        return _Block(self, Loop(name, count, start, []), self._active, index)

    def if_(self, condition: Any) -> _Block:
        """Statements for the threads that meet a condition: ``with k.if_(tid == 0):``."""
        if isinstance(condition, bool):  # a comparison that was decided, such as one on the only thread's id
            condition = Condition("==", int(condition), 1)
        if not isinstance(condition, Condition):
            raise RequestError(f"if_ takes a comparison of run-time integers or values, not {condition!r}")
        return _Block(self, If(condition, []), self._active.narrowed_by(condition))

    def elect(self) -> Elected:
        """One lane of the warp (``elect.sync``, sm_90): ``with k.elect():``, or ``with k.if_(k.elect()):``."""
        return Elected("elect", Value(dtype_of("bool"), "elect"), kernel=self)

    @property
    def _active(self) -> ActiveThreads:
        return self._stack[-1][1]

    def _open(self, body: list[Any], active: ActiveThreads, *, guarded: bool) -> None:
        self._stack.append((body, active, guarded or self._stack[-1][2]))

    def _close(self) -> None:
        self._stack.pop()

    def _append(self, statement: Any) -> None:
        self._stack[-1][0].append(statement)

    def _act(self, method: str, *args: Any, **keywords: Any) -> None:
        self._append(Action(lambda ptx: getattr(ptx, method)(*args, **keywords)))

    # ------------------------------------------------------------------------------------------- copies and elements

    def _copy(
        self, op: str, dst: Region, src: Region, scope: Scope, variant: str | None, options: dict[str, Any]
    ) -> None:
        for operand, region in (("destination", dst), ("source", src)):
            if not isinstance(region, Region):
                raise RequestError(f"{operand} is a region such as buffer[0:8, :], not {region!r}")
        self._use(src)
        self._use(dst, written=True)
        self._append(Copy(op, dst, src, scope, self._active, variant, options))

    def _use(self, region: Region, *, written: bool = False) -> None:
        if region.buffer.name not in self._names:
            raise RequestError(f"buffer {region.buffer.name} does not belong to kernel {self.name}")
        if not self._stack[-1][2]:
            self._bounds.extend(bounds_checks(region))
        if written and region.buffer.space == "global":
            self._written.add(region.buffer.name)

    def load(self, element: Region) -> Value:
        """One element of a global, shared or local buffer."""
        self._element(element)
        value = Value(element.buffer.dtype, "loaded")
        self._append(Load(value, element))
        return value

    def store(self, element: Region, value: Any) -> None:
        """Write a value (or number) to one element; its dtype must be the buffer's."""
        self._element(element, written=True)
        value = as_value(value, element.buffer.dtype)
        if value.dtype != element.buffer.dtype:
            raise RequestError(f"store of {value.dtype} to {element}, which is {element.buffer.dtype}: cast it first")
        self._append(Store(element, value))

    def _element(self, element: Region, *, written: bool = False) -> None:
        if not isinstance(element, Region):
            raise RequestError(f"an element is buffer[i, j], not {element!r}")
        self._use(element, written=written)
        element_offset(element)

    def cast(self, value: Any, dtype: Any) -> Value:
        """A value, number or symbolic integer converted to a dtype."""
        return cast(value, dtype)

    # ------------------------------------------------------------------------------------------- synchronisation

    def cta_sync(self) -> None:
        """``bar.sync 0``: every thread of the CTA arrives; shared memory written before is visible after."""
        self._act("bar_sync")

    def named_barrier(self, barrier: int, threads: int) -> None:
        """``bar.sync`` on barrier 1 to 15 for some warps of the CTA."""
        self._act("bar_sync", barrier, threads)

    def warp_sync(self) -> None:
        """``bar.warp.sync``: every lane of the warp."""
        self._act("bar_warp_sync")

    def cp_async_commit(self) -> None:
        """Close a group of this thread's ``cp.async``."""
        self._act("cp_async_commit")

    def cp_async_wait(self, pending: int = 0) -> None:
        """Wait until at most ``pending`` of this thread's newest groups are unfinished; a barrier shows others."""
        self._act("cp_async_wait", pending)

    def cluster_sync(self) -> None:
        """Every thread of the cluster arrives and waits."""
        self._act("cluster_sync")

    def fence_proxy_async(self, space: str = "shared::cta") -> None:
        """Order ordinary accesses before those of bulk copies and tcgen05."""
        self._act("fence_proxy_async", space)

    def fence_mbarrier_init(self) -> None:
        """Make initialised mbarriers visible to the cluster; a barrier follows."""
        self._act("fence_mbarrier_init")

    def mbarrier(self, name: str | None = None, *, count: int = 1) -> Mbarrier:
        """``count`` mbarriers in shared memory; see :class:`Mbarrier` for what they do."""
        return Mbarrier(self, self.shared(count, "uint64", name=name or self._fresh("mbar"), align_bytes=8))

    # ------------------------------------------------------------------------------------------- tensor memory

    def tmem(self, shape: Sequence[int], dtype: Any, *, layout: Layout, name: str | None = None) -> Buffer:
        """A buffer in tensor memory; ``tcgen05_alloc`` gives it its address, which lies in a shared word of its own.

        Args:
            shape: extents.
            dtype: element type.
            layout: over ``TLane`` and ``TCol`` (in elements along a lane), with ``R[4 : 32 @ TLane]`` for tcgen05_cp.
            name: an identifier.
        """
        name = self._claim(name or self._fresh("tmem"), "tensor buffer")
        holder = self.shared(1, "uint32", name=f"{name}_address", align_bytes=4)
        return Buffer(shape, dtype, space="tmem", layout=layout, name=name, allocated_addr=holder)

    def tcgen05_alloc(self, buffer: Buffer, *, columns: int = 32, cta_group: int = 1) -> None:
        """Allocate tensor memory for a buffer: executed by one whole warp; a barrier shows the address to others.

        Args:
            buffer: from :meth:`tmem`.
            columns: 32-bit columns, a power of two from 32 to 512 (the hardware refuses 16).
            cta_group: 1, or 2 for a pair of CTAs.
        """
        holder = self._holder(buffer)
        needed = -(-buffer.layout.span(TCol) * buffer.dtype.bits // 32)
        if needed > columns:
            raise RequestError(f"{buffer.name} needs {needed} columns of tensor memory; {columns} are allocated")
        self._append(Action(lambda ptx: ptx.tcgen05_alloc(ptx.address(holder), columns, cta_group)))

    def tcgen05_dealloc(self, buffer: Buffer, *, columns: int = 32, cta_group: int = 1) -> None:
        """Give tensor memory back: by the warp that allocated it, before the kernel ends."""
        holder = self._holder(buffer)
        self._append(
            Action(lambda ptx: ptx.tcgen05_dealloc(ptx.tensor_address(ptx.address(holder)), columns, cta_group))
        )

    def tcgen05_commit(self, barrier: Mbarrier | Region, *, cta_group: int = 1) -> None:
        """Let an mbarrier (``mbar``, or one of several, ``mbar[i]``) count one arrival when this thread's copies are done."""
        element = barrier[0] if isinstance(barrier, Mbarrier) else barrier
        self._append(Action(lambda ptx: ptx.tcgen05_commit(barrier_address(ptx, element), cta_group)))

    def tcgen05_fence_after(self) -> None:
        """Order tcgen05 work that follows after the synchronisation that came before."""
        self._act("tcgen05_fence", after=True)

    def tcgen05_fence_before(self) -> None:
        """Order tcgen05 work that came before, before the synchronisation that follows."""
        self._act("tcgen05_fence", after=False)

    def tcgen05_ld(self, fragment: Buffer, buffer: Buffer, *, column: Int = 0) -> None:
        """Load consecutive columns of the thread's own lane into a local buffer of 32-bit elements, one a register."""
        holder = self._holder(buffer)
        if fragment.space != "local" or fragment.dtype.bits != 32:
            raise RequestError(f"tcgen05_ld fills a local buffer of 32-bit elements, not {fragment!r}")

        def write(ptx: PtxBuilder) -> None:
            ptx.tcgen05_ld(ptx.declare_local(fragment), ptx.tensor_address(ptx.address(holder), column))

        self._append(Action(write))

    def tcgen05_wait_ld(self) -> None:
        """Wait until this thread's ``tcgen05_ld`` are done."""
        self._act("tcgen05_wait_ld")

    def _holder(self, buffer: Buffer) -> Buffer:
        if buffer.space != "tmem" or not isinstance(buffer.allocated_addr, Buffer):
            raise RequestError(f"{buffer!r} is not a tensor buffer of this kernel (KernelBuilder.tmem)")
        return buffer.allocated_addr

    def inline_ptx(self, text: str, *operands: Any) -> None:
        """PTX as it is; ``{0}``, ``{1}`` .. stand for operands.

        Args:
            text: instructions; labels and registers inside ``{{ }}`` are its own.
            operands: run-time values and symbolic integers (their register), regions of one element (their address).
        """

        def write(ptx: PtxBuilder) -> None:
            ptx.raw(text.format(*(_operand(ptx, operand) for operand in operands)))

        self._written |= {p.name for p in self._parameters if isinstance(p, Buffer)}
        self._append(Action(write))

    # ------------------------------------------------------------------------------------------- build

    def build(
        self,
        *,
        target: Target | str,
        grid: Sequence[int] | int | None = None,
        cluster: Sequence[int] | int | None = None,
        registry: Registry | None = None,
    ) -> BuiltKernel:
        """Lower the kernel.

        Args:
            target: such as ``"sm_90a"``.
            grid: CTAs along x, y, z; may be given at launch instead.
            cluster: CTAs of a cluster along x, y, z; likewise.
            registry: the variants to ask; by default the installed ones.

        Raises:
            NoVariantError: a copy that no variant lowers.
            TilecopyError: anything else that is wrong with the kernel; nothing is launched.
        """
        if len(self._stack) != 1:
            raise RequestError(f"kernel {self.name} is built inside one of its own blocks")
        return lower_kernel(
            name=self.name,
            threads=self.threads,
            parameters=tuple(self._parameters),
            shared=tuple(self._shared),
            body=self._body,
            bounds=tuple(self._bounds),
            written=frozenset(self._written),
            target=target,
            grid=grid,
            cluster=cluster,
            registry=registry,
        )


def _operand(ptx: PtxBuilder, operand: Any) -> str:
    if isinstance(operand, Value):
        return str(lower_value(ptx, operand))
    if isinstance(operand, Region):
        return str(ptx.address(operand.buffer, element_offset(operand)))
    if is_int(operand):
        return str(ptx.value(operand) if as_expr(operand).terms else operand)
    raise RequestError(f"an operand of inline PTX is a value, an integer or an element, not {operand!r}")
