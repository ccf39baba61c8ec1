"""The rules for variants. A rule is a function that raises a :class:`Counterexample` for a copy that breaks the rule.

Every rule takes a subject and a case, and returns True if the variant accepts the copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
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
from .element_moves import moves_of, why_wrong
from .hook_audit import MAX_CALLS, HookAuditor, snapshot
from .variant_under_test import VariantUnderTest
from .widths import brute_force

__tracebackhide__ = True  # a failure shows the counterexample and the lines of the variant, not those of the kit
RESULT = "the destination must have the elements that the layouts define, and no other byte may change"
PURE = "hooks must return equal answers for equal requests, without printing, reading the environment or changing arguments"
ANSWERS = "the predicate must return Accept, or Decline with a reason, and must not raise an exception"
QUICK = "a hook must not make more function calls than the kit allows"
PARTITION = "a partition must be picklable, equal for equal requests, and have a method summary() that returns one line"
EXACTLY_ONCE = "the copy must move every element exactly once"
AGREES = "the partition must move each element to the location that the layouts define"
WIDE = "vectors must be as wide as a brute-force search finds, unless the suite expects narrower vectors"
DETERMINISTIC = "two builds of the same request must have the same PTX"
OWN_OPERANDS = "the PTX must use only operands that the emit hook received"
NO_WAIT = "a copy_async must not wait, because the caller waits"
WAITS = ("mbarrier.try_wait", "mbarrier.test_wait", "cp.async.wait_", "cp.async.bulk.wait_", "tcgen05.wait")
"""How the opcodes of instructions that wait for asynchronous copies begin."""
DEFINED = "the PTX must have no undefined behavior, even if asynchronous operations complete as late as possible"
EMITS = "the variant must emit a copy that it accepted and partitioned"
LAUNCH = "the variant must decline copies to CTAs outside the cluster, and accept copies if the cluster size is unknown"
ONLY_THE_BOX = "the copy must read only elements of the box"
_MOVERS = frozenset(
    ("st", "ld", "cp", "mov", "tcgen05", "prmt", "shfl", "movmatrix", "ldmatrix", "stmatrix", "red", "atom")
)
"""The first words of the opcodes of instructions that move data."""


def request_of(subject: VariantUnderTest, case: CopyCase) -> tuple[CaseHarness, tc.CopyRequest] | None:
    """Return the harness and the request of a test case. Return None if the request is invalid or dispatch skips the variant."""
    harness = CaseHarness(case, subject)
    if case.iterations > 1:
        harness.turn = tc.symbol("turn", upper=case.iterations - 1)
    try:
        request = harness.request()
        check_request(request)
    except (tc.RequestError, tc.LayoutError):
        return None
    return None if why_not_asked(subject.record, request) else (harness, request)


def hooks_are_pure(subject: VariantUnderTest, case: CopyCase) -> bool:
    """Check the predicate and partition hooks: they must be pure and quick, raise nothing and give reasons."""
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
    """Check that a copy to other CTAs needs a cluster that has them."""
    unknown = attrs.evolve(request, cluster=None, cta_group=None)
    if partition_of(subject, unknown) is None:
        raise Counterexample(LAUNCH, "the variant must accept a request without a cluster size, got a decline", case)
    elsewhere = case.rank_offset or case.cta_group > 1 or any(case.receivers)
    if elsewhere and partition_of(subject, attrs.evolve(request, cluster=1)) is not None:
        raise Counterexample(
            LAUNCH,
            "the variant must decline a copy to another CTA if the cluster has one CTA, but it accepts the copy",
            case,
        )


def _odd(subject: VariantUnderTest, request: tc.CopyRequest) -> Iterator[tc.CopyRequest]:
    """Yield unusual variations of a request: 4-bit elements, a source with replicas, a single element."""
    dst, src = request.dst.buffer, request.src.buffer
    shard = getattr(src.layout, "shard", ())
    variations: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"dst": _region(request.dst, dtype="int4"), "src": _region(request.src, dtype="int4")},
        lambda: {"src": _region(request.src, layout=tc.TileLayout.of(shard, (tc.Iter(2, 1 << 12),)))},
        lambda: {"dst": dst[(0,) * len(dst.shape)], "src": src[(0,) * len(src.shape)]},
    )
    for variation in variations:
        with contextlib.suppress(tc.TilecopyError):
            odd = attrs.evolve(request, **variation())
            check_request(odd)
            if not why_not_asked(subject.record, odd):
                yield odd


def _region(region: tc.Region, **changes: Any) -> tc.Region:
    """Return a region of a buffer with another dtype or layout."""
    other = attrs.evolve(region.buffer, memory=None, **changes)
    return other[tuple(slice(s, s + e) for s, e in zip(region.starts, region.extents, strict=True))]


def ask(subject: VariantUnderTest, hook: str, request: tc.CopyRequest, case: CopyCase | None, rule: str) -> Any:
    """Call a hook for a request and return the hook's answer. A hook that raises an exception breaks ``rule``."""
    try:
        return subject.registry.call(subject.registry_entry, hook, request=request)
    except (Exception, SystemExit) as error:
        raise Counterexample(rule, f"{hook} raised {type(error).__name__}: {error}", case) from error


def decision_of(subject: VariantUnderTest, request: tc.CopyRequest, case: CopyCase | None = None) -> Any:
    """Return the partition hook's answer if the predicate accepts the request, else the predicate's answer."""
    answer = ask(subject, "tilecopy_predicate", request, case, ANSWERS)
    return ask(subject, "tilecopy_partition", request, case, PARTITION) if isinstance(answer, tc.Accept) else answer


def verdict(subject: VariantUnderTest, case: CopyCase) -> str | None:
    """Return why the variant declines a copy. Return "" for an accepted copy, or None if dispatch skips the variant."""
    if (asked := request_of(subject, case)) is None:
        return None
    decision = decision_of(subject, asked[1], case)
    return decision.reason if isinstance(decision, tc.Decline) else ""


def _judge_answer(answer: Any, case: CopyCase) -> None:
    if not isinstance(answer, (tc.Accept, tc.Decline)):
        raise Counterexample(ANSWERS, f"tilecopy_predicate answered {answer!r}", case)
    if isinstance(answer, tc.Decline) and len(answer.reason.split()) < 2:
        raise Counterexample(
            ANSWERS, f"a reason to decline must name the operand, value and rule, got {answer.reason!r}", case
        )


def _complain(auditor: HookAuditor, case: CopyCase) -> None:
    for complaint in auditor.complaints:
        raise Counterexample(PARTITION if "pickled" in complaint else PURE, complaint, case)
    for hook in auditor.slow:
        what = f"{hook} must make at most {MAX_CALLS[hook]} function calls, got {auditor.calls[hook]}"
        raise Counterexample(QUICK, what, case)


def _judge_partition(first: Any, second: Any, case: CopyCase) -> None:
    summary, why = _summary_text(first), ""
    if first is None:
        why = "tilecopy_partition returned None"
    elif snapshot(first) != snapshot(second):
        why = f"two calls must return equal partitions, got {summary}, then {_summary_text(second)}"
    elif not callable(getattr(first, "summary", None)):
        why = f"{type(first).__name__} must have a method summary()"
    elif not isinstance(summary, str) or "\n" in summary or not summary.strip():
        why = f"summary() must return one line of text, got {summary!r}"
    if why:
        raise Counterexample(PARTITION, why, case)


def _summary_text(partition: Any) -> Any:
    summary = getattr(partition, "summary", None)
    try:
        return summary() if callable(summary) else repr(partition)
    except Exception as error:
        return f"summary() raised {type(error).__name__}: {error}\n"


def partition_agrees(subject: VariantUnderTest, case: CopyCase) -> bool:
    """Check that a partition moves each element once, to the right location, in the widest vectors that fit.

    Return True if the partition lists its moves.
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
    """Return the variant's partition of a request. Return None if the variant declines or a hook breaks a rule."""
    with contextlib.suppress(Counterexample):
        decision = decision_of(subject, request)
        return None if isinstance(decision, tc.Decline) else decision
    return None


def _environment(harness: CaseHarness, values: Mapping[str, int]) -> dict[Any, int]:
    """Return the value of every symbol of a request, for values of the variables."""
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
        values_by_symbol |= dict.fromkeys(symbols_of(symbolic), value)  # a constant has no symbol
    return values_by_symbol


def _judge_moves(subject: VariantUnderTest, harness: CaseHarness, request: tc.CopyRequest, partition: Any) -> bool:
    """Compare the moves of a partition with the layouts; return False if it does not list its moves."""
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
            wrong = f"moves(request, values) must return (destination, source) pairs, but raised {type(error).__name__}: {error}"
            raise Counterexample(AGREES, wrong, d) from error
        if listed_moves is None:
            return False
        if why := why_wrong(d, values, listed_moves):
            variables = ", ".join(f"{name} {value}" for name, value in values.items())
            raise Counterexample(AGREES, f"{why} ({variables}; {_summary_text(partition)})", d)
    return True


def _judge_width(subject: VariantUnderTest, case: CopyCase, request: tc.CopyRequest, partition: Any) -> None:
    vec_bits = getattr(partition, "vec_bits", None)
    if not isinstance(vec_bits, int) or not subject.widths_bits or "tmem" in case.spaces:
        return
    if getattr(partition, "guards", ()) or getattr(partition, "tail", None) is not None:
        return  # the last vectors have another width
    wanted = brute_force(case, request.scope.threads, subject.widths_bits)
    if wanted == vec_bits:
        return
    if wanted is not None and vec_bits < wanted:
        if any(applies(case) for applies in subject.expected_narrow.values()):
            return
        why = f"vectors must have {wanted} bits, because vectors of this width fit, got {vec_bits} bits ({_summary_text(partition)})"
    else:
        why = f"vectors must have at most {wanted} bits to fit every start, got {vec_bits} bits"
    kernel = None
    with contextlib.suppress(Counterexample):  # another rule checks that the copy can be emitted
        kernel = build_kernel(subject, case)
    space = next((space for space in case.spaces if space != "local"), "")  # its accesses show the width
    raise shown(WIDE, why, case, kernel, first_mover(kernel, subject.name, space))


def build_kernel(
    subject: VariantUnderTest, case: CopyCase, *, skip: str | None = None, left_out: Collection[str] = ()
) -> tc.BuiltKernel | None:
    """Build the kernel of a case without the step ``skip`` and the options ``left_out``. Return None if the variant declines."""
    try:
        return CaseHarness(case, subject, skip, left_out).build()
    except tc.NoVariantError:
        return None
    except (tc.RequestError, tc.LayoutError) as error:
        if subject.name in str(error):
            raise Counterexample(EMITS, str(error), case) from error
        return None
    except (tc.TilecopyError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        message = str(error).split("\n  at ")[0]  # without the line of the kit
        raise Counterexample(EMITS, f"{type(error).__name__}: {message}", case) from error


def copy_instructions(kernel: tc.BuiltKernel | None, name: str) -> list[tuple[int, Line]]:
    """Return the instructions that a variant emitted for the copy, each with its line number in the PTX."""
    if kernel is None:
        return []
    lines = instructions_in(kernel.ptx)
    return [(number, line) for number, line in lines if kernel.source_location(number).startswith(f"{name}: ")]


def shown(rule: str, found: str, case: CopyCase, kernel: tc.BuiltKernel | None, line: int) -> Counterexample:
    """Return a counterexample that quotes a line of the kernel's PTX. If the line number is 0, no line is quoted."""
    text = kernel.ptx.split("\n")[line - 1] if kernel is not None and line else ""
    return Counterexample(rule, found, case, line=line, text=text)


def first_mover(kernel: tc.BuiltKernel | None, name: str, space: str = "") -> int:
    """Return the PTX line number of the copy's first instruction that moves data in ``space``, or 0 if none does."""
    lines = copy_instructions(kernel, name)
    return next((number for number, line in lines if line.name in _MOVERS and space in str(line)), 0)


def text_is_own(subject: VariantUnderTest, case: CopyCase) -> bool:
    """Check that two builds have the same PTX, that hooks are pure, and that the PTX names only operands and does not wait."""
    auditor = HookAuditor()
    audited = subject.with_wrapper(auditor)
    first, second = build_kernel(subject, case), build_kernel(audited, case)
    if first is None or second is None:
        if first is not second:
            raise Counterexample(DETERMINISTIC, "one build declines the copy, but another build lowers it", case)
        return False
    for _ in range(5):  # the quickest call counts, because the machine may be busy
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
            raise shown(
                OWN_OPERANDS, f"the PTX must name only the memory of the operands, got {line}", case, first, number
            )
        if case.op == "copy_async" and line.opcode.startswith(WAITS):
            raise shown(NO_WAIT, f"the copy waits by {line.opcode}", case, first, number)
    return True


def results_are_right(subject: VariantUnderTest, case: CopyCase, kernel: tc.BuiltKernel | None = None) -> bool:
    """Check that results equal the oracle's and that elements move once. Return False if the variant declines."""
    kernel = kernel or build_kernel(subject, case)
    if kernel is None:
        return False
    source, target = arrays_of(case)
    wanted = oracle.expected(case, (source, target))
    source_before = source.copy()
    report = emulate(subject, case, kernel, source, target)
    if not np.array_equal(source_before, source):
        raise Counterexample(RESULT, f"the kernel changes {(source_before != source).sum()} bytes of the source", case)
    if not np.array_equal(wanted, target):
        _blame(subject, case, kernel, wanted, target)
    _count(subject, case, kernel, report)
    return True


def emulate(
    subject: VariantUnderTest, case: CopyCase, kernel: tc.BuiltKernel, *arrays: Any, rule: str = DEFINED
) -> Any:
    """Launch a kernel on the emulator and return its report. A hazard or another error breaks ``rule``."""
    from tilecopy_emulator.executor import EmulatorExecutor  # here, because variant_process does not need the emulator

    try:
        return EmulatorExecutor().launch(kernel, launch_arguments(subject, case, *arrays))
    except tc.HazardError as error:
        raise shown(rule, str(error).split("\n")[0], case, kernel, error.line) from error
    except tc.TilecopyError as error:
        raise Counterexample(rule, f"{type(error).__name__}: {error}", case) from error


def _blame(subject: VariantUnderTest, case: CopyCase, kernel: tc.BuiltKernel, wanted: Any, result: Any) -> None:
    """Raise a counterexample for the first wrong byte, with the line that writes it."""
    at = tuple(int(i) for i in np.argwhere(wanted != result)[0])
    axes = {
        "global": ("element", "byte"),
        "shared": ("CTA", "element", "byte"),
        "local": ("CTA", "thread", "register", "byte"),
        "tmem": ("CTA", "lane", "element", "byte"),
    }[case.dst.space]
    where = ", ".join(f"{name} {index}" for name, index in zip(axes, at, strict=True))
    before = arrays_of(case)[1]
    line = _writer(subject, case, kernel, result, at)
    message = f"{where} of {case.dst.space} memory must be 0x{wanted[at]:02x}, got 0x{result[at]:02x}"
    if result[at] == before[at] and not line:
        message += ": no instruction of the copy writes this byte"
    elif wanted[at] == before[at]:
        message += ": this byte is outside the destination's box"
    raise shown(RESULT, message, case, kernel, line)


def _writer(subject: VariantUnderTest, case: CopyCase, kernel: tc.BuiltKernel, result: Any, at: tuple[int, ...]) -> int:
    """Return the number of the line of the copy that determines a byte, or 0."""
    lines = kernel.ptx.split("\n")
    candidates = [number for number, line in copy_instructions(kernel, subject.name) if line.name in _MOVERS]
    for number in candidates[:200]:
        shortened = [line if n != number else "" for n, line in enumerate(lines, 1)]
        source, target = arrays_of(case)
        try:
            emulate(subject, case, attrs.evolve(kernel, ptx="\n".join(shortened)), source, target)
        except Counterexample:
            continue
        if target[at] != result[at]:
            return number
    return 0


def only_the_box_is_read(subject: VariantUnderTest, case: CopyCase) -> bool:
    """Check that the copy reads only the box. Another CTA writes the rest of a global source during the copy.

    Other elements of a shared source are never initialized, so that every rule checks them.
    """
    unread = unread_places(case) if case.src.space == "global" and case.cluster == 1 else []
    if not len(unread):
        return False
    try:
        kernel = CaseHarness(case, subject, unread=len(unread)).build()
    except tc.TilecopyError:
        return False  # declined, or an error that another rule reports
    emulate(subject, case, kernel, *arrays_of(case), unread, rule=ONLY_THE_BOX)
    return True


def _bytes_of(line: Line, source: str, space: str) -> int | None:
    """Return the bytes that one execution of a line moves into a space, or None if the line does not determine them.

    For registers these are the bytes of loads from the source.
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
    """Check that the executed instructions do not write more bytes than the copy has."""
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
            f"copies must write {wanted} bytes, got {total} bytes: too many threads ({report.lines.get(worst[1], 0)}) execute "
            "the line below, or the line writes bytes twice"
        )
        raise shown(EXACTLY_ONCE, why, case, kernel, worst[1])
