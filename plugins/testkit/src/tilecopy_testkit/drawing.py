"""Drawing descriptions: of a seed, or by the choices of Hypothesis."""

from __future__ import annotations

from .bulk_cases import bulk_case
from .case_space import Draw, Ranges, Seeded
from .closing import varied
from .description import Description
from .fragment_cases import fragment_case
from .matrix_cases import matrix_case
from .memory_cases import staged_case
from .tensor_memory_cases import tensor_case, tensor_fragment_case

MOST_BYTES = 16384
"""Of the memory behind an operand."""
MOST_REGISTERS = 256
"""Elements of a fragment that a thread has."""
MOST_COLUMNS = 128
"""Of 32 bits of tensor memory."""
MOST_TURNS = 16
"""Elements of shared memory that each thread fills and shows."""


def describe(draw: Draw, ranges: Ranges) -> Description | None:
    """One description, or None where what was drawn is too large to be run."""
    if ranges.own is not None and draw.pick([True, True, True, False]):
        own = ranges.own(draw, ranges)
        if own is not None and ranges.have(own):
            return _closed(draw, ranges, own)
    variant = ranges.variant
    pair = draw.pick(ranges.spaces)
    found: Description
    if "tmem" in pair:
        found = tensor_fragment_case(draw, ranges, pair) if "local" in pair else tensor_case(draw, ranges)
    elif variant.threads == "one":
        found = bulk_case(draw, ranges, pair)
    elif "local" in pair:
        matrices = set(pair) != {"local"} and draw.pick([False, False, False, True, True])
        found = (matrix_case if matrices else fragment_case)(draw, ranges, pair)
    else:
        found = staged_case(draw, ranges, pair)
    return None if _too_large(found) else _closed(draw, ranges, found)


def _closed(draw: Draw, ranges: Ranges, description: Description) -> Description:
    """What :mod:`.closing` makes of a draw; the draw itself where that is too large to be run."""
    found = varied(draw, ranges, description)
    return description if _too_large(found) else found


def _too_large(description: Description) -> bool:
    """Whether an operand's memory would take long to be filled and shown."""
    for operand in (description.dst, description.src):
        elems, space = operand.memory_elems, operand.space
        if space == "shared" and elems > 192 + MOST_TURNS * description.threads:
            return True
        if space == "local" and elems > MOST_REGISTERS:
            return True
        if space in ("global", "shared") and elems * description.elem_bytes > MOST_BYTES:
            return True
        reach = sum((extent - 1) * step for extent, step, axis in operand.iters if axis == "TCol")
        if space == "tmem" and reach * description.elem_bytes >= MOST_COLUMNS * 4:
            return True
    return False


def seeded(ranges: Ranges, seed: int | str) -> Description:
    """The description of a seed."""
    draw = Seeded(seed)
    while (found := describe(draw, ranges)) is None:
        pass
    return found
