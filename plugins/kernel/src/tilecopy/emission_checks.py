"""Checks of the PTX that a variant's emit hook wrote.

These checks are cheap and look only at the lines of one copy: there is an instruction, none ends the kernel, blocks
are closed, and every register is declared. They do not detect wrong addresses; the emulator does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from tilecopy_core import Plan, PluginError, Registry
from tilecopy_core.errors import pattern
from tilecopy_core.ptx import STEM, TYPE_BITS, AnyLine, Label, Line, PtxBuilder, Text, declared_in, parse_lines

_SPECIAL = """
    tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid clock clock_hi clock64 globaltimer globaltimer_lo
    globaltimer_hi is_explicit_cluster clusterid nclusterid cluster_ctaid cluster_nctaid cluster_ctarank
    cluster_nctarank lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt total_smem_size aggr_smem_size
    dynamic_smem_size current_graph_exec reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap
"""
SPECIAL_REGISTERS = frozenset(_SPECIAL.split())
"""Names behind ``%`` that no declaration needs (PTX ISA, "Special Registers"), without ``.x .y .z``."""
_NUMBERED = pattern(r"(pm\d+(_64)?|envreg\d+|reserved_smem_offset_\d+)\Z")


def emit_checked(plan: Plan, ptx: PtxBuilder, registry: Registry | None = None) -> None:
    """Write a plan's copy as :meth:`.Plan.emit` does. Raise PluginError if the variant's PTX is not valid in a kernel."""
    ptx.recent.clear()
    around = list(ptx.blocks)
    plan.emit(ptx, registry)
    why = None
    if ptx.blocks != around:
        why = "the hook must close exactly the blocks (if_, loop) that it opens"
    elif not are_checked(ptx.recent):
        why = why_malformed(ptx.recent, register_bits(ptx), may_be_empty=plan.request.may_exceed_bounds)
    if why is not None:
        raise PluginError(
            f"variant {plan.variant} ({plan.package}): tilecopy_emit is faulty: {why}; "
            f"TILECOPY_DISABLE={plan.variant} disables the variant"
        )


def register_bits(ptx: PtxBuilder) -> dict[str, int]:
    """Return a dict from the name of each register to its width in bits. A predicate has 1 bit."""
    counts = ptx.register_counts.items()
    return {f"{ptx.mark}{STEM[type]}{n}": TYPE_BITS[type] for type, count in counts for n in range(count)}


def why_malformed(lines: Iterable[AnyLine], registers: Collection[str], *, may_be_empty: bool = False) -> str | None:
    """Return why the PTX of one copy is not valid in a kernel, or None if the PTX is valid.

    The reason quotes the statement: no instruction at all (unless it may be empty), a ``ret`` or ``exit``, an unbalanced brace, a
    statement without ``;``, a branch to a label that the copy does not have, or a register that neither the copy nor the kernel declares.
    """
    scopes = [{name.lstrip("%") for name in registers}]
    emitted = list(statements(lines))
    instructions = [line for line in emitted if isinstance(line, Line) and not line.opcode.startswith(".")]
    for statement in emitted:
        why = None
        if isinstance(statement, str):
            why = _why_unbalanced(statement, scopes)
        elif isinstance(statement, Line) and not statement.opcode.startswith("."):
            why = _why_wrong(statement, scopes)
        if why is not None:
            return why
    if len(scopes) > 1:
        return "the hook emits a '{' that it does not close"
    labels = {label.name for label in emitted if isinstance(label, Label)}
    for branch in instructions:
        if branch.name == "bra" and branch.operands and branch.operands[0] not in labels:
            return f"the hook emits '{str(branch).strip()}' but does not emit the label {branch.operands[0]}"
    return None if instructions or may_be_empty else "the hook emits no instruction"


def _why_wrong(line: Line, scopes: Sequence[Collection[str]]) -> str | None:
    """Return the reason that an instruction is not valid in a copy, or None: it ends the kernel, or a register is not declared."""
    name = line.name
    if name in ("ret", "exit"):
        return f"the hook emits '{str(line).strip()}', but a copy must not end the kernel with {name}"
    for register in (name[1:] for name in line.names if name[0] == "%"):
        if not (is_special(f"%{register}") or any(register in scope for scope in scopes)):
            return f"the hook emits '{str(line).strip()}', but the register %{register} is not declared"
    return None


def _why_unbalanced(statement: str, scopes: list[set[str]]) -> str | None:
    """Open or close a scope, or declare registers in the last; return the reason that the text is not valid, or None."""
    if statement == "{":
        scopes.append(set())
    elif statement == "}":
        scopes.pop()
        return None if scopes else "the hook emits a '}' without a '{' before it"
    elif not statement.endswith(";"):
        return f"the hook emits '{statement}' without its ';'"
    else:
        scopes[-1] |= {name.lstrip("%") for name in declared_in(statement)}
    return None


def is_special(name: str) -> bool:
    """Return True if the name is a special register such as ``%tid``. Special registers need no declaration."""
    return name[:1] == "%" and (name[1:] in SPECIAL_REGISTERS or _NUMBERED.match(name[1:]) is not None)


def statements(lines: Iterable[AnyLine]) -> Iterator[Line | Label | str]:
    """Yield PTX statements. Adjacent lines of text are joined and parsed: a statement may span several lines."""
    text = ""
    for line in lines:
        if isinstance(line, Text):
            text += f"{line}\n"
        else:
            yield from (*parse_lines(text), line)
            text = ""
    yield from parse_lines(text)


def are_checked(lines: Sequence[AnyLine]) -> bool:
    """Return True if the lines contain instructions and every instruction was checked when it was written."""
    operands = [line.operands for line in lines if isinstance(line, Line)]
    loose = [line for line in lines if isinstance(line, Text) and line.loose]
    # `ret` has no operand that is checked
    return not loose and operands != [] and all(operands) and str not in map(type, chain.from_iterable(operands))
