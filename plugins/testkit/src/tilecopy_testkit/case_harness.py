"""The harness of a copy: a kernel that fills source and destination, runs the copy, waits and stores both memories.

Only the copy itself is lowered by a variant. The harness loads and stores single elements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy.harness import Harness, HarnessCopy, HarnessMemory, element_storage

from tilecopy_core.errors import TEXT, checked, integer_in, one_of, optional, short_repr

from .copy_case import CASE, CopyCase, Operand
from .oracle import check_memory, consistent, low_halves, memory_shape, read_places
from .validators import NAMES, NATURAL
from .variant_under_test import SUBJECT, VariantUnderTest


def _own_arguments(subject: VariantUnderTest, case: CopyCase) -> dict[str, Any]:
    """Return the additional arguments of a launch that the variant's author defines, by parameter."""
    arguments = {name: make(case) for name, make in subject.arguments.items()}
    for name, value in arguments.items():
        if not isinstance(value, (np.ndarray, int)):
            raise tc.PluginError(f"argument {name} must be a NumPy array or an integer, got {short_repr(value)}")
    return arguments


def _words_of(case: CopyCase, side: str) -> tuple[tuple[int, ...], str]:
    """Return the shape and the dtype of the array of words that is the kernel's argument for the memory of a side."""
    operand = getattr(case, side)
    *shape, elems, size = memory_shape(case, operand)
    word, _ = element_storage(tc.dtype_of(case.dtype).bits)
    if operand.space == "tmem":
        word = "uint32"
    elif operand.space == "shared" and side == "dst":
        word = "uint64"
    return (*shape, elems * size // np.dtype(word).itemsize), word


def sizes_at_launch(case: CopyCase, operand: Operand) -> tuple[int, ...]:
    """Return the shape of a global array whose sizes are launch arguments. Return () for any other operand."""
    plain = operand.space == "global" and not operand.swizzle and not operand.offset and not operand.replica
    return operand.shape if case.dynamic_shape and plain and len(operand.iters) == len(operand.shape) else ()


class CaseHarness(Harness):
    """The builder of a test case's kernel. The suite's functions for completion steps and options receive this builder.

    Args:
        case: the case.
        subject: the variant.
        skip: the name of a completion step to omit.
        left_out: the names of options to omit.
        unread: the number of elements of a global source outside all boxes. One more CTA writes them during the copy, so that
            reading them is a race.

    Attributes:
        kernel: the builder.
        case: the case.
        turn: the loop's index, or 0.
        rank: the CTA's rank in its cluster.
        sizes: the sizes of ``dst`` and ``src`` that are known only at launch, or ().
        arguments: the variant's own parameters by name: a buffer in global memory, or a symbolic integer.
    """

    @checked(case=CASE, subject=SUBJECT, skip=optional(TEXT), left_out=NAMES, unread=integer_in(0, 2**31))
    def __init__(
        self,
        case: CopyCase,
        subject: VariantUnderTest,
        skip: str | None = None,
        left_out: Collection[str] = (),
        *,
        unread: int = 0,
    ) -> None:
        self.case, self._subject, self._left_out = case, subject, left_out
        copy = HarnessCopy(
            variant=subject.record,
            op=case.op,
            scope=case.scope,
            options=dict(case.options),
            target=case.target,
            outside=case.outside,
            issued_by_one=case.issued_by == "one",
            nbytes=case.count * case.elem_bytes,
            iterations=case.iterations,
            cluster=case.cluster,
            cta_group=case.cta_group,
            receivers=case.receivers,
        )
        steps = [step for step in subject.steps if step.name != skip]
        super().__init__(tc.KernelBuilder("around", threads=case.threads), copy, steps, subject.options)
        k, operands = self.kernel, {"src": case.src, "dst": case.dst}
        k.param("decoy", (16,), "uint32")
        arrays = {}
        for name, operand in operands.items():
            align = max(case.elem_bytes, operand.align_bytes) if operand.space == "global" else 16
            arrays[name] = k.param(name, *_words_of(case, name), align_bytes=min(16, align))
        self._mask = None
        if case.src.space == "shared":
            self._mask = k.param("mask", memory_shape(case, case.src)[:2], "uint8")
        self._unread = k.param("unread", (unread,), "int32") if unread else None
        self.scalar: Any = 0
        if "n" in case.variables:
            self.scalar = k.scalar("n", multiple_of=case.multiple_of, upper=max(case.n, case.multiple_of))
        self.cta = k.block_id() if case.blocks > 1 else 0
        self.sizes: dict[str, tuple[Any, ...]] = {}
        for name, operand in operands.items():
            sizes = enumerate(sizes_at_launch(case, operand))
            self.sizes[name] = tuple(k.scalar(f"{name}{dim}", lower=1, upper=2 * size) for dim, size in sizes)
        self.arguments = {name: self._own(name, value) for name, value in _own_arguments(subject, case).items()}
        k.shared(16, "uint32", name="decoy_tile")
        for name, operand in operands.items():
            array = arrays[name]
            pool = self._pool(name, operand, array)
            columns = array.shape[-1] if operand.space == "tmem" else 0
            buffer = self._buffer(name, operand, pool)
            self.memories[name] = HarnessMemory(array, pool, buffer, columns, low_halves(case, operand))
        self.mbarrier = self._second_of_a_ring() if self.needs_mbarrier else None

    # ------------------------------------------------------------------------------------------- operands

    def region(self, side: str) -> tc.Region:
        """Return the region of ``dst`` or ``src``."""
        one_of("dst", "src").check(side, "CaseHarness.region", "side")
        operand = getattr(self.case, side)
        return self.memories[side].buffer[operand.box(self._values())]

    def options(self) -> dict[str, Any]:
        """Return a dict of the copy's options."""
        return {name: value for name, value in super().options().items() if name not in self._left_out}

    def request(self, **changes: Any) -> tc.CopyRequest:
        """Return the request of the copy, as the kernel would pass it to the registry."""
        d = self.case
        active = tc.ActiveThreads(d.threads)
        if d.issued_by == "one" and d.threads > 1:
            active = tc.ActiveThreads(d.threads, mask=(True, *(False,) * (d.threads - 1)))
        fields: dict[str, Any] = {
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
        return tc.CopyRequest(**(fields | changes))

    def _values(self) -> dict[str, Any]:
        d, tid = self.case, self.kernel.thread_id()
        unit: Any = 0
        if d.units > 1:
            unit = {"warp": tid // 32, "warpgroup": tid // 128, "thread": tid}[d.scope]
        return {"block": self.cta, "turn": self.turn, "unit": unit, "n": self.scalar}

    def _second_of_a_ring(self) -> tc.Mbarrier:
        """Return the second mbarrier of a buffer. The first is not initialized, so that its use is an error."""
        ring = self.kernel.shared(2, "uint64", name="mbar", align_bytes=8)
        second = tc.Buffer(
            1, "uint64", space="shared", name="mbar", memory=ring.memory, align_bytes=8, storage_offset=1
        )
        return tc.Mbarrier(self.kernel, second)

    def _own(self, name: str, value: Any) -> Any:
        """Return the parameter for an argument of the variant."""
        if isinstance(value, int):
            return self.kernel.scalar(name, lower=min(0, value), upper=max(0, value))
        return self.kernel.param(name, value.shape, value.dtype.name)

    def _pool(self, name: str, operand: Operand, array: tc.Buffer) -> tc.Buffer | None:
        """Return the words of a memory; those of memory of an SM are a row of the caller's array."""
        count, k = array.shape[-1], self.kernel
        if operand.space == "global":
            return array
        if operand.space == "shared":
            align = max(operand.align_bytes, self.case.elem_bytes, 8 if name == "dst" else 1)
            return k.shared(count, array.dtype, name=f"{name}_tile", align_bytes=align)
        return k.local(count, array.dtype, name=f"{name}_fragment") if operand.space == "local" else None

    def _buffer(self, name: str, operand: Operand, pool: tc.Buffer | None) -> tc.Buffer:
        if pool is None:
            shape, dtype = operand.shape, self.case.dtype
            return self.kernel.tmem(shape, dtype, layout=operand.layout, name=f"{name}_tensor")
        sizes = self.sizes[name]
        layout: Any = operand.layout
        if sizes:  # the class of layouts with run-time sizes
            strided: Any = type(tc.Buffer(sizes, "uint8", space="global").layout)
            layout = strided(sizes, tuple(s for _, s, _ in operand.iters))
        return tc.Buffer(
            sizes or operand.shape,
            self.case.dtype,
            space=operand.space,
            name=pool.name,
            layout=layout,
            memory=pool.memory,
            align_bytes=pool.align_bytes,
            storage_offset=operand.storage_offset,
        )

    # ------------------------------------------------------------------------------------------- the kernel

    def build(self) -> tc.BuiltKernel:
        """Return the built kernel.

        Raises:
            NoVariantError: the variant declines the copy.
            TilecopyError: its emit hook failed.
        """
        k, d = self.kernel, self.case
        if self._unread is None:
            self.body()
        else:
            unread, elements, extra = self._unread, self.memories["src"].array, k.block_id() == d.blocks
            with k.if_(extra):
                upper = elements.shape[0] - 1
                self._distribute(
                    unread.shape[0], lambda i: k.store(elements[k.index(k.load(unread[i]), upper=upper)], 0)
                )
            with k.if_(~extra):
                self.body()
        return k.build(
            target=d.target,
            grid=d.blocks + (self._unread is not None),
            cluster=d.cluster if self.has_cluster else None,
            registry=self._subject.registry,
        )

    def _filling(self, side: str, word: Any) -> AbstractContextManager[Any]:
        """Return the block in which a word of shared memory is filled; words that are not read stay uninitialized."""
        if side == "dst" or self._mask is None:
            return nullcontext()
        _, words = element_storage(tc.dtype_of(self.case.dtype).bits)
        return self.kernel.if_(self.kernel.load(self._mask[self.cta, word // words]) != 0)

    def _columns_filled(self, side: str) -> Sequence[int]:
        """Return the first of each four columns of tensor memory to fill; of a source, only columns that are read."""
        if side == "dst":
            return super()._columns_filled(side)
        *places, size = memory_shape(self.case, self.case.src)
        read = np.broadcast_to(read_places(self.case), places)
        read = np.repeat(read, max(1, size // 4), axis=2)  # elements of 64 bits: two columns
        columns = self.memories[side].columns
        read = read.reshape(-1, columns, read.shape[2] // columns)
        return [first for first in range(0, columns, 4) if read[:, first : first + 4].any()]


def launch_arguments(
    subject: VariantUnderTest, case: CopyCase, source: Any, target: Any, unread: Any = None
) -> list[Any]:
    """Return the arguments of a launch: the result of :func:`arguments_of`, then the variant's additional arguments."""
    return [*arguments_of(case, source, target, unread), *_own_arguments(subject, case).values()]


@checked(case=CASE, seed=NATURAL)
def arrays_of(case: CopyCase, seed: int = 0) -> tuple[Any, Any]:
    """Return random bytes for the memories of source and destination. :mod:`.oracle` describes the shapes."""
    rng = np.random.default_rng(seed)
    source, target = (rng.integers(0, 256, memory_shape(case, operand), np.uint8) for operand in (case.src, case.dst))
    return consistent(case, source), target


def unread_places(case: CopyCase) -> Any:
    """Return the indices of the stored integers of a global source that the copy does not read."""
    _, words = element_storage(tc.dtype_of(case.dtype).bits)
    return np.flatnonzero(~np.repeat(read_places(case), words)).astype(np.int32)


@checked(case=CASE)
def arguments_of(case: CopyCase, source: Any, target: Any, unread: Any = None) -> list[Any]:
    """Return the kernel's arguments. The arrays are views of ``source`` and ``target``, so a launch changes ``target``.

    Args:
        case: the case.
        source: bytes of the source's memory.
        target: bytes of the destination's memory.
        unread: indices of the words that one more CTA writes.
    """
    check_memory("arguments_of", "source", source, memory_shape(case, case.src))
    check_memory("arguments_of", "target", target, memory_shape(case, case.dst))
    fits = unread is None or (isinstance(unread, np.ndarray) and unread.dtype == np.int32 and unread.ndim == 1)
    if not fits:
        raise tc.RequestError(f"arguments_of: unread must be a 1-D array of int32, or None, got {short_repr(unread)}")
    arguments: list[Any] = [np.zeros(16, np.uint32)]
    for side, memory in (("src", source), ("dst", target)):
        shape, word = _words_of(case, side)
        arguments.append(memory.reshape(-1).view(word).reshape(shape))
    if case.src.space == "shared":
        arguments.append(read_places(case).astype(np.uint8))
    if unread is not None:
        arguments.append(unread)
    if "n" in case.variables:
        arguments.append(case.n)
    return [*arguments, *(size for o in (case.src, case.dst) for size in sizes_at_launch(case, o))]
