"""Other cache hints in a kernel's PTX text, so that what each is worth can be measured (`benchmarks/bench_hints.py`)."""

from __future__ import annotations

import re
from functools import partial

import attrs
import tilecopy as tc

from tilecopy_core.ptx import instruction_of

LOADS = ("", ".L1::no_allocate", ".nc", ".nc.L1::no_allocate", ".cs", ".lu")
"""What may follow ``ld.global``. ``.lu`` is last use, which the ISA makes ``.cs`` on global addresses."""
STORES = ("", ".L1::no_allocate", ".cs", ".wt")
"""What may follow ``st.global``."""
PREFETCHES = ("", ".L2::128B", ".L2::256B")
"""What may follow the state spaces of ``cp.async``: how much L2 fetches around what is read."""

_LOAD = re.compile(r"\bld\.global((?:\.(?:nc|ca|cg|cs|lu|cv|L[12]::\w+))*)(?=\.)")
_STORE = re.compile(r"\bst\.global((?:\.(?:wb|cg|cs|wt|L[12]::\w+))*)(?=\.)")
_ASYNC = re.compile(r"\bcp\.async\.c[ag]\.shared(?:::cta)?\.global((?:\.L2::\w+)*)(?=\s)")


@attrs.frozen
class Hints:
    """The hints of a kernel's accesses of global memory; "" is none.

    Attributes:
        load: after ``ld.global``, or after the state spaces of ``cp.async``.
        store: after ``st.global``.
    """

    load: str = ""
    store: str = ""


def is_asynchronous(ptx: str) -> bool:
    """Whether global memory is read by ``cp.async``."""
    return bool(_ASYNC.search(ptx))


def hints_of(ptx: str) -> set[Hints]:
    """The pairs of hints that a text's reads and writes of global memory carry; one where they are all alike."""
    code = "\n".join(line.partition("//")[0] for line in ptx.splitlines())
    loads = {*_LOAD.findall(code), *_ASYNC.findall(code)}
    return {Hints(load, store) for load in loads for store in _STORE.findall(code)}


def with_hints(kernel: tc.BuiltKernel, hints: Hints) -> tc.BuiltKernel:
    """The same kernel with these hints in place of its own, ``.version`` raised to what they need.

    Raises:
        ValueError: the kernel has no access that could carry one of them.
    """
    return attrs.evolve(kernel, ptx=rewritten(kernel.ptx, hints))


def rewritten(ptx: str, hints: Hints) -> str:
    """The text with these hints on every read and write of global memory in place of those that it has.

    Raises:
        ValueError: it has no access that could carry one of them.
    """
    reads = _ASYNC if is_asynchronous(ptx) else _LOAD
    version = _version(ptx)
    counts = {"load": 0, "store": 0}
    lines = []
    for line in ptx.splitlines(keepends=True):
        code, comment, words = line.partition("//")
        for name, pattern, hint in (("load", reads, hints.load), ("store", _STORE, hints.store)):
            code, count = pattern.subn(partial(_replaced, hint=hint), code)
            counts[name] += count
            if count:
                version = max(version, instruction_of(_without_guard(code)).needs.version)
        lines.append(code + comment + words)
    for name, hint in attrs.asdict(hints).items():
        if hint and not counts[name]:
            raise ValueError(f"no {name} of global memory in this text takes {hint}")
    return re.sub(r"^\.version \S+", ".version {}.{}".format(*version), "".join(lines), count=1, flags=re.M)


def _replaced(found: re.Match[str], hint: str) -> str:
    return found[0].removesuffix(found[1]) + hint


def _version(ptx: str) -> tuple[int, int]:
    found = re.search(r"^\.version (\d+)\.(\d+)", ptx, re.M)
    if found is None:
        raise ValueError("the text has no .version")
    return int(found[1]), int(found[2])


def _without_guard(code: str) -> str:
    return re.sub(r"^\s*(@!?\S+\s+)?", "", code).rstrip().removesuffix(";")
