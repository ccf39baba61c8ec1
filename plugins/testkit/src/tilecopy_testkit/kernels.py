"""The kernel around a copy: both memories filled byte by byte, the copy and what completes it, both memories shown.

Nothing but the copy itself is lowered by a variant: what surrounds it are loads and stores of single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import reduce
from operator import or_
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from tilecopy_core.errors import TEXT, checked, instance_of, integer_in, one_of, optional, shown

from .completion import COMPLETIONS, Step
from .description import Description, Operand
from .kinds import NAMES, NATURAL
from .oracle import TMEM_LANES, check_memory, consistent, low_halves, memory_shape, read_places

DESCRIPTION = instance_of("a Description", Description)
OptionMaker = Callable[["Around"], Any]
ArgumentMaker = Callable[[Description], Any]


def _mbarrier_of(around: Around) -> Any:
    return around.barrier[0]


def _next_rank(around: Around) -> Any:
    return (around.rank + around.description.hop) % around.description.cluster


OPTIONS: dict[str, OptionMaker] = {"mbar": _mbarrier_of, "remote_cta_id": _next_rank}
"""Options that only a kernel has, by name."""


@attrs.frozen
class Surroundings:
    """How the kit makes kernels for one variant.

    Attributes:
        variant: its record.
        registry: where it is looked up; ``None`` is the process's.
        steps: what completes a copy.
        options: makes each option that only a kernel has.
        arguments: makes what a launch gives besides the kit's own arguments, by the parameter's name: an array or an integer.
    """

    variant: tc.Variant
    registry: tc.Registry | None
    steps: tuple[Step, ...]
    options: Mapping[str, OptionMaker]
    arguments: Mapping[str, ArgumentMaker] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        variant: tc.Variant,
        registry: tc.Registry | None = None,
        steps: Sequence[Step] | None = None,
        options: Mapping[str, OptionMaker] | None = None,
        arguments: Mapping[str, ArgumentMaker] | None = None,
    ) -> Surroundings:
        """Those that follow from a record."""
        known = COMPLETIONS.get(variant.completion, ()) if steps is None else tuple(steps)
        return cls(variant, registry, known, OPTIONS | dict(options or {}), dict(arguments or {}))

    def launched(self, description: Description, source: Any, target: Any, unread: Any = None) -> list[Any]:
        """The arguments of a launch: those of :func:`arguments_of`, then the variant's own."""
        own = [_argument(name, make(description)) for name, make in self.arguments.items()]
        return [*arguments_of(description, source, target, unread), *own]


def _argument(name: str, value: Any) -> Any:
    """What an author's function made, where a launch can take it."""
    if not isinstance(value, (np.ndarray, int)):
        raise tc.PluginError(f"argument {name}: {shown(value)} is not a NumPy array or an integer")
    return value


def element_storage(dtype: str) -> tuple[str, int]:
    """The integer type that holds an element's bytes, and how many of them it takes."""
    bits = tc.dtype_of(dtype).bits
    return (f"uint{bits}", 1) if bits <= 64 else ("uint64", bits // 64)


def _columns_text(kind: str, firsts: Sequence[int], *, halves: bool) -> str:
    """Four columns from each of some on: the warp's part of tensor memory lies at ``{0}``, a column of the array at ``{1}`` ..

    Of ``halves`` the lower 16 bits of each column are moved.
    """
    form = (
        f"tcgen05.{kind}.sync.aligned.32x32b." + (f"x2.{'un' * (kind == 'st')}pack::16b" if halves else "x4") + ".b32"
    )
    moves, shows = list[str](), list[str]()
    for number, first in enumerate(firsts, 1):
        whole = [f"w{first + i}" for i in range(4)]
        registers = f"{{{{{', '.join(whole[:2] if halves else whole)}}}}}"
        given = f"{{{{{', '.join(whole)}}}}}"
        if kind == "st":
            moves.append(f"ld.global.v4.b32 {given}, {{{number}}};")
            if halves:
                moves += [f"prmt.b32 {whole[i]}, {whole[2 * i]}, {whole[2 * i + 1]}, 0x5410;" for i in range(2)]
            moves.append(f"{form} [{{0}}+{first}], {registers};")
        else:
            moves.append(f"{form} {registers}, [{{0}}+{first}];")
            if halves:  # what stands in the array between the elements stays
                shows.append(f"ld.global.v4.b32 {{{{o0, o1, o2, o3}}}}, {{{number}}};")
                shows += [f"prmt.b32 {whole[i]}, {whole[i // 2]}, o{i}, 0x76{(10, 32)[i % 2]};" for i in (3, 2, 1, 0)]
            shows.append(f"st.global.v4.b32 {{{number}}}, {given};")
    lines = [".reg .b32 w<512>, o<4>;", *moves, f"tcgen05.wait::{kind}.sync.aligned;", *shows]
    return "{{ " + "\n".join(lines) + " }}"


def sizes_at_launch(description: Description, operand: Operand) -> tuple[int, ...]:
    """The sizes that a launch gives: those of a global array that has one stride a dimension, where they are asked for."""
    plain = operand.space == "global" and not operand.swizzle and not operand.offset and not operand.replica
    return operand.shape if description.sized and plain and len(operand.iters) == len(operand.shape) else ()


class Around:
    """A kernel in the making, as completions and options see it.

    Args:
        description: of the copy.
        surroundings: of its variant.
        skip: a step that is not done.
        left_out: options that are not given.
        unread: elements of a global source that no box has: one more CTA writes them meanwhile, so that who reads them
            races with it.

    Attributes:
        kernel: the builder.
        description: of the copy.
        turn: the loop's index, or 0.
        rank: the CTA's rank in its cluster.
        sizes: of ``dst`` and ``src`` those that are known at launch only, or ().
        arguments: by name, the parameters of the variant's own: a buffer in global memory, or a symbolic integer.
    """

    def __init__(
        self,
        description: Description,
        surroundings: Surroundings,
        skip: str | None = None,
        left_out: Collection[str] = (),
        *,
        unread: int = 0,
    ) -> None:
        for name, given, kind in (
            ("description", description, DESCRIPTION),
            ("surroundings", surroundings, instance_of("a Surroundings", Surroundings)),
            ("skip", skip, optional(TEXT)),
            ("left_out", left_out, NAMES),
            ("unread", unread, integer_in(0, 2**31)),
        ):
            kind.check(given, "Around", name)
        self.description, self._with, self._skip, self._left_out = description, surroundings, skip, left_out
        self.kernel = tc.KernelBuilder("around", threads=description.threads)
        k, d = self.kernel, description
        self.turn: Any = 0
        self._word, self._words = element_storage(d.dtype)
        self.decoy = k.param("decoy", (16,), "uint32")
        self._given = {name: self._param(name, op) for name, op in (("src", d.src), ("dst", d.dst))}
        self._mask = None
        if d.src.space == "shared":
            self._mask = k.param("mask", memory_shape(d, d.src)[:2], "uint8")
        self._unread = k.param("unread", (unread,), "int32") if unread else None
        self.scalar: Any = 0
        if self._uses("n"):
            self.scalar = k.scalar("n", multiple_of=d.multiple_of, upper=max(d.n, d.multiple_of))
        self.block: Any = k.block_id() if d.blocks > 1 else 0
        self.sizes = {name: self._size(name, op) for name, op in (("src", d.src), ("dst", d.dst))}
        self.arguments = {name: self._own(name, make(d)) for name, make in surroundings.arguments.items()}
        self.rank: Any = k.cluster_rank() if d.cluster > 1 else 0
        self.decoy_tile = k.shared(16, "uint32", name="decoy_tile")
        self._pools = {name: self._pool(name, op) for name, op in (("src", d.src), ("dst", d.dst))}
        self._buffers = {name: self._buffer(name, op) for name, op in (("src", d.src), ("dst", d.dst))}
        self._mbarrier = self._second_of_a_ring() if self._needs_mbarrier() else None

    # ------------------------------------------------------------------------------------------- for completions

    @property
    def barrier(self) -> tc.Mbarrier:
        """The mbarrier that the copy's option ``mbar`` names."""
        if self._mbarrier is None:
            raise tc.RequestError(
                f"Around: the kernel has no mbarrier: {self._with.variant.name} has no option mbar, and its completion is "
                f"{self._with.variant.completion!r}"
            )
        return self._mbarrier

    @property
    def clustered(self) -> bool:
        """Whether the kernel has clusters."""
        return self.description.cluster > 1

    def synchronize(self) -> None:
        """A barrier of the CTA, or of the cluster where there is one."""
        if self.clustered:
            self.kernel.cluster_sync()
        else:
            self.kernel.cta_sync()

    def commit_tensor(self) -> None:
        """``tcgen05.commit`` of the copy's CTAs."""
        self.kernel.tcgen05_commit(self.barrier[0], cta_group=self.description.cta_group)

    def wait(self) -> None:
        """Wait for this turn's phase of the mbarrier; of a pair of CTAs the first waits, and the other for that one."""
        phase = self.turn % 2
        if self.description.receivers:
            with self._receiving():
                self.barrier.wait(phase, cluster=True)
            return
        if self.description.cta_group == 1:
            self.barrier.wait(phase, cluster=self.clustered)
            return
        with self.kernel.if_(self.rank == 0):
            self.barrier.wait(phase)
        self.synchronize()

    def expect_bytes(self) -> None:
        """``arrive_expect_tx`` of all bytes that arrive at this CTA in one turn."""
        with self._receiving():
            self.barrier.arrive_expect_tx(self.description.count * self.description.elem_bytes)

    def _receiving(self) -> AbstractContextManager[Any]:
        """A block for the CTAs that a copy arrives at."""
        ranks = self.description.receivers
        if not ranks:
            return nullcontext()
        return self.kernel.if_(reduce(or_, [self.rank == rank for rank in ranks]))

    # ------------------------------------------------------------------------------------------- operands

    def region(self, side: str) -> tc.Region:
        """The box of ``dst`` or ``src``."""
        one_of("dst", "src").check(side, "Around.region", "side")
        operand = getattr(self.description, side)
        return self._buffers[side][operand.box(self._values())]

    def options(self) -> dict[str, Any]:
        """The options of the copy."""
        made = dict(self.description.options)
        for option in self._with.variant.options:
            if option.name in self._with.options and option.name not in made:
                made[option.name] = self._with.options[option.name](self)
        return {name: value for name, value in made.items() if name not in self._left_out}

    def request(self, **changes: Any) -> tc.CopyRequest:
        """The request of the copy, as the kernel would make it."""
        d = self.description
        active = tc.ActiveThreads(d.threads)
        if d.issuers == "one" and d.threads > 1:
            only_the_first: Any = self.kernel.thread_id() == 0
            active = active.narrowed_by(only_the_first)
        made: dict[str, Any] = {
            "op": d.op,
            "dst": self.region("dst"),
            "src": self.region("src"),
            "scope": tc.cta(d.threads) if d.scope == "cta" else getattr(tc, d.scope)(),
            "target": d.target,
            "active": active,
            "options": self.options(),
            "outside": d.outside,
            "cluster": d.cluster,
            "cta_group": d.cta_group if self._tensor is not None else None,
        }
        return tc.CopyRequest(**(made | changes))

    def _values(self) -> dict[str, Any]:
        d, tid = self.description, self.kernel.thread_id()
        unit: Any = 0
        if d.units > 1:
            unit = {"warp": tid // 32, "warpgroup": tid // 128, "thread": tid}[d.scope]
        return {"block": self.block, "turn": self.turn, "unit": unit, "n": self.scalar}

    def _second_of_a_ring(self) -> tc.Mbarrier:
        """An mbarrier after one that nobody initializes: who takes the first one is seen."""
        ring = self.kernel.shared(2, "uint64", name="mbar", align_bytes=8)
        second = tc.Buffer(1, "uint64", space="shared", name="mbar", memory=ring.memory, align_bytes=8, elem_offset=1)
        return tc.Mbarrier(self.kernel, second)

    def _uses(self, variable: str) -> bool:
        sides = (self.description.dst, self.description.src)
        return any(t.variable == variable for o in sides for s in o.starts for t in s.terms)

    def _needs_mbarrier(self) -> bool:
        named = {option.name for option in self._with.variant.options}
        return "mbar" in named or self._with.variant.completion in ("mbarrier", "tcgen05_commit")

    def _param(self, name: str, operand: Operand) -> tc.Buffer:
        *shape, size = memory_shape(self.description, operand)
        if operand.space == "tmem":
            return self.kernel.param(name, (*shape[:2], shape[2] * size // 4), "uint32")
        if operand.space == "shared" and name == "dst":
            return self.kernel.param(name, (shape[0], shape[1] * size // 8), "uint64")
        shape[-1] *= self._words
        align = max(size, operand.align_bytes) if operand.space == "global" else 16
        return self.kernel.param(name, shape, self._word, align_bytes=min(16, align))

    def _size(self, name: str, operand: Operand) -> tuple[Any, ...]:
        """The sizes of a global array that are known at launch only."""
        sizes = enumerate(sizes_at_launch(self.description, operand))
        return tuple(self.kernel.scalar(f"{name}{dim}", lower=1, upper=2 * size) for dim, size in sizes)

    def _own(self, name: str, value: Any) -> Any:
        """The parameter of an argument that is the variant's own."""
        value = _argument(name, value)
        if isinstance(value, int):
            return self.kernel.scalar(name, lower=min(0, value), upper=max(0, value))
        return self.kernel.param(name, value.shape, value.dtype.name)

    def _pool(self, name: str, operand: Operand) -> tc.Buffer | None:
        elems, k = operand.memory_elems * self._words, self.kernel
        if operand.space == "global":
            return self._given[name]
        if operand.space == "shared":
            _, elems, size = memory_shape(self.description, operand)
            align = max(operand.align_bytes, size, 8 if name == "dst" else 1)
            word, count = ("uint64", elems * size // 8) if name == "dst" else (self._word, elems * self._words)
            return k.shared(count, word, name=f"{name}_tile", align_bytes=align)
        return k.local(elems, self._word, name=f"{name}_fragment") if operand.space == "local" else None

    def _buffer(self, name: str, operand: Operand) -> tc.Buffer:
        pool = self._pools[name]
        if pool is None:
            shape, dtype = operand.shape, self.description.dtype
            return self.kernel.tmem(shape, dtype, layout=operand.layout, name=f"{name}_tensor")
        sizes = self.sizes[name]
        layout: Any = operand.layout
        if sizes:  # of the class that arrays of run-time sizes have
            strided: Any = type(tc.Buffer(sizes, "uint8", space="global").layout)
            layout = strided(sizes, tuple(s for _, s, _ in operand.iters))
        return tc.Buffer(
            sizes or operand.shape,
            self.description.dtype,
            space=operand.space,
            name=pool.name,
            layout=layout,
            memory=pool.memory,
            align_bytes=pool.align_bytes,
            elem_offset=operand.own_start,
        )

    # ------------------------------------------------------------------------------------------- the kernel

    def build(self) -> tc.BuiltKernel:
        """The whole kernel.

        Raises:
            NoVariantError: the variant declines the copy.
            TilecopyError: its emit hook failed.
        """
        k, d = self.kernel, self.description
        if self._unread is None:
            self._whole()
        else:
            unread, elements, extra = self._unread, self._given["src"], k.block_id() == d.blocks
            with k.if_(extra):
                self._each(unread.shape[0], lambda i: self._write_unread(elements, k.load(unread[i])))
            with k.if_(~extra):
                self._whole()
        return k.build(
            target=d.target,
            grid=d.blocks + (self._unread is not None),
            cluster=d.cluster if self.clustered else None,
            registry=self._with.registry,
        )

    def _write_unread(self, elements: tc.Buffer, place: tc.Value) -> None:
        at = self.kernel.index(place, upper=elements.shape[0] - 1)
        self.kernel.store(elements[at], 0)

    def _whole(self) -> None:
        """All that a CTA of the copies does."""
        k, d = self.kernel, self.description
        if self._mbarrier is not None:
            with k.if_(k.thread_id() == 0):
                self._mbarrier.init(1)
                if d.target not in ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89"):
                    k.fence_mbarrier_init()
        if self._tensor is not None:
            with k.if_(k.warp_id() == 0):
                k.tcgen05_alloc(self._tensor, columns=self._columns(), cta_group=d.cta_group)
            self.synchronize()
        self._fill("src", d.src, self._mask)
        self._fill("dst", d.dst, None)
        self._steps("before", "all")
        if d.turns > 1:
            for turn in k.range(d.turns):
                self.turn = turn
                self._copy()
        else:
            self._copy()
        self._show(d.dst)
        if self._tensor is not None:
            k.tcgen05_fence_before()
            self.synchronize()
            with k.if_(k.warp_id() == 0):
                k.tcgen05_dealloc(self._tensor, columns=self._columns(), cta_group=d.cta_group)
        elif self.clustered:
            k.cluster_sync()

    @property
    def _tensor(self) -> tc.Buffer | None:
        """The operand in tensor memory, where one is."""
        return next((buffer for buffer in self._buffers.values() if buffer.space == "tmem"), None)

    def _columns(self) -> int:
        d = self.description
        _, _, elems, size = memory_shape(d, d.dst if d.dst.space == "tmem" else d.src)
        return elems * size // 4

    def _copy(self) -> None:
        k, d = self.kernel, self.description
        if self._tensor is not None:
            k.tcgen05_fence_before()
        self.synchronize()
        if self._tensor is not None:
            k.tcgen05_fence_after()
        scope = getattr(k, d.scope)
        if d.issuers == "one":
            with ExitStack() as around:
                if d.cta_group > 1:
                    around.enter_context(k.if_(self.rank == 0))
                around.enter_context(k.if_(k.thread_id() == 0))
                self._steps("before", "issuer")
                with k.if_(self.rank == 0) if d.receivers else nullcontext():
                    self._issue(scope)
                self._steps("after", "issuer")
        else:
            self._steps("before", "issuer")
            self._issue(scope)
            self._steps("after", "issuer")
        self._steps("after", "all")

    def _issue(self, scope: Any) -> None:
        copy = getattr(scope, self.description.op)
        dst, src = self.region("dst"), self.region("src")
        copy(dst, src, variant=self._with.variant.name, outside=self.description.outside, **self.options())

    def _steps(self, when: str, who: str) -> None:
        for step in self._with.steps:
            meant = (step.when, step.who) == (when, who) and self.description.dst.space in step.spaces
            if meant and step.name != self._skip:
                step.write(self)

    def _each(self, count: int, move: Callable[[Any], None]) -> None:
        """``move(i)`` for every ``i`` below a count, dealt out to the threads."""
        k, threads = self.kernel, self.description.threads
        if count <= threads:
            with k.if_(k.thread_id() < count):
                move(k.thread_id())
            return
        with k.range(-(-count // threads)) as turn, k.if_(turn * threads + k.thread_id() < count):
            move(turn * threads + k.thread_id())

    def _fill(self, name: str, operand: Operand, mask: tc.Buffer | None) -> None:
        """The memory of an operand holds what the caller gave."""
        k, given, pool, words = self.kernel, self._given[name], self._pools[name], self._words
        if operand.space == "shared":
            assert pool is not None

            def move(i: Any) -> None:
                if mask is None:
                    k.store(pool[i], k.load(given[self.block, i]))
                    return
                with k.if_(k.load(mask[self.block, i // words]) != 0):  # what is not read stays poison
                    k.store(pool[i], k.load(given[self.block, i]))

            self._each(pool.shape[0], move)
        elif operand.space == "local":
            assert pool is not None
            for register in range(pool.shape[0]):
                k.store(pool[register], k.load(given[self.block, k.thread_id(), register]))
        elif operand.space == "tmem":
            read = np.ones(1, bool) if name == "dst" else read_places(self.description)
            *places, size = memory_shape(self.description, operand)
            read = np.repeat(
                np.broadcast_to(read, places), max(1, size // 4), axis=2
            )  # elements of 64 bits: two columns
            self._by_columns(name, operand, "st", read.reshape(-1, self._columns(), read.shape[2] // self._columns()))

    def _by_columns(self, name: str, operand: Operand, kind: str, read: Any) -> None:
        """Columns of every lane to (``st``) or from (``ld``) tensor memory; four of which nothing is read stay poison."""
        k, halves = self.kernel, low_halves(self.description, operand)
        firsts = [first for first in range(0, read.shape[1], 4) if read[:, first : first + 4].any()]
        with k.if_(k.thread_id() < TMEM_LANES):
            base = k.load(self._buffers[name].allocated_addr[0]) + k.cast(k.thread_id() // 32 * (32 << 16), "uint32")
            places = [self._given[name][self.block, k.thread_id(), first] for first in firsts]
            k.inline_ptx(_columns_text(kind, firsts, halves=halves), base, *places)

    def _show(self, operand: Operand) -> None:
        """What the memory of the destination holds goes back to the caller's array."""
        k, given, pool = self.kernel, self._given["dst"], self._pools["dst"]
        if operand.space == "shared":
            assert pool is not None
            self._each(pool.shape[0], lambda i: k.store(given[self.block, i], k.load(pool[i])))
        elif operand.space == "local":
            assert pool is not None
            for register in range(pool.shape[0]):
                k.store(given[self.block, k.thread_id(), register], k.load(pool[register]))
        elif operand.space == "tmem":
            k.tcgen05_fence_before()
            self.synchronize()
            k.tcgen05_fence_after()
            self._by_columns("dst", operand, "ld", np.ones((1, self._columns()), bool))


@checked(description=DESCRIPTION, seed=NATURAL)
def arrays_of(description: Description, seed: int = 0) -> tuple[Any, Any]:
    """Random bytes for the memories of source and destination (:mod:`.oracle` says in what shape)."""
    rng = np.random.default_rng(seed)
    source, target = (
        rng.integers(0, 256, memory_shape(description, operand), np.uint8)
        for operand in (description.src, description.dst)
    )
    return consistent(description, source), target


def unread_places(description: Description) -> Any:
    """The words of a global source that no box reads."""
    _, words = element_storage(description.dtype)
    return np.flatnonzero(~np.repeat(read_places(description), words)).astype(np.int32)


@checked(description=DESCRIPTION)
def arguments_of(description: Description, source: Any, target: Any, unread: Any = None) -> list[Any]:
    """The arguments of the kernel, over the memories themselves: a launch changes ``target``.

    Args:
        description: of the copies.
        source: bytes of the source's memory.
        target: bytes of the destination's.
        unread: the places that one more CTA writes.
    """
    word, words = element_storage(description.dtype)
    check_memory("arguments_of", "source", source, memory_shape(description, description.src))
    check_memory("arguments_of", "target", target, memory_shape(description, description.dst))
    fits = unread is None or (isinstance(unread, np.ndarray) and unread.dtype == np.int32 and unread.ndim == 1)
    if not fits:
        raise tc.RequestError(f"arguments_of: unread {shown(unread)} is not places (an array of int32), or None")

    def seen(memory: Any, operand: Operand) -> Any:
        if operand.space == "tmem":
            return memory.reshape(*memory.shape[:2], -1).view(np.uint32)
        if operand.space == "shared" and operand is description.dst:
            return memory.reshape(memory.shape[0], -1).view(np.uint64)
        flat = memory.reshape(*memory.shape[:-2], -1).view(word)
        return flat.reshape(*memory.shape[:-2], memory.shape[-2] * words)

    arguments = [np.zeros(16, np.uint32), seen(source, description.src), seen(target, description.dst)]
    if description.src.space == "shared":
        arguments.append(read_places(description).astype(np.uint8))
    if unread is not None:
        arguments.append(unread)
    sides = (description.dst, description.src)
    if any(t.variable == "n" for o in sides for s in o.starts for t in s.terms):
        arguments.append(description.n)
    return [*arguments, *(size for o in (description.src, description.dst) for size in sizes_at_launch(description, o))]
