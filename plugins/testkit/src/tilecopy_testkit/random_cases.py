"""Functions that draw random test cases, from a seed or from the choices of Hypothesis."""

from __future__ import annotations

from .case_space import CaseSpace, Draw, Seeded
from .copy_case import CopyCase
from .fragment_cases import fragment_case, matrix_case
from .memory_cases import bulk_case, staged_case
from .mutators import mutate
from .tensor_memory_cases import tensor_case, tensor_fragment_case

MOST_BYTES = 16384
"""The most bytes of an operand's memory."""
MOST_REGISTERS = 256
"""The most elements of a fragment in one thread."""
MOST_COLUMNS = 128
"""The most columns of tensor memory, of 32 bits each."""
MOST_TURNS = 16
"""The most elements of shared memory that each thread fills and stores."""


def describe(draw: Draw, case_space: CaseSpace) -> CopyCase | None:
    """Draw a test case. Return None if the case is too large to run."""
    if case_space.author_draw is not None and draw.choose([True, True, True, False]):
        author_case = case_space.author_draw(draw, case_space)
        if author_case is not None and case_space.have(author_case):
            return _mutate_if_small(draw, case_space, author_case)
    variant = case_space.variant
    pair = draw.choose(case_space.spaces)
    case: CopyCase
    if "tmem" in pair:
        case = tensor_fragment_case(draw, case_space, pair) if "local" in pair else tensor_case(draw, case_space)
    elif variant.threads == "one":
        case = bulk_case(draw, case_space, pair)
    elif "local" in pair:
        matrices = set(pair) != {"local"} and draw.choose([False, False, False, True, True])
        case = (matrix_case if matrices else fragment_case)(draw, case_space, pair)
    else:
        case = staged_case(draw, case_space, pair)
    return None if _too_large(case) else _mutate_if_small(draw, case_space, case)


def _mutate_if_small(draw: Draw, case_space: CaseSpace, case: CopyCase) -> CopyCase:
    """Return a mutation of a case, or the case itself if the mutation is too large to run."""
    mutated = mutate(draw, case_space, case)
    return case if _too_large(mutated) else mutated


def _too_large(case: CopyCase) -> bool:
    """Return True if it would take too long to fill and store an operand's memory."""
    for operand in (case.dst, case.src):
        elems = operand.memory_elems
        reach = sum((extent - 1) * step for extent, step, axis in operand.iters if axis == "TCol")
        too_large = {
            "global": elems * case.elem_bytes > MOST_BYTES,
            "shared": elems * case.elem_bytes > MOST_BYTES or elems > 192 + MOST_TURNS * case.threads,
            "local": elems > MOST_REGISTERS,
            "tmem": reach * case.elem_bytes >= MOST_COLUMNS * 4,
        }
        if too_large[operand.space]:
            return True
    return False


def case_of_seed(case_space: CaseSpace, seed: int | str) -> CopyCase:
    """Return the test case that a seed determines. Cases that are too large to run are skipped."""
    draw = Seeded(seed)
    while (case := describe(draw, case_space)) is None:
        pass
    return case
