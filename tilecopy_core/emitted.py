"""What a variant's emit hook wrote, held against what one copy may write.

A hook writes text, and text can be anything. These checks are cheap and look at the lines of one copy alone: something
was emitted, it does not end the kernel, its blocks close, and it names only registers that exist. Wrong addresses they
cannot see; the emulator does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from .dispatch import Plan
from .errors import PluginError
from .ptx import PtxBuilder
from .registry import Registry

_SPECIAL = """
    tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid clock clock_hi clock64 globaltimer globaltimer_lo
    globaltimer_hi is_explicit_cluster clusterid nclusterid cluster_ctaid cluster_nctaid cluster_ctarank
    cluster_nctarank lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt total_smem_size aggr_smem_size
    dynamic_smem_size current_graph_exec reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap
"""
SPECIAL_REGISTERS = frozenset(_SPECIAL.split())
"""Names behind ``%`` that no declaration needs (PTX ISA, "Special Registers"), without ``.x .y .z``."""
_NUMBERED = re.compile(r"(pm\d+(_64)?|envreg\d+|reserved_smem_offset_\d+)\Z")
_ENDS_KERNEL = re.compile(r"(?:@!?[\w$%]+\s+)?(ret|exit)\b")
_REGISTER = re.compile(r"%([A-Za-z_$][\w$]*)")
_BRANCH = re.compile(r"(?:@!?[\w$%]+\s+)?bra(?:\.uni)?\s+([\w$]+)\s*;")
_DECLARATION = re.compile(r"\.reg\s+(?:\.\w+\s+)+(.*)", re.S)
_STATEMENT = re.compile(r"[{}]|[\w$%]+\s*:(?!:)|[^\s{};][^;]*;?|;")
_DECLARED = re.compile(r"%?([A-Za-z_$][\w$]*)\s*(?:<\s*(\d+)\s*>)?")


def emit_checked(plan: Plan, ptx: PtxBuilder, registry: Registry | None = None) -> None:
    """Write a plan's copy, and look at the text that its variant wrote.

    Args:
        plan: the copy.
        ptx: where it goes.
        registry: where the variant is looked up by its name; by default the process's.

    Raises:
        PluginError: the text cannot stand in a kernel; and what :meth:`.Plan.emit` raises.
    """
    ptx.recent.clear()
    ptx.loose = False
    around = list(ptx.blocks)
    plan.emit(ptx, registry)
    why = None
    if ptx.blocks != around:
        why = "it leaves a block (if_, loop) open, or closes one that is not its own"
    elif ptx.loose or all(map(_says_nothing, ptx.recent)):  # typed operands were checked one by one
        why = why_malformed(ptx.recent, ptx.register_names(), may_be_empty=plan.request.overhangs)
    if why is not None:
        raise PluginError(
            f"variant {plan.variant} ({plan.package}): its tilecopy_emit is faulty: {why}; set "
            f"TILECOPY_DISABLE={plan.variant} or uninstall the package"
        )


def _says_nothing(line: str) -> bool:
    """Whether a line is a comment or a label."""
    return line.lstrip().startswith("//") or line.rstrip().endswith(":")


def why_malformed(lines: Iterable[str], registers: Collection[str], *, may_be_empty: bool = False) -> str | None:
    """Why the text of one copy cannot stand in a kernel, or None.

    Args:
        lines: the text, line by line, with or without comments.
        registers: the names that are declared around it, with or without their ``%``.
        may_be_empty: the partition has nothing to move, so that no instruction is needed.

    Returns:
        One sentence that quotes the statement: no instruction at all, a ``ret`` or ``exit``, a brace without its
        partner, a statement without its end, a branch to a label that is not there, or a register that nobody declares.
    """
    known = {name.lstrip("%") for name in registers} | SPECIAL_REGISTERS
    instructions = 0
    labels, branches = set[str](), list[tuple[str, str]]()
    scopes: list[set[str]] = [set()]
    for statement in _statements(lines):
        if statement == "{":
            scopes.append(set())
        elif statement == "}":
            scopes.pop()
            if not scopes:
                return "it emits a '}' that closes no block of its own"
        elif statement.endswith(":"):
            labels.add(statement[:-1].strip())
        elif not statement.endswith(";"):
            return f"it emits '{statement}' without its ';'"
        elif declared := _DECLARATION.match(statement):
            scopes[-1] |= _declared(declared[1])
        elif not statement.startswith("."):
            instructions += 1
            if ends := _ENDS_KERNEL.match(statement):
                return f"it emits '{statement}': {ends[1]} ends the kernel, and a copy may not"
            if branch := _BRANCH.match(statement):
                branches.append((statement, branch[1]))
            for name in _REGISTER.findall(statement):
                if not (name in known or _NUMBERED.match(name) or any(name in scope for scope in scopes)):
                    return f"it emits '{statement}', and no register %{name} is declared"
    if len(scopes) > 1:
        return "it emits a '{' that it does not close"
    for statement, label in branches:
        if label not in labels:
            return f"it emits '{statement}', and no label {label} of its own"
    if not instructions and not may_be_empty:
        return "it emits no instruction"
    return None


def _declared(text: str) -> set[str]:
    """The names of ``%a, %r<4>``: a count stands for the names ``%r0`` to ``%r3``."""
    names = set()
    for name, count in _DECLARED.findall(text):
        names |= {f"{name}{number}" for number in range(int(count))} if count else {name}
    return names


def _statements(lines: Iterable[str]) -> Iterator[str]:
    """Statements, labels with their colon, braces of blocks and what is left over, without comments.

    A brace opens or closes a block where a statement may begin; inside one it belongs to a vector operand.
    """
    text = re.sub(r"/\*.*?\*/", " ", "\n".join(line.partition("//")[0] for line in lines), flags=re.S)
    return (" ".join(found.split()) for found in _STATEMENT.findall(text))
