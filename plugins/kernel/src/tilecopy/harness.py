"""The harness of a copy: a minimal kernel that fills source and destination, copies, waits, and stores the destination.

The conformance kit and the pictures run their copies in it. ``tilecopy ptx`` writes only the copy. The costs use its placeholders
for options that only a kernel has. :data:`COMPLETIONS` has a row of steps for each completion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, cast

import attrs

from tilecopy_core import Buffer, Region, RequestError, Target, TileLayout, Variant, target_of
from tilecopy_core.errors import frozen
from tilecopy_core.plugin import Option

from .validators import FUNCTION, TEXT, one_of, tuple_of

if TYPE_CHECKING:
    from .kernel.barriers import Mbarrier
    from .kernel.builder import KernelBuilder

__all__ = ["COMPLETIONS", "OPTIONS", "TMEM_LANES", "Harness", "HarnessCopy", "HarnessMemory", "Step", "declare"]
__all__ += ["element_storage", "stand_ins"]

TMEM_LANES = 128
"""The lanes of tensor memory. A column of a lane has 32 bits."""
_SPACES = ("global", "shared", "local", "tmem")


@attrs.frozen
class Step:
    """One of the steps that the caller of a copy takes to complete the copy.

    Attributes:
        name: the name in reports.
        when: ``before`` the copy or ``after`` it.
        who: ``all`` threads, or only the ``issuer``.
        write: the function that records the step in a harness.
        spaces: the state spaces of destinations that need the step.
    """

    name: str = attrs.field(validator=TEXT)
    when: Literal["before", "after"] = attrs.field(validator=one_of("before", "after"))
    who: Literal["all", "issuer"] = attrs.field(validator=one_of("all", "issuer"))
    write: Callable[[Harness], object] = attrs.field(validator=FUNCTION)
    spaces: tuple[str, ...] = attrs.field(default=_SPACES, validator=tuple_of(one_of(*_SPACES)))


FENCE = Step("fence_proxy_async", "before", "all", lambda harness: harness.kernel.fence_proxy_async())
BARRIER = Step("barrier", "after", "all", lambda harness: harness.synchronize(), ("shared",))
WAIT = Step("wait", "after", "all", lambda harness: harness.wait())

COMPLETIONS: dict[str, tuple[Step, ...]] = {
    "barrier": (BARRIER,),
    "cp_async_group": (
        Step("cp_async_commit", "after", "all", lambda harness: harness.kernel.cp_async_commit()),
        Step("cp_async_wait", "after", "all", lambda harness: harness.kernel.cp_async_wait(0)),
        BARRIER,
    ),
    "mbarrier": (FENCE, Step("arrive_expect_tx", "before", "issuer", lambda harness: harness.expect_bytes()), WAIT),
    "bulk_group": (
        FENCE,
        Step("bulk_commit", "after", "issuer", lambda harness: harness.kernel.bulk_commit()),
        Step("bulk_wait", "after", "issuer", lambda harness: harness.kernel.bulk_wait(0)),
        BARRIER,
    ),
    "tcgen05_commit": (FENCE, Step("tcgen05_commit", "after", "issuer", lambda harness: harness.commit_tensor()), WAIT),
    "wgmma_group": (
        Step("commit_group", "after", "all", lambda h: h.kernel.inline_ptx("wgmma.commit_group.sync.aligned;")),
        Step("wait_group", "after", "all", lambda h: h.kernel.inline_ptx("wgmma.wait_group.sync.aligned 0;")),
        BARRIER,
    ),
}
"""The steps of each completion, in order. The keys are those of :attr:`tilecopy_core.Variant.completion`."""
OPTIONS: dict[str, Callable[[Any], Any]] = {
    "mbar": lambda harness: harness.barrier[0],
    "remote_cta_id": lambda harness: (harness.rank + 1) % harness.copy.cluster,
}
"""Name of an option that only a kernel has -> function that creates it from a harness."""


def stand_ins(record: Variant, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return placeholder values for required options that ``options`` lacks. A placeholder is an mbarrier or 0."""
    missing = (option for option in record.options if option.required and options.get(option.name) is None)
    return {option.name: _stand_in(option) for option in missing}


def _stand_in(option: Option) -> Any:
    barrier = Buffer((1,), "uint64", space="shared", name=option.name)
    if Region in option.types:
        return barrier[0]
    if Buffer in option.types:
        return barrier
    if int in option.types:
        return 0
    raise RequestError(f"option {option.name} is required to count instructions: pass {option.meaning}")


def declare(kernel: KernelBuilder, region: Region) -> Region:
    """Declare a kernel's buffer with the properties of a region's buffer. Return the same region of the new buffer."""
    buffer, layout = region.buffer, cast("TileLayout", region.buffer.layout)
    if buffer.space == "global":
        if len(layout.shard) != len(buffer.shape):
            raise RequestError(
                f"{buffer.name}: the layout of a global buffer must have one stride per dimension, got {layout}"
            )
        declared = kernel.param(buffer.name, buffer.shape, buffer.dtype, strides=layout.strides)
    elif buffer.space in ("shared", "local"):
        declared = getattr(kernel, buffer.space)(buffer.shape, buffer.dtype, layout=layout, name=buffer.name)
    else:
        raise RequestError(
            f"{buffer.name}: a buffer in {buffer.space} memory needs a kernel around the copy; use KernelBuilder"
        )
    return attrs.evolve(region, buffer=declared)


def element_storage(bits: int) -> tuple[str, int]:
    """Return ``(dtype, count)``: an element of ``bits`` bits is stored as ``count`` integers of this dtype."""
    return (f"uint{bits}", 1) if bits <= 64 else ("uint64", bits // 64)


@frozen
class HarnessCopy:
    """A frozen record of the copy that a harness executes.

    Attributes:
        variant: the record of the variant that lowers it, or None if the dispatch chooses.
        op: ``copy`` or ``copy_async``.
        scope: the kind of its scope.
        options: the options that do not depend on the kernel.
        target: the architecture.
        outside: the fill of elements outside, see :func:`tilecopy.plan`.
        issued_by_one: True if only thread 0 issues it.
        nbytes: the bytes that arrive at a CTA in one iteration.
        iterations: the number of times that the copy is done.
        cluster: the number of CTAs of a cluster.
        cta_group: the number of CTAs that share tensor memory.
        receivers: the ranks of the CTAs that receive a multicast.
    """

    variant: Variant | None
    op: str
    scope: str
    options: Mapping[str, Any]
    target: Target | str
    outside: Any = None
    issued_by_one: bool = False
    nbytes: int = 0
    iterations: int = 1
    cluster: int = 1
    cta_group: int = 1
    receivers: tuple[int, ...] = ()


@frozen
class HarnessMemory:
    """A frozen record of the memory of the copy's source or destination.

    Attributes:
        array: the caller's array. For memory of an SM it has a row per CTA: ``[cta, word]``, ``[cta, thread, register]`` or
            ``[cta, lane, column]``.
        words: the memory as words: for global memory the array itself, for tensor memory None.
        buffer: the buffer in the copy.
        columns: the number of allocated columns of tensor memory.
        low_halves: True if the elements are the lower 16 bits of each column of tensor memory.
    """

    array: Buffer
    words: Buffer | None
    buffer: Buffer
    columns: int = 0
    low_halves: bool = False


class Harness:
    """A harness: a kernel builder that records a kernel that runs one copy.

    A subclass sets ``memories``, ``regions`` and ``mbarrier``.

    Attributes:
        kernel: the builder.
        copy: the record of the copy.
        steps: the steps that complete it.
        makers: name of an option that only a kernel has -> function that creates it.
        rank: the CTA's rank in its cluster.
        turn: the index of the loop around the copy, or 0.
        cta: the CTA's row in the callers' arrays.
        memories: the memories of ``src`` and ``dst``.
        regions: the boxes of both, if they are the same in each iteration.
        mbarrier: the barrier for the copy's option ``mbar``, or None if it is not needed.
    """

    def __init__(
        self,
        kernel: KernelBuilder,
        copy: HarnessCopy,
        steps: Sequence[Step] = (),
        makers: Mapping[str, Callable[[Any], Any]] = OPTIONS,
    ) -> None:
        self.kernel: KernelBuilder = kernel
        self.copy, self.steps, self.makers = copy, steps, makers
        self.rank: Any = kernel.cluster_rank() if copy.cluster > 1 else 0
        self.turn: Any = 0
        self.cta: Any = self.rank
        self.memories: dict[str, HarnessMemory] = {}
        self.regions: dict[str, Region] = {}
        self.mbarrier: Mbarrier | None = None

    # ------------------------------------------------------------------------------------------- for completions and options

    @property
    def needs_mbarrier(self) -> bool:
        """True if the variant has the option ``mbar``, or its copies complete on an mbarrier."""
        variant = self.copy.variant
        return variant is not None and (
            variant.completion in ("mbarrier", "tcgen05_commit") or any(o.name == "mbar" for o in variant.options)
        )

    @property
    def barrier(self) -> Mbarrier:
        """The mbarrier for the copy's option ``mbar``."""
        if self.mbarrier is None:
            raise RequestError(
                f"{type(self).__name__}: the copy's variant must have an option mbar or complete on an mbarrier, got variant {getattr(self.copy.variant, 'name', None)!r}"
            )
        return self.mbarrier

    @property
    def has_cluster(self) -> bool:
        """True if the kernel has clusters."""
        return self.copy.cluster > 1

    def synchronize(self) -> None:
        """Write a barrier of the CTA, or of the cluster if the kernel has clusters."""
        self.kernel.cluster_sync() if self.has_cluster else self.kernel.cta_sync()

    def commit_tensor(self) -> None:
        """Write a ``tcgen05.commit``. It arrives at the mbarrier when the copy is complete."""
        self.kernel.tcgen05_commit(self.barrier[0], cta_group=self.copy.cta_group)

    def wait(self) -> None:
        """Write a wait for this iteration's phase of the mbarrier. In a CTA pair, rank 1 waits for rank 0."""
        phase = self.turn % 2
        if self.copy.receivers:
            with self._receiving():
                self.barrier.wait(phase, cluster=True)
        elif self.copy.cta_group == 1:
            self.barrier.wait(phase, cluster=self.has_cluster)
        else:
            with self.kernel.if_(self.rank == 0):
                self.barrier.wait(phase)
            self.synchronize()

    def expect_bytes(self) -> None:
        """Write an ``arrive_expect_tx`` of one thread for all bytes that arrive at this CTA in one iteration."""
        by_one = nullcontext() if self.copy.issued_by_one else self.kernel.if_(self.kernel.thread_id() == 0)
        with by_one, self._receiving():
            self.barrier.arrive_expect_tx(self.copy.nbytes)

    def _receiving(self) -> AbstractContextManager[Any]:
        """Return a block for the CTAs that receive a multicast."""
        ranks = self.copy.receivers
        return self.kernel.if_(reduce(or_, [self.rank == rank for rank in ranks])) if ranks else nullcontext()

    # ------------------------------------------------------------------------------------------- the copy

    def region(self, side: str) -> Region:
        """Return the region that the copy writes (``dst``) or reads (``src``)."""
        return self.regions[side]

    def options(self) -> dict[str, Any]:
        """Return the options of the copy, plus options that only a kernel can provide, such as ``mbar``."""
        options = dict(self.copy.options)
        for option in self.copy.variant.options if self.copy.variant is not None else ():
            if option.name in self.makers and option.name not in options:
                options[option.name] = self.makers[option.name](self)
        return options

    def issue(self) -> None:
        """Write the copy."""
        copy, variant = self.copy, self.copy.variant
        emit = getattr(getattr(self.kernel, copy.scope), copy.op)
        name = None if variant is None else variant.name
        emit(self.region("dst"), self.region("src"), variant=name, outside=copy.outside, **self.options())

    def issuing(self) -> AbstractContextManager[Any]:
        """Return a block for the threads that issue the copy."""
        blocks = ExitStack()
        if self.copy.issued_by_one:
            if self.copy.cta_group > 1:
                blocks.enter_context(self.kernel.if_(self.rank == 0))
            blocks.enter_context(self.kernel.if_(self.kernel.thread_id() == 0))
        return blocks

    def _write_steps(self, when: str, who: str) -> None:
        for step in self.steps:
            if (step.when, step.who) == (when, who) and self.memories["dst"].buffer.space in step.spaces:
                step.write(self)

    def _complete(self) -> None:
        """Write one iteration: the copy and the steps that complete it."""
        self._order()
        with self.issuing():
            self._write_steps("before", "issuer")
            with self.kernel.if_(self.rank == 0) if self.copy.receivers else nullcontext():
                self.issue()
            self._write_steps("after", "issuer")
        self._write_steps("after", "all")

    def _order(self) -> None:
        """Write a barrier, between tcgen05 fences if an operand is in tensor memory."""
        if self._tensor is not None:
            self.kernel.tcgen05_fence_before()
        self.synchronize()
        if self._tensor is not None:
            self.kernel.tcgen05_fence_after()

    # ------------------------------------------------------------------------------------------- the kernel

    @property
    def _tensor(self) -> HarnessMemory | None:
        """The operand in tensor memory, or None."""
        return next((memory for memory in self.memories.values() if memory.words is None), None)

    def body(self) -> None:
        """Write the body of the kernel."""
        k, tensor, copy = self.kernel, self._tensor, self.copy
        if self.mbarrier is not None:
            with k.if_(k.thread_id() == 0):
                self.mbarrier.init(1)
                if target_of(copy.target).arch >= 90:
                    k.fence_mbarrier_init()
        if tensor is not None:
            with k.if_(k.warp_id() == 0):
                k.tcgen05_alloc(tensor.buffer, columns=tensor.columns, cta_group=copy.cta_group)
            self.synchronize()
        self._move("src", fills=True)
        self._move("dst", fills=True)
        self._write_steps("before", "all")
        if copy.iterations > 1:
            for turn in k.range(copy.iterations):
                self.turn = turn
                self._complete()
        else:
            self._complete()
        if self.memories["dst"].words is None:
            self._order()
        self._move("dst", fills=False)
        if tensor is not None:
            k.tcgen05_fence_before()
            self.synchronize()
            with k.if_(k.warp_id() == 0):
                k.tcgen05_dealloc(tensor.buffer, columns=tensor.columns, cta_group=copy.cta_group)
        elif self.has_cluster:
            k.cluster_sync()

    def _distribute(self, count: int, move: Callable[[Any], None]) -> None:
        """Write ``move(i)`` for every ``i`` below a count, dealt out to the threads."""
        k, threads = self.kernel, self.kernel.threads
        if count <= threads:
            with k.if_(k.thread_id() < count):
                move(k.thread_id())
            return
        with k.range(-(-count // threads)) as turn, k.if_(turn * threads + k.thread_id() < count):
            move(turn * threads + k.thread_id())

    def _filling(self, side: str, word: Any) -> AbstractContextManager[Any]:
        """Return the block in which a word of shared memory is filled."""
        return nullcontext()

    def _columns_filled(self, side: str) -> Sequence[int]:
        """Return the columns of tensor memory at which a filled group of four begins."""
        return range(0, self.memories[side].columns, 4)

    def _move(self, side: str, *, fills: bool) -> None:
        """Write code that fills a memory of the SM from the caller's array, or stores it back there."""
        k, memory = self.kernel, self.memories[side]
        array, words = memory.array, memory.words

        def move(outer: Region, inner: Region) -> None:
            k.store(inner, k.load(outer)) if fills else k.store(outer, k.load(inner))

        def move_shared(word: Any) -> None:
            assert words is not None
            with self._filling(side, word) if fills else nullcontext():
                move(array[self.cta, word], words[word])

        if words is None:
            columns = self._columns_filled(side) if fills else range(0, memory.columns, 4)
            self._move_columns(memory, "st" if fills else "ld", columns)
        elif words.space == "shared":
            self._distribute(cast("int", words.shape[0]), move_shared)
        elif words.space == "local":
            for register in range(cast("int", words.shape[0])):
                move(array[self.cta, k.thread_id(), register], words[register])

    def _move_columns(self, memory: HarnessMemory, kind: Literal["st", "ld"], columns: Sequence[int]) -> None:
        k = self.kernel
        with k.if_(k.thread_id() < TMEM_LANES):
            holder = cast("Buffer", memory.buffer.allocated_addr)
            base = k.load(holder[0]) + k.cast(k.thread_id() // 32 * (32 << 16), "uint32")
            places = [memory.array[self.cta, k.thread_id(), column] for column in columns]
            k.inline_ptx(_columns_text(kind, columns, low_halves=memory.low_halves), base, *places)


def _columns_text(kind: Literal["st", "ld"], columns: Sequence[int], *, low_halves: bool) -> str:
    """Return PTX that moves groups of four columns, for :meth:`KernelBuilder.inline_ptx`.

    ``{0}`` is the address of the warp's part of tensor memory. ``{1}`` and later fields are columns of the array.
    """
    shape = f"x2.{'un' * (kind == 'st')}pack::16b" if low_halves else "x4"
    opcode = f"tcgen05.{kind}.sync.aligned.32x32b.{shape}.b32"
    moves, shows = list[str](), list[str]()
    for number, column in enumerate(columns, 1):
        whole = [f"w{column + i}" for i in range(4)]
        registers = f"{{{{{', '.join(whole[:2] if low_halves else whole)}}}}}"
        words = f"{{{{{', '.join(whole)}}}}}"
        if kind == "st":
            moves.append(f"ld.global.v4.b32 {words}, {{{number}}};")
            if low_halves:
                moves += [f"prmt.b32 {whole[i]}, {whole[2 * i]}, {whole[2 * i + 1]}, 0x5410;" for i in range(2)]
            moves.append(f"{opcode} [{{0}}+{column}], {registers};")
        else:
            moves.append(f"{opcode} {registers}, [{{0}}+{column}];")
            if low_halves:  # keep the bits between the elements in the array
                shows.append(f"ld.global.v4.b32 {{{{o0, o1, o2, o3}}}}, {{{number}}};")
                shows += [f"prmt.b32 {whole[i]}, {whole[i // 2]}, o{i}, 0x76{(10, 32)[i % 2]};" for i in (3, 2, 1, 0)]
            shows.append(f"st.global.v4.b32 {{{number}}}, {words};")
    lines = [".reg .b32 w<512>, o<4>;", *moves, f"tcgen05.wait::{kind}.sync.aligned;", *shows]
    return "{{ " + "\n".join(lines) + " }}"
