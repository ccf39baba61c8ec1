"""The rules that a variant keeps, each a function that raises a :class:`Finding` for a copy that breaks it.

Every rule takes a subject and a description and answers whether the variant takes such a copy.
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
from .description import Description
from .enumeration import moves_of, why_wrong
from .finding import Finding, difference
from .kernels import Around, arrays_of, unread_places
from .subject import Subject
from .watching import MAX_CALLS, Watcher, snapshot
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


class Meaningless(Exception):  # noqa: N818 - not an error: such a copy is passed over
    """No variant could give this request a meaning; it is not asked of any."""


def request_of(subject: Subject, description: Description) -> tuple[Around, tc.CopyRequest]:
    """The request of a description, and the kernel that its symbols belong to.

    Raises:
        Meaningless: core refuses it whatever the variant, or it does not fit the record.
    """
    around = Around(description, subject.surroundings)
    if description.turns > 1:
        around.turn = tc.symbol("turn", upper=description.turns - 1)
    try:
        request = around.request()
        check_request(request)
    except (tc.RequestError, tc.LayoutError) as error:
        raise Meaningless(str(error)) from error
    if why := why_not_asked(subject.record, request):
        raise Meaningless(why)
    return around, request


# ------------------------------------------------------------------------------------------------- hooks


def hooks_are_pure(subject: Subject, description: Description) -> bool:
    """Predicate and partition: pure, quick, never raising; a reason with every decline; partitions that are data."""
    watcher = Watcher()
    watched = subject.with_wrapper(watcher)
    try:
        _, request = request_of(watched, description)
    except Meaningless:
        return False
    for odd in _odd(subject, request):
        _judge_answer(ask(watched, "tilecopy_predicate", odd, description, ANSWERS), description)
    answers = [ask(watched, "tilecopy_predicate", request, description, ANSWERS) for _ in range(2)]
    _judge_answer(answers[0], description)
    if answers[0] != answers[1]:
        raise Finding(PURE, f"tilecopy_predicate answers {answers[0]}, then {answers[1]}", description)
    partitions: list[Any] = []
    if isinstance(answers[0], tc.Accept):
        partitions = [ask(watched, "tilecopy_partition", request, description, PARTITION) for _ in range(2)]
    _complain(watcher, description)
    if not partitions:
        return False
    first, second = partitions
    if isinstance(first, tc.Decline) or isinstance(second, tc.Decline):
        if first != second:
            raise Finding(PURE, f"tilecopy_partition answers {first}, then {second}", description)
        _judge_answer(first, description)
        return False
    _judge_partition(first, second, description)
    _judge_launch(subject, request, description)
    return True


def _judge_launch(subject: Subject, request: tc.CopyRequest, description: Description) -> None:
    """What reaches other CTAs needs them in the cluster."""
    unknown = attrs.evolve(request, cluster=None, cta_group=None)
    if partition_of(subject, unknown) is None:
        raise Finding(LAUNCH, "it declines the copy where the request has cluster None", description)
    elsewhere = description.hop or description.cta_group > 1 or any(description.receivers)
    if elsewhere and partition_of(subject, attrs.evolve(request, cluster=1)) is not None:
        raise Finding(LAUNCH, "it takes the copy to other CTAs in a cluster of 1", description)


def _odd(subject: Subject, request: tc.CopyRequest) -> Iterator[tc.CopyRequest]:
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
    """The same box of a buffer that differs in its dtype or layout."""
    buffer = region.buffer
    given = {"dtype": buffer.dtype, "layout": buffer.layout} | changes
    other = tc.Buffer(
        buffer.shape, space=buffer.space, name=buffer.name, align_bytes=buffer.align_bytes,
        storage_offset=buffer.storage_offset, allocated_addr=buffer.allocated_addr, **given,
    )  # fmt: skip
    return other[tuple(slice(s, s + e) for s, e in zip(region.starts, region.extents, strict=True))]


def ask(subject: Subject, hook: str, request: tc.CopyRequest, description: Description, rule: str) -> Any:
    """The answer of a hook.

    Raises:
        Finding: it raised; the rule is the one that is named.
    """
    try:
        return subject.registry.call(subject.registered, hook, request=request)
    except (Exception, SystemExit) as error:
        raise Finding(rule, f"{hook} raised {type(error).__name__}: {error}", description) from error


def verdict(subject: Subject, description: Description) -> str | None:
    """Why predicate or partition decline a copy, "" where both take it, None where they are not asked; quicker than building its kernel."""
    try:
        _, request = request_of(subject, description)
    except Meaningless:
        return None
    answer = ask(subject, "tilecopy_predicate", request, description, ANSWERS)
    if isinstance(answer, tc.Accept):
        answer = ask(subject, "tilecopy_partition", request, description, PARTITION)
    return answer.reason if isinstance(answer, tc.Decline) else ""


def _judge_answer(answer: Any, description: Description) -> None:
    if not isinstance(answer, (tc.Accept, tc.Decline)):
        raise Finding(ANSWERS, f"tilecopy_predicate answered {answer!r}", description)
    if isinstance(answer, tc.Decline) and len(answer.reason.split()) < 2:
        raise Finding(
            ANSWERS, f"it declines with {answer.reason!r}: a reason names operand, value and rule", description
        )


def _complain(watcher: Watcher, description: Description) -> None:
    for complaint in watcher.complaints:
        raise Finding(PARTITION if "pickled" in complaint else PURE, complaint, description)
    for hook in watcher.slow:
        what = f"{hook} makes {watcher.calls[hook]} calls of functions; at most {MAX_CALLS[hook]} are allowed"
        raise Finding(QUICK, what, description)


def _judge_partition(first: Any, second: Any, description: Description) -> None:
    if first is None:
        raise Finding(PARTITION, "tilecopy_partition returned None", description)
    if snapshot(first) != snapshot(second):
        raise Finding(PARTITION, f"two calls partition differently: {_told(first)}, then {_told(second)}", description)
    if not callable(getattr(first, "summary", None)):
        raise Finding(PARTITION, f"{type(first).__name__} has no method summary()", description)
    told = _told(first)
    if not isinstance(told, str) or "\n" in told or not told.strip():
        raise Finding(PARTITION, f"summary() gives {told!r}: one line of text is wanted", description)


def _told(partition: Any) -> Any:
    summary = getattr(partition, "summary", None)
    try:
        return summary() if callable(summary) else repr(partition)
    except Exception as error:
        return f"summary() raised {type(error).__name__}: {error}\n"


# ------------------------------------------------------------------------------------------------- partitions


def partition_agrees(subject: Subject, description: Description) -> bool:
    """Every element exactly once, at the places of the layouts, in vectors as wide as can be.

    Answers whether the partition says what it moves.
    """
    try:
        around, request = request_of(subject, description)
    except Meaningless:
        return False
    partition = partition_of(subject, request)
    if partition is None:
        return False
    enumerated = _judge_moves(subject, around, request, partition)
    if not request.may_exceed_bounds:
        _judge_width(subject, description, request, partition)
    return enumerated


def partition_of(subject: Subject, request: tc.CopyRequest) -> Any | None:
    """What the variant partitions a request into, or None where it declines or fails (that is another rule's)."""
    with contextlib.suppress(Exception, SystemExit):
        call = subject.registry.call
        if isinstance(call(subject.registered, "tilecopy_predicate", request=request), tc.Accept):
            partition = call(subject.registered, "tilecopy_partition", request=request)
            return None if isinstance(partition, tc.Decline) else partition
    return None


def _environment(around: Around, values: Mapping[str, int]) -> dict[Any, int]:
    """The value of every symbol of a request, for values of the variables."""
    d, found = around.description, dict[Any, int]()
    first = int(oracle.threads_of(d, values["unit"])[0])
    for symbolic, value in (
        (around.cta, values["block"]),
        (around.turn, values["turn"]),
        (around.scalar, values["n"]),
        (around.rank, values["block"] % d.cluster),
        (around.kernel.thread_id(), first),
        *zip(around.sizes["dst"], d.dst.shape, strict=False),
        *zip(around.sizes["src"], d.src.shape, strict=False),
    ):
        found |= dict.fromkeys(symbols_of(symbolic), value)  # one, or none of what has a single value
    return found


def _judge_moves(subject: Subject, around: Around, request: tc.CopyRequest, partition: Any) -> bool:
    """Hold the elements that a partition moves against the layouts; whether it says which."""
    d, seen = around.description, set[tuple[int, ...]]()
    for values in d.values():
        begins = tuple(start.at(values) for operand in (d.dst, d.src) for start in operand.starts)
        if begins in seen:
            continue
        seen.add(begins)
        symbols = _environment(around, values)
        try:
            own = subject.moves
            moves = moves_of(request, partition, symbols) if own is None else own(request, partition, symbols)
            found = None if moves is None else [(dst, src) for dst, src in moves]
        except Exception as error:
            raise Finding(AGREES, f"its moves cannot be listed: {type(error).__name__}: {error}", d) from error
        if found is None:
            return False
        if why := why_wrong(d, values, found):
            raise Finding(AGREES, f"the partition {why} ({_variables(values)}; {_told(partition)})", d)
    return True


def _variables(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _judge_width(subject: Subject, description: Description, request: tc.CopyRequest, partition: Any) -> None:
    found = getattr(partition, "vec_bits", None)
    if not isinstance(found, int) or not subject.widths_bits or "tmem" in description.spaces:
        return
    if getattr(partition, "guards", ()) or getattr(partition, "tail", None) is not None:
        return  # the last vectors are left out or others: what the threads do not divide has no one width
    wanted = brute_force(description, request.scope.threads, subject.widths_bits)
    if wanted == found:
        return
    if wanted is not None and found < wanted:
        if any(applies(description) for applies in subject.known_narrower.values()):
            return
        why = f"vectors of {found} bits; {wanted} fit ({_told(partition)})"
    else:
        why = f"vectors of {found} bits; no more than {wanted} fit every start"
    kernel = None
    with contextlib.suppress(Finding):  # what cannot be emitted is told by another rule
        kernel = built(subject, description)
    line, text = (0, "") if kernel is None else first_mover(kernel, subject.name, _memory_of(description))
    raise Finding(WIDE, why, description, line=line, text=text)


def _memory_of(description: Description) -> str:
    """The memory whose accesses show a vector's width."""
    return next((space for space in description.spaces if space != "local"), "")


# ------------------------------------------------------------------------------------------------- text and runs


def built(
    subject: Subject, description: Description, *, skip: str | None = None, left_out: Collection[str] = ()
) -> tc.BuiltKernel | None:
    """The kernel of a description (without a step, or options), or None where the variant declines.

    Raises:
        Finding: a hook failed.
    """
    try:
        return Around(description, subject.surroundings, skip, left_out).build()
    except tc.NoVariantError:
        return None
    except (tc.RequestError, tc.LayoutError) as error:
        if subject.name in str(error):
            raise Finding(EMITS, str(error), description) from error
        return None
    except (tc.TilecopyError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        said = str(error).split("\n  at ")[0]  # where the kit makes its kernel is no news
        raise Finding(EMITS, f"{type(error).__name__}: {said}", description) from error


def copy_instructions(kernel: tc.BuiltKernel, name: str) -> list[tuple[int, Line]]:
    """Return the instructions that a variant's copy emitted, each with the number of its line in the PTX."""
    lines = instructions_in(kernel.ptx)
    return [(number, line) for number, line in lines if kernel.source_location(number).startswith(f"{name}: ")]


def line_text(kernel: tc.BuiltKernel | None, number: int) -> str:
    """Return a line of a kernel's PTX, "" for number 0."""
    return kernel.ptx.split("\n")[number - 1] if kernel is not None and number else ""


def first_mover(kernel: tc.BuiltKernel, name: str, space: str = "") -> tuple[int, str]:
    """Return the first line of a copy that moves data, into or out of a space where one is given; ``(0, "")`` for none."""
    lines = copy_instructions(kernel, name)
    number = next((number for number, line in lines if line.name in _MOVERS and space in str(line)), 0)
    return number, line_text(kernel, number)


def text_is_own(subject: Subject, description: Description) -> bool:
    """The text is the same at every build, of hooks that change nothing, and names only the copy's operands."""
    watcher = Watcher()
    watched = subject.with_wrapper(watcher)
    first, second = built(subject, description), built(watched, description)
    if first is None or second is None:
        if first is not second:
            raise Finding(DETERMINISTIC, "it declines one time and emits another", description)
        return False
    for _ in range(5):  # a busy machine is not the hook's fault: the shortest call counts
        if watcher.slow:
            built(watched, description)
    _complain(watcher, description)
    if first.ptx != second.ptx:
        pairs = zip(first.ptx.split("\n"), second.ptx.split("\n"), strict=False)
        number, one = next(((n, pair[0]) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1]), (0, ""))
        raise Finding(
            DETERMINISTIC,
            f"a second build differs:\n{difference(first.ptx, second.ptx)}",
            description,
            line=number,
            text=one,
        )
    for number, line in copy_instructions(first, subject.name):
        if "decoy" in str(line):
            why, text = "it names memory that is not an operand of the copy", line_text(first, number)
            raise Finding(OWN_OPERANDS, why, description, line=number, text=text)
    return True


def results_are_right(subject: Subject, description: Description, seed: int = 0) -> bool:
    """The emulator's results are the oracle's, byte for byte, and each element is moved once."""
    kernel = built(subject, description)
    if kernel is None:
        return False
    source, target = arrays_of(description, seed)
    wanted = oracle.expected(description, (source, target))
    report = _run(subject, description, kernel, source, target)
    wrong = np.argwhere(wanted != target)
    if len(wrong):
        _blame(subject, description, kernel, seed, wanted, target, tuple(int(i) for i in wrong[0]))
    _count(subject, description, kernel, report)
    return True


def emulated(subject: Subject, description: Description, kernel: tc.BuiltKernel, *arrays: Any) -> Any:
    """The report of a launch on the emulator, which a process that only answers (:mod:`.process`) does not import."""
    from tilecopy_emulator.executor import EmulatorExecutor

    return EmulatorExecutor().launch(kernel, subject.surroundings.launched(description, *arrays))


def _run(subject: Subject, description: Description, kernel: tc.BuiltKernel, source: Any, target: Any) -> Any:
    held = source.copy()
    try:
        report = emulated(subject, description, kernel, source, target)
    except tc.HazardError as error:
        text = line_text(kernel, error.line)
        first = str(error).split("\n")[0]
        raise Finding(DEFINED, first, description, line=error.line, text=text) from error
    except tc.TilecopyError as error:
        raise Finding(DEFINED, f"{type(error).__name__}: {error}", description) from error
    if not np.array_equal(held, source):
        raise Finding(RESULT, "the source's memory has changed", description)
    return report


def _blame(
    subject: Subject,
    description: Description,
    kernel: tc.BuiltKernel,
    seed: int,
    wanted: Any,
    result: Any,
    at: tuple[int, ...],
) -> None:
    """Raise a finding for a byte that is wrong, with the line that writes it."""
    axes = {
        "global": ("element", "byte"),
        "shared": ("CTA", "element", "byte"),
        "local": ("CTA", "thread", "register", "byte"),
        "tmem": ("CTA", "lane", "element", "byte"),
    }[description.dst.space]
    where = ", ".join(f"{name} {index}" for name, index in zip(axes, at, strict=True))
    before = arrays_of(description, seed)[1]
    kept = result[at] == before[at]
    line, text = _writer(subject, description, kernel, seed, result, at)
    found = f"{where} of {description.dst.space} memory is 0x{result[at]:02x}, 0x{wanted[at]:02x} is expected"
    if kept and not line:
        found += ": no instruction of the copy writes it"
    elif wanted[at] == before[at]:
        found += ": it is no part of the destination's box"
    raise Finding(RESULT, found, description, line=line, text=text)


def _writer(
    subject: Subject, description: Description, kernel: tc.BuiltKernel, seed: int, result: Any, at: tuple[int, ...]
) -> tuple[int, str]:
    """The line of the copy without which a byte is another one."""
    lines = kernel.ptx.split("\n")
    candidates = [number for number, line in copy_instructions(kernel, subject.name) if line.name in _MOVERS]
    for number in candidates[:200]:
        shortened = [line if n != number else "" for n, line in enumerate(lines, 1)]
        source, target = arrays_of(description, seed)
        try:
            emulated(subject, description, attrs.evolve(kernel, ptx="\n".join(shortened)), source, target)
        except tc.TilecopyError:
            continue
        if target[at] != result[at]:
            return number, lines[number - 1]
    return 0, ""


def only_the_box_is_read(subject: Subject, description: Description) -> bool:
    """What no box has is written by another CTA meanwhile; of shared memory it is left without a value by every rule."""
    unread = unread_places(description) if description.src.space == "global" and description.cluster == 1 else []
    if not len(unread):
        return False
    try:
        kernel = Around(description, subject.surroundings, unread=len(unread)).build()
    except tc.TilecopyError:
        return False  # declined, or told by another rule
    source, target = arrays_of(description)
    try:
        emulated(subject, description, kernel, source, target, unread)
    except tc.HazardError as error:
        text = line_text(kernel, error.line)
        found = str(error).split("\n")[0]
        raise Finding(ONLY_THE_BOX, found, description, line=error.line, text=text) from error
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


def _count(subject: Subject, description: Description, kernel: tc.BuiltKernel, report: Any) -> None:
    """The bytes that the executed instructions write are those of the copy, neither more nor fewer."""
    if kernel.plans[0].request.may_exceed_bounds or description.spaces == ("local", "local"):
        return
    total, worst = 0, (0, 0)
    for number, line in copy_instructions(kernel, subject.name):
        each = _bytes_of(line, *description.spaces)
        if each is None:
            return
        written = each * report.lines.get(number, 0)
        total, worst = total + written, max(worst, (written, number))
    wanted = oracle.written(description) * description.elem_bytes
    if total > wanted:
        raise Finding(
            EXACTLY_ONCE,
            f"{total} bytes are written where the copies have {wanted}, by the wrong number of threads or twice: the line "
            f"below is executed by {report.lines.get(worst[1], 0)} threads in all",
            description,
            line=worst[1],
            text=line_text(kernel, worst[1]),
        )
