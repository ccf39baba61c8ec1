"""Instructions that permute a thread's registers. All words are computed before any source register is overwritten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilecopy_core.plugin import Buffer, PtxBuilder, Register
from tilecopy_partitions import by_owners, write_local

from ..byte_runs import Field, word_bytes
from .network import Network, NetworkWord
from .partition import RegisterPermutation


class Hex(int):
    """An integer that prints in hexadecimal, for example a mask or selector in PTX."""

    def __str__(self) -> str:
        return f"0x{int(self):04x}"


def emit(partition: RegisterPermutation, ptx: PtxBuilder) -> None:
    """Emit ``prmt`` and ``mov`` in the threads that hold elements of the destination."""
    dst, src = partition.dst.buffer, partition.src.buffer
    if not partition.fields:  # everything is in its place; the core takes a copy without an instruction for a mistake
        register = ptx.fragment(dst)[0]
        ptx.instr(f"mov.b{register.bits}", register, register)
        return
    values = partition.network.values
    with by_owners(ptx, partition.digits):
        target = ptx.fragment(dst)
        step_results: dict[int, Register] = {}
        if dst.memory is not src.memory:
            pairs = zip(partition.fields, values, strict=True)
            step_results = {
                value.number: target[field.register] for field, value in pairs if value.from_step and field.whole
            }
        field_words = words(
            ptx,
            partition.network,
            dict(enumerate(ptx.fragment(src))),
            lambda step: step_results.get(step) or ptx.reg("b32"),
        )
        write(ptx, dst, src, partition.fields, field_words)


def words(
    ptx: PtxBuilder, network: Network, sources: Mapping[int, Register], register_of: Callable[[int], Register]
) -> list[Register]:
    """Emit the ``prmt`` instructions of a network, and return the register of each requested word."""
    results: list[Register] = []

    def of(value: NetworkWord) -> Register:
        return results[value.number] if value.from_step else sources[value.number]

    for number, step in enumerate(network.steps):
        result = register_of(number)
        ptx.instr("prmt.b32", result, of(step.low), of(step.high), Hex(step.selector))
        results.append(result)
    return [of(value) for value in network.values]


def write(ptx: PtxBuilder, dst: Buffer, src: Buffer, fields: Sequence[Field], values: Sequence[Register]) -> None:
    """Write one value to each run of destination bytes. Source registers that are overwritten are copied first."""
    target = ptx.fragment(dst)
    if dst.memory is src.memory:
        written = {target[field.register] for field in fields}
        aside = {value: ptx.reg(value.type) for value in dict.fromkeys(values) if value in written}
        for value, kept in aside.items():
            ptx.instr(f"mov.b{value.bits}", kept, value)
        values = [aside.get(value, value) for value in values]
    for field, value in zip(fields, values, strict=True):
        if not field.whole:
            elem = (field.register * word_bytes(dst) + field.first_byte) // dst.dtype.bytes
            write_local(ptx, dst, elem, field.count_bytes * 8, [value])
        elif target[field.register] != value:
            ptx.instr(f"mov.b{value.bits}", target[field.register], value)
