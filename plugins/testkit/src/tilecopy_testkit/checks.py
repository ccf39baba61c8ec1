"""Checks that need several copies: completion steps, targets, other processes, options, large arrays, the GPU.

Each raises a :class:`Counterexample` for a variant that breaks its rule.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import tilecopy as tc
from tilecopy.assemblers import assemble, available_assemblers
from tilecopy.executors import get_executor

from . import oracle, properties
from .case_harness import arrays_of, launch_arguments
from .copy_case import CopyCase, Operand
from .counterexample import Counterexample, difference
from .properties import build_kernel, copy_instructions, emulate, first_mover, partition_of, request_of, shown, verdict
from .random_cases import case_of_seed
from .variant_process import answers, answers_elsewhere
from .variant_under_test import VariantUnderTest, restricted

__tracebackhide__ = True  # a failure shows the counterexample and the lines of the variant, not those of the kit
NEEDED = "each completion step must be needed: a copy without the step must cause a hazard"
DECLARED = "the variant's record must declare how a copy completes"
ASSEMBLES = "the PTX must assemble for every target in the variant's record"
SAME_ELSEWHERE = (
    "the variant must return the same answers in a process with another hash seed and another order of requests"
)
_COMPLETIONS = ("commit", "wait", "bar.", "barrier", "fence")
"""Parts of the opcodes that complete copies."""
OPTIONS = "the variant must lower or decline a copy without an option instead of raising an error"
ACCEPTS = "the variant must lower copies between every pair of memories in its record"
FAR = "arrays of more than 2**31 elements must be copied correctly"
FAR_ELEMS, FAR_GRAIN, MOST_FAR, MOST_FAR_BYTES = 1 << 31, 16, 4, 9 << 30
"""The least long stride, the modulus that it preserves, the most steps along it, and the most bytes of an array."""
FALLBACK = "tilecopy_testkit_fallback"
ON_GPU = "the results of the GPU must be equal to the results of the oracle"


Lowered = tuple[CopyCase, tc.BuiltKernel]
"""A case that the variant lowers, and its kernel."""


def accepted_cases(subject: VariantUnderTest, count: int, *, seed: str = "accepted", tries: int = 40) -> list[Lowered]:
    """Return up to ``count`` copies that the variant lowers, each with its kernel. The smallest copy comes first."""
    lowered = itertools.islice(_iter_accepted(subject, seed, tries * count), count)
    return sorted(lowered, key=lambda each: _size(each[0]))


def _size(d: CopyCase) -> tuple[int, int]:
    """Return the number of elements that a case copies in all CTAs and iterations, and the length of its description."""
    return d.count * d.blocks * d.iterations * d.units, len(d.to_json())


def _iter_accepted(
    subject: VariantUnderTest, seed: str, tries: int, fits: Callable[[CopyCase], object] = lambda case: True
) -> Iterator[Lowered]:
    """Yield fitting cases whose kernel can be built. If the hooks accept none of them outside a kernel, try to build all."""
    declined, accepted = list[CopyCase](), False
    for number in range(tries):
        case = case_of_seed(subject.case_space, f"{seed} {number}")
        if not fits(case):
            continue
        if verdict(subject, case) != "":
            declined.append(case)
            continue
        accepted = True
        if (kernel := build_kernel(subject, case)) is not None:
            yield case, kernel
    for case in () if accepted else declined:
        if (kernel := build_kernel(subject, case)) is not None:
            yield case, kernel


def accepts_every_pair(subject: VariantUnderTest) -> None:
    """Check that copies between every declared pair of memories are lowered, with correct results."""
    for pair in subject.case_space.spaces:
        one = restricted(subject, spaces=(pair,))
        lowered = accepted_cases(one, 3, seed=f"pair {pair}", tries=100)
        if not lowered:
            raise Counterexample(
                ACCEPTS, f"the variant must lower some of 300 copies from {pair[0]} to {pair[1]}, got none"
            )
        for case, kernel in lowered:
            properties.results_are_right(one, case, kernel)


def completion_is_declared(subject: VariantUnderTest) -> None:
    """Check that the kit knows the variant's completion. Check that a synchronous copy completes with ``barrier``."""
    record, why = subject.record, ""
    if record.completion == "undeclared":
        why = "completion must be in tilecopy_core.plugin.COMPLETIONS or be a new name, got 'undeclared'"
    elif not subject.completion_is_known:
        why = f"the kit has no steps for the completion {record.completion!r}: set VariantSuite.steps to a tuple of "
        why += "tilecopy_testkit.Step"
    elif record.op == "copy" and record.completion != "barrier":
        why = f"completion must be 'barrier' for a synchronous copy, got {record.completion!r}"
    if why:
        raise Counterexample(DECLARED, why)


def steps_are_needed(subject: VariantUnderTest, count: int = 12) -> None:
    """Check that each completion step is needed: without it, a copy must cause a hazard or have a wrong result."""
    for step in subject.steps:
        pairs = tuple(pair for pair in subject.case_space.spaces if pair[1] in step.spaces)
        if not pairs:
            continue
        tried = itertools.islice(
            _iter_accepted(restricted(subject, spaces=pairs), f"step {step.name}", 40 * count), count
        )
        right = list[Lowered]()
        for case, kernel in tried:
            if not _right_without(subject, case, step.name):
                break
            right.append((case, kernel))
        else:
            if not right:
                continue
            case, kernel = min(right, key=lambda each: _size(each[0]))
            lines = copy_instructions(kernel, subject.name)
            number = next((n for n, line in lines if any(part in line.opcode for part in _COMPLETIONS)), 0)
            why = (
                f"the step {step.name} of the completion {subject.record.completion!r} must be needed, but all {len(right)} "
                f"copies have right results without it: the variant already includes this step, or does not need it"
            )
            raise shown(NEEDED, why, case, kernel, number)


def _right_without(subject: VariantUnderTest, case: CopyCase, step: str) -> bool:
    kernel = build_kernel(subject, case, skip=step)
    if kernel is None:
        return True
    source, target = arrays_of(case)
    wanted = oracle.expected(case, (source, target))
    try:
        emulate(subject, case, kernel, source, target)
    except Counterexample:
        return False
    return bool(np.array_equal(wanted, target))


def assembles(subject: VariantUnderTest) -> int:
    """Assemble the PTX of one copy for each target. Return the number of targets, or 0 if no assembler is installed."""
    if not available_assemblers():
        return 0
    for target in subject.case_space.targets:
        lowered = accepted_cases(restricted(subject, targets=(target,)), 1, seed="targets", tries=200)
        if not lowered:
            raise Counterexample(ASSEMBLES, f"the variant must lower some of 200 copies for target {target}, got none")
        case, kernel = lowered[0]
        try:
            assemble(kernel.ptx, kernel.target)
        except tc.AssemblerError as error:
            raise Counterexample(ASSEMBLES, f"{target}: {error}", case) from error
    return len(subject.case_space.targets)


def same_elsewhere(subject: VariantUnderTest, count: int = 12) -> bool:
    """Compare the variant's answers in three processes. Return False if a new process cannot import the plugin."""
    cases = sorted((case_of_seed(subject.case_space, f"elsewhere {number}") for number in range(count)), key=_size)
    here = answers(subject, cases)
    remote_answers = answers_elsewhere(subject, cases, (1, 2))
    if remote_answers is None:
        return False
    for remote, case in itertools.product(remote_answers, cases):
        texts, other = here[case.key], remote[case.key]
        for what in texts.keys() | other.keys():
            if texts.get(what) != other.get(what):
                why = f"the {what} differs in another process:\n{difference(texts.get(what), other.get(what))}"
                raise Counterexample(SAME_ELSEWHERE, why, case)
    return True


def _fallback(record: tc.Variant) -> SimpleNamespace:
    """Return a variant that accepts every copy at the lowest priority; it is only used for plans."""
    options = tuple(attrs.evolve(option, required=False, default=None) for option in record.options)
    variant = attrs.evolve(
        record, name=FALLBACK, priority=-(2**31), options=options, threads="any", edges=True, features=()
    )
    return SimpleNamespace(
        variant=variant,
        tilecopy_predicate=tc.hookimpl(lambda request: tc.Accept()),
        tilecopy_partition=tc.hookimpl(lambda request: "fallback"),
        tilecopy_emit=tc.hookimpl(lambda request, partition, ptx: None),
    )


def falls_back(subject: VariantUnderTest, count: int = 10) -> None:
    """Check that a copy without some of its options is lowered by this variant or by a fallback variant.

    The variant must lower it if the record does not require the options.
    """
    registry = tc.Registry([subject.source], environ={"TILECOPY_STRICT": "1"})
    registry.register(_fallback(subject.record), name=FALLBACK)
    for case, _ in accepted_cases(subject, count, seed="options"):
        asked = request_of(subject, case)
        if asked is None or partition_of(subject, asked[1]) is None:  # what it needs is known in a kernel alone
            continue
        names = asked[0].options()
        for active in (asked[1].active, tc.ActiveThreads()):
            for left_out in [*({name} for name in names), set(names)]:
                _without(subject, registry, case, attrs.evolve(asked[1], active=active), left_out)


def _without(
    subject: VariantUnderTest, registry: tc.Registry, case: CopyCase, request: tc.CopyRequest, left_out: set[str]
) -> None:
    options = {name: value for name, value in request.options.items() if name not in left_out}
    in_kernel, named = request.active.cta_threads is not None, ", ".join(sorted(left_out)) or "any option"
    try:
        same: Any = {name: getattr(request, name) for name in ("op", "scope", "target", "active", "outside")}
        plan = tc.plan(request.dst, request.src, registry=registry, **same, **options)
    except tc.TilecopyError as error:
        where = "in a kernel" if in_kernel else "outside a kernel"
        raise Counterexample(OPTIONS, f"without {named}, {where}: {type(error).__name__}: {error}", case) from error
    if not in_kernel or any(option.required and option.name in left_out for option in subject.record.options):
        return
    if plan.variant != subject.name:
        reason = plan.declined.get(subject.name, "")
        why = f"the variant must lower the copy without {named}, because its record does not require {named}; got a decline: {reason}"
        raise Counterexample(OPTIONS, why, case)
    build_kernel(subject, case, left_out=left_out)  # instructions must do without it, too


def far_places_are_right(subject: VariantUnderTest, count: int = 4) -> int:
    """Compare copies of large arrays (over ``2**31`` elements) and small arrays. Return the number of comparisons.

    The arrays are zeros that only the copies access, so they take almost no memory.
    """
    done = 0
    short = [d for d in subject.case_space.dtypes if tc.dtype_of(d).bytes <= 4] or list(subject.case_space.dtypes)
    for pair in subject.case_space.spaces:
        if "global" not in pair:
            continue
        one = restricted(subject, spaces=(pair,), dtypes=tuple(short))
        far_cases = ((near, _far(near)) for near, _ in _iter_accepted(one, f"far {pair}", 40 * count, _far))
        built = ((near, far, build_kernel(one, far)) for near, far in far_cases if far is not None)
        for near, far, kernel in itertools.islice((case for case in built if case[-1] is not None), count):
            with contextlib.suppress(MemoryError):  # if the system does not overcommit memory
                _judge_far(one, near, far, kernel)
                done += 1
    return done


@lru_cache(maxsize=1)  # asked for each case before its kernel is built, and again for what is then copied
def _far(near: CopyCase) -> CopyCase | None:
    """Return the copy with a stride of the global array past ``2**31``, or None if no element can be that far."""
    side = "src" if near.src.space == "global" else "dst"
    operand: Operand = getattr(near, side)
    longest = max(range(len(operand.iters)), key=lambda place: operand.iters[place][1])
    extent, stride, axis = operand.iters[longest]
    if not 1 < extent <= MOST_FAR or stride <= 0:
        return None
    iters = list(operand.iters)
    iters[longest] = (extent, stride % FAR_GRAIN + FAR_ELEMS, axis)
    moved = attrs.evolve(operand, iters=tuple(iters))
    far: CopyCase = attrs.evolve(near, **dict[str, Any]({side: moved}))
    if moved.memory_elems * near.elem_bytes > MOST_FAR_BYTES:
        return None
    reach = max((int(at[-1].max()) for at in _all_places(far, side) if len(at[-1])), default=0)
    return far if reach >= FAR_ELEMS else None


def _all_places(case: CopyCase, side: str) -> list[tuple[Any, ...]]:
    return [oracle.index_of(case, getattr(case, side), values)[0] for values in case.values()]


def _judge_far(subject: VariantUnderTest, near: CopyCase, far: CopyCase, kernel: Any) -> None:
    arrays = dict(zip(("src", "dst"), arrays_of(near), strict=True))
    wanted = oracle.expected(near, (arrays["src"], arrays["dst"]))
    side = "src" if near.src.space == "global" else "dst"
    places = list(zip(_all_places(near, side), _all_places(far, side), strict=True))
    near_array, arrays[side] = arrays[side], np.zeros(oracle.memory_shape(far, getattr(far, side)), np.uint8)
    for near_index, far_index in places:
        arrays[side][far_index] = near_array[near_index]
    emulate(subject, far, kernel, *arrays.values(), rule=FAR)
    pairs = [(wanted[n], arrays["dst"][f]) for n, f in places] if side == "dst" else [(wanted, arrays["dst"])]
    if not all(np.array_equal(right, result) for right, result in pairs):
        line = first_mover(kernel, subject.name, "global")
        raise shown(
            FAR,
            f"the copy must write the same elements in a large array as in a small array, but {sum(np.count_nonzero(right != result) for right, result in pairs)} bytes differ",
            far,
            kernel,
            line,
        )


def right_on_gpu(subject: VariantUnderTest, count: int = 20) -> int:
    """Compare results on the GPU with the oracle. Return the number of copies, or 0 if the GPU supports no target."""
    executor: Any = get_executor("cuda")
    major, minor = executor.devices()[0].capability
    targets = [t for t in subject.case_space.targets if tc.target_of(t).runs_on(major, minor)]
    if not targets:
        return 0
    lowered = accepted_cases(restricted(subject, targets=tuple(targets)), count, seed="gpu")
    for case, kernel in lowered:
        source, target = arrays_of(case)
        wanted = oracle.expected(case, (source, target))
        try:
            kernel(*launch_arguments(subject, case, source, target), executor="cuda")
        except tc.TilecopyError as error:
            raise Counterexample(ON_GPU, f"{type(error).__name__}: {error}", case) from error
        if not np.array_equal(wanted, target):
            where = tuple(int(i) for i in np.argwhere(wanted != target)[0])
            raise Counterexample(ON_GPU, f"byte {where} must be 0x{wanted[where]:02x}, got 0x{target[where]:02x}", case)
    return len(lowered)
