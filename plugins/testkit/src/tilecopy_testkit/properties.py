"""The rules that a variant keeps, each a function that raises a :class:`Counterexample` for a copy that breaks it.

Every rule takes a subject and a case and answers whether the variant takes such a copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import tilecopy as tc

from tilecopy_core.plugin import check_request, symbols_of, why_not_asked
from tilecopy_core.ptx.lines import Line, instructions_in

from . import oracle
from .case_harness import CaseHarness, arrays_of, launch_arguments, unread_places
from .copy_case import CopyCase
from .counterexample import Counterexample, difference
from .enumeration import moves_of, why_wrong
from .hook_audit import MAX_CALLS, HookAuditor, snapshot
from .variant_under_test import VariantUnderTest
from .widths import brute_force

RESULT = "the destination holds what the layouts say, and no other byte is touched"
PURE = "hooks are pure: same request, same answer; nothing printed, looked up or changed"
ANSWERS = "the predicate answers Accept or Decline with a reason, and never raises"
QUICK = "hooks are quick"
PARTITION = "a partition is data: the same at every call, with a summary of one line, and it can be pickled"
EXACTLY_ONCE = "every element is moved exactly once"
AGREES = "the partition moves each element to the place that the layouts say"
WIDE = "vectors are as wide as brute force finds, or the copy is listed as known to be narrower"
DETERMINISTIC = "same request, same text"
OWN_OPERANDS = "the text uses what the hook was given and nothing else"
DEFINED = "nothing is executed that the hardware leaves undefined (latest landing, strict emulator)"
EMITS = "what was accepted and partitioned is emitted"
LAUNCH = "a copy is declined where the cluster of the launch cannot carry it, and taken where the launch is not known"
ONLY_THE_BOX = "only elements of the box are read"
_MOVERS = frozenset(
    ("st", "ld", "cp", "mov", "tcgen05", "prmt", "shfl", "movmatrix", "ldmatrix", "stmatrix", "red", "atom")
)
"""Instructions that move data, by the first word of their opcodes."""


def request_of(subject: VariantUnderTest, case: CopyCase) -> tuple[CaseHarness, tc.CopyRequest] | None:
    """The request of a case, and the kernel that its symbols belong to; None where no variant or not this one is asked for it."""
    harness = CaseHarness(case, subject)
    if case.iterations > 1:
        harness.turn = tc.symbol("turn", upper=case.iterations - 1)
    try:
        request = harness.request()
        check_request(request)
    except (tc.RequestError, tc.LayoutError):
        return None
    return None if why_not_asked(subject.record, request) else (harness, request)


# ------------------------------------------------------------------------------------------------- hooks


def hooks_are_pure(subject: VariantUnderTest, case: CopyCase) -> bool:
    """Predicate and partition: pure, quick, never raising; a reason with every decline; partitions that are data."""
    auditor = HookAuditor()
    audited = subject.with_wrapper(auditor)
    if (asked := request_of(audited, case)) is None:
        return False
    request = asked[1]
    for odd in _odd(subject, request):
        _judge_answer(ask(audited, "tilecopy_predicate", odd, case, ANSWERS), case)
    answers = [ask(audited, "tilecopy_predicate", request, case, ANSWERS) for _ in range(2)]
    _judge_answer(answers[0], case)
    if answers[0] != answers[1]:
        raise Counterexample(PURE, f"tilecopy_predicate answers {answers[0]}, then {answers[1]}", case)
    partitions: list[Any] = []
    if isinstance(answers[0], tc.Accept):
        partitions = [ask(audited, "tilecopy_partition", request, case, PARTITION) for _ in range(2)]
    _complain(auditor, case)
    if not partitions:
        return False
    first, second = partitions
    if isinstance(first, tc.Decline) or isinstance(second, tc.Decline):
        if first != second:
            raise Counterexample(PURE, f"tilecopy_partition answers {first}, then {second}", case)
        _judge_answer(first, case)
        return False
    _judge_partition(first, second, case)
    _judge_launch(subject, request, case)
    return True


def _judge_launch(subject: VariantUnderTest, request: tc.CopyRequest, case: CopyCase) -> None:
    """What reaches other CTAs needs them in the cluster."""
    unknown = attrs.evolve(request, cluster=None, cta_group=None)
    if partition_of(subject, unknown) is None:
        raise Counterexample(LAUNCH, "it declines the copy where the request has cluster None", case)
    elsewhere = case.rank_offset or case.cta_group > 1 or any(case.receivers)
    if elsewhere and partition_of(subject, attrs.evolve(request, cluster=1)) is not None:
        raise Counterexample(LAUNCH, "it takes the copy to other CTAs in a cluster of 1", case)


def _odd(subject: VariantUnderTest, request: tc.CopyRequest) -> Iterator[tc.CopyRequest]:
    """Requests like one that may well be declined: elements of 4 bits, a source with replicas, a single element."""
    dst, src = request.dst.buffer, request.src.buffer
    changes: list[dict[str, Any]] = []
    with contextlib.suppress(tc.TilecopyError):
        changes.append({"dst": _region(request.dst, dtype="int4"), "src": _region(request.src, dtype="int4")})
    with contextlib.suppress(tc.TilecopyError):
        shard = getattr(src.layout, "shard", ())
        changes.append({"src": _region(request.src, layout=tc.TileLayout.of(shard, (tc.Iter(2, 1 << 12),)))})
    with contextlib.suppress(tc.TilecopyError):
        changes.append({"dst": dst[(0,) * len(dst.shape)], "src": src[(0,) * len(src.shape)]})
    for change in changes:
        odd = attrs.evolve(request, **change)
        with contextlib.suppress(tc.TilecopyError):
            check_request(odd)
            if not why_not_asked(subject.record, odd):
                yield odd


def _region(region: tc.Region, **changes: Any) -> tc.Region:
    """Return the box in a buffer that differs in its dtype or layout."""
    other = attrs.evolve(region.buffer, memory=None, **changes)
    return other[tuple(slice(s, s + e) for s, e in zip(region.starts, region.extents, strict=True))]


def ask(subject: VariantUnderTest, hook: str, request: tc.CopyRequest, case: CopyCase | None, rule: str) -> Any:
    """The answer of a hook.

    Raises:
        Counterexample: it raised; the rule is the one that is named.
    """
    try:
        return subject.registry.call(subject.registry_entry, hook, request=request)
    except (Exception, SystemExit) as error:
        raise Counterexample(rule, f"{hook} raised {type(error).__name__}: {error}", case) from error


def verdict(subject: VariantUnderTest, case: CopyCase) -> str | None:
    """Why predicate or partition decline a copy, "" where both take it, None where they are not asked; quicker than building its kernel."""
    if (asked := request_of(subject, case)) is None:
        return None
    request = asked[1]
    answer = ask(subject, "tilecopy_predicate", request, case, ANSWERS)
    if isinstance(answer, tc.Accept):
        answer = ask(subject, "tilecopy_partition", request, case, PARTITION)
    return answer.reason if isinstance(answer, tc.Decline) else ""


def _judge_answer(answer: Any, case: CopyCase) -> None:
    if not isinstance(answer, (tc.Accept, tc.Decline)):
        raise Counterexample(ANSWERS, f"tilecopy_predicate answered {answer!r}", case)
    if isinstance(answer, tc.Decline) and len(answer.reason.split()) < 2:
        raise Counterexample(
            ANSWERS, f"it declines with {answer.reason!r}: a reason names operand, value and rule", case
        )


def _complain(auditor: HookAuditor, case: CopyCase) -> None:
    for complaint in auditor.complaints:
        raise Counterexample(PARTITION if "pickled" in complaint else PURE, complaint, case)
    for hook in auditor.slow:
        what = f"{hook} makes {auditor.calls[hook]} calls of functions; at most {MAX_CALLS[hook]} are allowed"
        raise Counterexample(QUICK, what, case)


def _judge_partition(first: Any, second: Any, case: CopyCase) -> None:
    if first is None:
        raise Counterexample(PARTITION, "tilecopy_partition returned None", case)
    if snapshot(first) != snapshot(second):
        raise Counterexample(
            PARTITION, f"two calls partition differently: {_summary_text(first)}, then {_summary_text(second)}", case
        )
    if not callable(getattr(first, "summary", None)):
        raise Counterexample(PARTITION, f"{type(first).__name__} has no method summary()", case)
    summary = _summary_text(first)
    if not isinstance(summary, str) or "\n" in summary or not summary.strip():
        raise Counterexample(PARTITION, f"summary() gives {summary!r}: one line of text is wanted", case)


def _summary_text(partition: Any) -> Any:
    summary = getattr(partition, "summary", None)
    try:
        return summary() if callable(summary) else repr(partition)
    except Exception as error:
        return f"summary() raised {type(error).__name__}: {error}\n"


# ------------------------------------------------------------------------------------------------- partitions


def partition_agrees(subject: VariantUnderTest, case: CopyCase) -> bool:
    """Every element exactly once, at the places of the layouts, in vectors as wide as can be.

    Answers whether the partition says what it moves.
    """
    asked = request_of(subject, case)
    partition = None if asked is None else partition_of(subject, asked[1])
    if asked is None or partition is None:
        return False
    enumerated = _judge_moves(subject, *asked, partition)
    if not (request := asked[1]).may_exceed_bounds:
        _judge_width(subject, case, request, partition)
    return enumerated


def partition_of(subject: VariantUnderTest, request: tc.CopyRequest) -> Any | None:
    """What the variant partitions a request into, or None where it declines or fails (that is another rule's)."""
    with contextlib.suppress(Counterexample):
        if isinstance(ask(subject, "tilecopy_predicate", request, None, ANSWERS), tc.Accept):
            partition = ask(subject, "tilecopy_partition", request, None, PARTITION)
            return None if isinstance(partition, tc.Decline) else partition
    return None


def _environment(harness: CaseHarness, values: Mapping[str, int]) -> dict[Any, int]:
    """The value of every symbol of a request, for values of the variables."""
    d, values_by_symbol = harness.case, dict[Any, int]()
    first = int(oracle.threads_of(d, values["unit"])[0])
    for symbolic, value in (
        (harness.cta, values["block"]),
        (harness.turn, values["turn"]),
        (harness.scalar, values["n"]),
        (harness.rank, values["block"] % d.cluster),
        (harness.kernel.thread_id(), first),
        *zip(harness.sizes["dst"], d.dst.shape, strict=False),
        *zip(harness.sizes["src"], d.src.shape, strict=False),
    ):
        values_by_symbol |= dict.fromkeys(symbols_of(symbolic), value)  # one, or none of what has a single value
    return values_by_symbol


def _judge_moves(subject: VariantUnderTest, harness: CaseHarness, request: tc.CopyRequest, partition: Any) -> bool:
    """Hold the elements that a partition moves against the layouts; whether it says which."""
    d, seen = harness.case, set[tuple[int, ...]]()
    for values in d.values():
        begins = tuple(start.at(values) for operand in (d.dst, d.src) for start in operand.starts)
        if begins in seen:
            continue
        seen.add(begins)
        symbols = _environment(harness, values)
        try:
            moves = (subject.moves or moves_of)(request, partition, symbols)
            listed_moves = None if moves is None else [(dst, src) for dst, src in moves]
        except Exception as error:
            raise Counterexample(AGREES, f"its moves cannot be listed: {type(error).__name__}: {error}", d) from error
        if listed_moves is None:
            return False
        if why := why_wrong(d, values, listed_moves):
            raise Counterexample(AGREES, f"the partition {why} ({_variables(values)}; {_summary_text(partition)})", d)
    return True


def _variables(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _judge_width(subject: VariantUnderTest, case: CopyCase, request: tc.CopyRequest, partition: Any) -> None:
    vec_bits = getattr(partition, "vec_bits", None)
    if not isinstance(vec_bits, int) or not subject.widths_bits or "tmem" in case.spaces:
        return
    if getattr(partition, "guards", ()) or getattr(partition, "tail", None) is not None:
        return  # the last vectors are left out or others: what the threads do not divide has no one width
    wanted = brute_force(case, request.scope.threads, subject.widths_bits)
    if wanted == vec_bits:
        return
    if wanted is not None and vec_bits < wanted:
        if any(applies(case) for applies in subject.expected_narrow.values()):
            return
        why = f"vectors of {vec_bits} bits; {wanted} fit ({_summary_text(partition)})"
    else:
        why = f"vectors of {vec_bits} bits; no more than {wanted} fit every start"
    kernel = None
    with contextlib.suppress(Counterexample):  # what cannot be emitted is told by another rule
        kernel = build_kernel(subject, case)
    space = next((space for space in case.spaces if space != "local"), "")  # whose accesses show a vector's width
    raise shown(WIDE, why, case, kernel, first_mover(kernel, subject.name, space))


# ------------------------------------------------------------------------------------------------- text and runs


def build_kernel(
    subject: VariantUnderTest, case: CopyCase, *, skip: str | None = None, left_out: Collection[str] = ()
) -> tc.BuiltKernel | None:
    """The kernel of a case (without a step, or options), or None where the variant declines.

    Raises:
        Counterexample: a hook failed.
    """
    try:
        return CaseHarness(case, subject, skip, left_out).build()
    except tc.NoVariantError:
        return None
    except (tc.RequestError, tc.LayoutError) as error:
        if subject.name in str(error):
            raise Counterexample(EMITS, str(error), case) from error
        return None
    except (tc.TilecopyError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        message = str(error).split("\n  at ")[0]  # where the kit makes its kernel is no news
        raise Counterexample(EMITS, f"{type(error).__name__}: {message}", case) from error


def copy_instructions(kernel: tc.BuiltKernel | None, name: str) -> list[tuple[int, Line]]:
    """Return the instructions that a variant's copy emitted, each with the number of its line in the PTX."""
    if kernel is None:
        return []
    lines = instructions_in(kernel.ptx)
    return [(number, line) for number, line in lines if kernel.source_location(number).startswith(f"{name}: ")]


def shown(rule: str, found: str, case: CopyCase, kernel: tc.BuiltKernel | None, line: int) -> Counterexample:
    """Return a counterexample that a line of a kernel's PTX shows; 0 for none."""
    text = kernel.ptx.split("\n")[line - 1] if kernel is not None and line else ""
    return Counterexample(rule, found, case, line=line, text=text)


def first_mover(kernel: tc.BuiltKernel | None, name: str, space: str = "") -> int:
    """Return the number of the first line of a copy that moves data, into or out of a space where one is given; 0 for none."""
    lines = copy_instructions(kernel, name)
    return next((number for number, line in lines if line.name in _MOVERS and space in str(line)), 0)


def text_is_own(subject: VariantUnderTest, case: CopyCase) -> bool:
    """The text is the same at every build, of hooks that change nothing, and names only the copy's operands."""
    auditor = HookAuditor()
    audited = subject.with_wrapper(auditor)
    first, second = build_kernel(subject, case), build_kernel(audited, case)
    if first is None or second is None:
        if first is not second:
            raise Counterexample(DETERMINISTIC, "it declines one time and emits another", case)
        return False
    for _ in range(5):  # a busy machine is not the hook's fault: the shortest call counts
        if auditor.slow:
            build_kernel(audited, case)
    _complain(auditor, case)
    if first.ptx != second.ptx:
        pairs = zip(first.ptx.split("\n"), second.ptx.split("\n"), strict=False)
        number = next((number for number, (one, other) in enumerate(pairs, 1) if one != other), 0)
        why = f"a second build differs:\n{difference(first.ptx, second.ptx)}"
        raise shown(DETERMINISTIC, why, case, first, number)
    for number, line in copy_instructions(first, subject.name):
        if "decoy" in str(line):
            raise shown(OWN_OPERANDS, "it names memory that is not an operand of the copy", case, first, number)
    return True


def results_are_right(subject: VariantUnderTest, case: CopyCase, seed: int = 0) -> bool:
    """The emulator's results are the oracle's, byte for byte, and each element is moved once."""
    kernel = build_kernel(subject, case)
    if kernel is None:
        return False
    source, target = arrays_of(case, seed)
    wanted = oracle.expected(case, (source, target))
    source_before = source.copy()
    try:
        report = emulate(subject, case, kernel, source, target)
    except Counterexample:
        raise
    except tc.TilecopyError as error:
        raise Counterexample(DEFINED, f"{type(error).__name__}: {error}", case) from error
    if not np.array_equal(source_before, source):
        raise Counterexample(RESULT, "the source's memory has changed", case)
    wrong = np.argwhere(wanted != target)
    if len(wrong):
        _blame(subject, case, kernel, seed, wanted, target, tuple(int(i) for i in wrong[0]))
    _count(subject, case, kernel, report)
    return True


def emulate(
    subject: VariantUnderTest, case: CopyCase, kernel: tc.BuiltKernel, *arrays: Any, rule: str = DEFINED
) -> Any:
    """The report of a launch on the emulator, which a process that only answers (:mod:`.process`) does not import.

    Raises:
        Counterexample: of the rule, where there is a hazard.
    """
    from tilecopy_emulator.executor import EmulatorExecutor

    try:
        return EmulatorExecutor().launch(kernel, launch_arguments(subject, case, *arrays))
    except tc.HazardError as error:
        raise shown(rule, str(error).split("\n")[0], case, kernel, error.line) from error


def _blame(
    subject: VariantUnderTest,
    case: CopyCase,
    kernel: tc.BuiltKernel,
    seed: int,
    wanted: Any,
    result: Any,
    at: tuple[int, ...],
) -> None:
    """Raise a counterexample for a byte that is wrong, with the line that writes it."""
    axes = {
        "global": ("element", "byte"),
        "shared": ("CTA", "element", "byte"),
        "local": ("CTA", "thread", "register", "byte"),
        "tmem": ("CTA", "lane", "element", "byte"),
    }[case.dst.space]
    where = ", ".join(f"{name} {index}" for name, index in zip(axes, at, strict=True))
    before = arrays_of(case, seed)[1]
    kept = result[at] == before[at]
    line = _writer(subject, case, kernel, seed, result, at)
    message = f"{where} of {case.dst.space} memory is 0x{result[at]:02x}, 0x{wanted[at]:02x} is expected"
    if kept and not line:
        message += ": no instruction of the copy writes it"
    elif wanted[at] == before[at]:
        message += ": it is outside the destination's box"
    raise shown(RESULT, message, case, kernel, line)


def _writer(
    subject: VariantUnderTest, case: CopyCase, kernel: tc.BuiltKernel, seed: int, result: Any, at: tuple[int, ...]
) -> int:
    """The line of the copy without which a byte is another one, or 0."""
    lines = kernel.ptx.split("\n")
    candidates = [number for number, line in copy_instructions(kernel, subject.name) if line.name in _MOVERS]
    for number in candidates[:200]:
        shortened = [line if n != number else "" for n, line in enumerate(lines, 1)]
        source, target = arrays_of(case, seed)
        try:
            emulate(subject, case, attrs.evolve(kernel, ptx="\n".join(shortened)), source, target)
        except tc.TilecopyError:
            continue
        if target[at] != result[at]:
            return number
    return 0


def only_the_box_is_read(subject: VariantUnderTest, case: CopyCase) -> bool:
    """What no box has is written by another CTA meanwhile; of shared memory it is left without a value by every rule."""
    unread = unread_places(case) if case.src.space == "global" and case.cluster == 1 else []
    if not len(unread):
        return False
    try:
        kernel = CaseHarness(case, subject, unread=len(unread)).build()
    except tc.TilecopyError:
        return False  # declined, or told by another rule
    emulate(subject, case, kernel, *arrays_of(case), unread, rule=ONLY_THE_BOX)
    return True


def _bytes_of(line: Line, source: str, space: str) -> int | None:
    """Return the bytes that one execution of a line moves into a space: 0 if it moves none, None if the line does not say it.

    Registers are written by the loads from the source.
    """
    if line.opcode.startswith("tcgen05.cp.") and "32x128b.warpx4" in line.opcode:
        return 32 * 16 * 4
    total = 0
    for access in line.accesses:
        accessed = access.space.partition("::")[0]
        if not accessed or (access.loads and access.stores):
            return None
        if (access.stores and accessed == space) or (access.loads and (space, source) == ("local", accessed)):
            if access.bytes is None:
                return None
            total += access.bytes
    return None if line.name == "shfl" else total


def _count(subject: VariantUnderTest, case: CopyCase, kernel: tc.BuiltKernel, report: Any) -> None:
    """The bytes that the executed instructions write are those of the copy, neither more nor fewer."""
    if kernel.plans[0].request.may_exceed_bounds or case.spaces == ("local", "local"):
        return
    total, worst = 0, (0, 0)
    for number, line in copy_instructions(kernel, subject.name):
        line_bytes = _bytes_of(line, *case.spaces)
        if line_bytes is None:
            return
        written = line_bytes * report.lines.get(number, 0)
        total, worst = total + written, max(worst, (written, number))
    wanted = oracle.count_written(case) * case.elem_bytes
    if total > wanted:
        why = (
            f"{total} bytes are written where the copies have {wanted}, by the wrong number of threads or twice: the line "
            f"below is executed by {report.lines.get(worst[1], 0)} threads in all"
        )
        raise shown(EXACTLY_ONCE, why, case, kernel, worst[1])
