"""Instructions of a permutation within a thread: all words are made before the first register of the source is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from tilecopy_core.plugin import CopyRequest, Digit, PtxBuilder, Register, owners

from .network import Network, Value
from .partition import Field, RegisterPermutation


def emit(request: CopyRequest, partition: RegisterPermutation, ptx: PtxBuilder) -> None:
    """``prmt`` and ``mov``, in the threads that hold some of the destination."""
    if all(map(partition.stays, partition.fields)):
        return
    with by_owners(ptx, partition.digits):
        sources = ptx.fragment(partition.src.buffer)
        target = ptx.fragment(partition.dst.buffer)
        fields = [field for field in partition.fields if not partition.stays(field)]
        own = {} if partition.in_place else {
            field.value.number: target[field.register] for field in fields if field.value.made and partition.is_whole(field)
        }
        made = words(ptx, partition.network, sources, lambda number: own.get(number) or ptx.reg("b32"))
        values = [made[field.value.number] if field.value.made else sources[field.value.number] for field in fields]
        if partition.in_place:  # what is overwritten before it is read is put aside
            written = [target[field.register] for field in fields]
            aside = {register: ptx.reg(register.type) for register in dict.fromkeys(values) if register in written}
            for register, kept in aside.items():
                ptx.instr(f"mov.b{register.bits}", kept, register)
            values = [aside.get(value, value) for value in values]
        for field, value in zip(fields, values, strict=True):
            write(ptx, partition, field, value)


@contextmanager
def by_owners(ptx: PtxBuilder, digits: Sequence[Digit]) -> Iterator[None]:
    """What is inside is done by the threads that hold some of the destination."""
    guards = owners(digits, ptx.tid, ptx.cta_threads, store=False)
    if not guards:
        yield
        return
    with ptx.if_(ptx.predicate(reduce(lambda a, b: a & b, guards))):
        yield


def words(
    ptx: PtxBuilder, made: Network, sources: Sequence[Register], register_of: Callable[[int], Register]
) -> list[Register]:
    """The instructions of a network; the register of each step."""
    found: list[Register] = []

    def of(value: Value) -> Register:
        return found[value.number] if value.made else sources[value.number]

    for number, step in enumerate(made.steps):
        result = register_of(number)
        ptx.instr("prmt.b32", result, of(step.low), of(step.high), f"0x{step.selector:04x}")
        found.append(result)
    return found


def write(ptx: PtxBuilder, partition: RegisterPermutation, field: Field, value: Register) -> None:
    """A word, or its low bytes, into a register."""
    target = partition.dst.buffer
    if not partition.is_whole(field):
        elem = (field.register * partition.word_bytes + field.first_byte) // target.dtype.bytes
        ptx.write_local(target, elem, field.count_bytes * 8, [value])
        return
    register = ptx.fragment(target)[field.register]
    if register != value:
        ptx.instr(f"mov.b{register.bits}", register, value)
