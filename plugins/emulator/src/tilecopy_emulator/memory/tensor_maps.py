"""Tensor maps: the fields, the encoding in 128 bytes, and reads by the tensormap proxy.

NVIDIA does not document the bytes of a CUtensorMap, so the emulator has its own format of 128 bytes, little-endian:

==========  =====================================================================
bytes       content
==========  =====================================================================
0 to 7      ``tcmap v1``
8 to 12     element type, rank, swizzle, fill: indices in the tables of this module; the atom of the swizzle
16 to 23    global address
24 to 63    sizes of five dimensions, in elements, innermost first
64 to 103   strides of dimensions 1 to 5, in bytes (the last one is not used)
104 to 113  box, in elements
114 to 118  element strides
==========  =====================================================================

So ``tensormap.replace`` writes one of these fields. Limits: cuda.h, ``cuTensorMapEncodeTiled``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
from tilecopy import LaunchError

from tilecopy_core import TilecopyError, dtype_of

from ..alu.formats import OUTSIDE
from ..argument_checks import demand, is_whole, items_of
from ..memory_model.clocks import TENSORMAP, Clock
from ..memory_model.shadow import BARRIER_ACTOR, actor_of, time_of
from ..threads.global_arrays import GlobalArray
from .global_memory import GlobalAccesses

MAP_BYTES, MAP_ALIGN_BYTES = 128, 64
MOST_DIMENSIONS = 5
_FORM = struct.Struct("<8s5B3xQ5Q5Q5H5B9x")
TAG = b"tcmap v1"
"""The first bytes of a map."""
ELEMENTS = {"uint8": "u8", "uint16": "u16", "uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64",
            "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16"}  # fmt: skip
"""Element type, in the driver's order -> PTX type; other types are copied as unsigned integers of their size."""
FILLS = ("zero", "nan")
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128, "128B_atom_32B": 128, "128B_atom_64B": 128}
"""Swizzle -> its span in bytes, which is the longest row of a box."""
_MODES = {"none": (0, 0), "32B": (1, 0), "64B": (2, 0), "128B": (3, 0), "128B_atom_32B": (3, 1),
          "128B_atom_64B": (3, 3)}  # fmt: skip
"""Swizzle -> its mode and atom (``.swizzle_mode`` and ``.swizzle_atomicity`` of ``tensormap.replace``)."""
FIELDS = {"global_address": (16, 8), "rank": (9, 1), "box_dim": (104, 2), "global_dim": (24, 8), "global_stride": (64, 8),
          "element_stride": (114, 1), "elemtype": (8, 1), "interleave_layout": (13, 1), "swizzle_mode": (10, 1),
          "swizzle_atomicity": (12, 1), "fill_mode": (11, 1)}  # fmt: skip
"""Field of ``tensormap.replace`` -> its first byte, and the size of a number."""
_XOR = {"none": (0, 0), "32B": (3, 0x10), "64B": (3, 0x30), "128B": (3, 0x70), "128B_atom_32B": (2, 0x60),
        "128B_atom_64B": (1, 0x40)}  # fmt: skip
"""Swizzle -> the right shift of an address, and the bits of the shifted address for the XOR (PTX ISA 5.5.7)."""


def swizzle_addresses(addresses: Any, swizzle: str) -> Any:
    """Apply a swizzle to shared-memory addresses, and return the resulting addresses."""
    down, bits = _XOR[swizzle]
    return addresses ^ ((addresses >> down) & bits)


@attrs.frozen(eq=False)
class TensorMap:
    """A tensor map: a tensor in global memory, and the box that a tensor copy moves. Dimensions are innermost first.

    Attributes:
        address: of the first element, a multiple of 16; for :func:`~tilecopy_emulator.run_ptx` also an array.
        dtype: name of the element type, of 1 to 8 bytes.
        sizes: extents of one to five dimensions, in elements.
        strides_bytes: of all dimensions except the innermost, multiples of 16.
        box: extents of a box, 1 to 256; its rows are a multiple of 16 bytes, and no longer than the span of the swizzle.
        element_strides: element strides of a box, 1 to 8; the innermost one has no effect. By default ones.
        swizzle: one of ``"none"``, ``"32B"``, ``"64B"``, ``"128B"``, ``"128B_atom_32B"``, ``"128B_atom_64B"``.
        fill: the value of elements outside the tensor: ``"zero"``, or for floats ``"nan"``.

    Raises:
        LaunchError: a field is not valid.
    """

    address: Any
    dtype: str
    sizes: Sequence[int]
    strides_bytes: Sequence[int]
    box: Sequence[int]
    element_strides: Sequence[int] = ()
    swizzle: str = "none"
    fill: str = "zero"

    def __attrs_post_init__(self) -> None:
        def hold(name: str, fits: bool, rule: str) -> None:
            demand("tensor_map", name, getattr(self, name), fits, rule, LaunchError)

        def among(name: str, count: int, low: int, high: int, step: int = 1) -> bool:
            items = items_of(getattr(self, name))
            return items is not None and len(items) == count and all(
                is_whole(number, low, high) and number % step == 0 for number in items
            )  # fmt: skip

        try:
            bits = dtype_of(self.dtype).bits
        except TilecopyError:
            bits = 0
        hold("dtype", bits in (8, 16, 32, 64), "the name of a 1-, 2-, 4- or 8-byte element type")
        rank = len(items_of(self.sizes) or ())
        fits = 1 <= rank <= MOST_DIMENSIONS and among("sizes", rank, 1, 1 << 31)
        hold("sizes", fits, "one to five extents from 1 to 2**31")
        rule = "one stride per dimension except the innermost, each below 2**40 and a multiple of 16 bytes"
        hold("strides_bytes", among("strides_bytes", rank - 1, 0, (1 << 40) - 1, 16), rule)
        hold("box", among("box", rank, 1, 256), "one extent from 1 to 256 per dimension")
        hold("swizzle", isinstance(self.swizzle, str) and self.swizzle in SPANS, f"one of {', '.join(SPANS)}")
        row, span = self.box[0] * bits // 8, SPANS[self.swizzle]
        hold("box", row % 16 == 0, f"a box whose rows have a multiple of 16 bytes, not {row} bytes")
        rule = f"a box whose rows have at most {span} bytes for the swizzle {self.swizzle}, not {row} bytes"
        hold("box", not span or row <= span, rule)
        if not items_of(self.element_strides):
            object.__setattr__(self, "element_strides", (1,) * rank)
        hold("element_strides", among("element_strides", rank, 1, 8), "one integer from 1 to 8 per dimension")
        hold("fill", isinstance(self.fill, str) and self.fill in FILLS, f"one of {', '.join(FILLS)}")
        hold("fill", self.fill == "zero" or self.element[0] in "fb", f"'zero', because {self.dtype} has no NaN")

    @property
    def element(self) -> str:
        """The element type in the map, one of :data:`ELEMENTS`."""
        return self.dtype if self.dtype in ELEMENTS else f"uint{dtype_of(self.dtype).bits}"

    @property
    def element_bytes(self) -> int:
        """The number of bytes per element."""
        return dtype_of(self.dtype).bits // 8

    @property
    def span_bytes(self) -> int:
        """The distance in bytes between consecutive rows of the box in shared memory."""
        return SPANS[self.swizzle] or self.box[0] * self.element_bytes

    def fill_bytes(self, count: int) -> Any:
        """Return ``count`` bytes that repeat the fill value."""
        pair = (OUTSIDE if self.fill == "nan" else 0).to_bytes(2, "little")
        return np.frombuffer(pair * -(-count // 2), np.uint8)[:count]

    def encode(self, address: int | None = None) -> bytes:
        """Return the map as 128 bytes.

        Args:
            address: of the array, if the map has an array for its address.

        Raises:
            LaunchError: the address is not global, or not a multiple of 16.
        """
        address = self.address if address is None else address
        fits = is_whole(address, 16, (1 << 64) - 1) and address % 16 == 0
        demand("tensor_map", "address", address, fits, "a global address that is a multiple of 16 bytes")
        lists = (self.sizes, self.strides_bytes, self.box, self.element_strides)
        padded = [number for numbers in lists for number in (*numbers, 0, 0, 0, 0, 0)[:MOST_DIMENSIONS]]
        mode, atom = _MODES[self.swizzle]
        codes = list(ELEMENTS).index(self.element), len(self.sizes), mode, FILLS.index(self.fill), atom
        return _FORM.pack(TAG, *codes, address, *padded)


def tensor_map(*fields: Any, **named: Any) -> bytes:
    """Return a tensor map as 128 bytes for the emulator. Call this function instead of ``cuTensorMapEncodeTiled``.

    Raises:
        LaunchError: a field exceeds a limit of tensor maps; the message names the argument, the value and the rule.
    """
    return TensorMap(*fields, **named).encode()


def encode_map(facts: Any) -> bytes:
    """Return a tensor map as 128 bytes from an object with the attributes of a :class:`TensorMap`."""
    return TensorMap(*(getattr(facts, field.name) for field in attrs.fields(TensorMap))).encode()


@lru_cache(maxsize=256)
def decode(raw: bytes) -> TensorMap | str:
    """Decode 128 bytes to a tensor map. Return an error message for an invalid field, or "" for a missing tag."""
    tag, element, rank, mode, fill, atom, address, *rest = _FORM.unpack(raw)
    if tag != TAG:
        return ""
    sizes, strides, box, steps = (tuple(rest[5 * part : 5 * part + rank]) for part in range(4))
    dtype = dict(enumerate(ELEMENTS)).get(element, "")
    swizzle = {codes: name for name, codes in _MODES.items()}.get((mode, atom), f"mode {mode}, atomicity {atom}")
    try:
        tensor_map = TensorMap(
            address, dtype, sizes, strides[: rank - 1], box, steps, swizzle, dict(enumerate(FILLS)).get(fill, "")
        )
        tensor_map.encode()
    except LaunchError as error:
        return str(error)
    return tensor_map


class TensorMaps:
    """The tensor maps that the threads of a batch read.

    Args:
        memory: the memory that contains them.
    """

    def __init__(self, memory: GlobalAccesses) -> None:
        self.memory, self.machine = memory, memory.machine
        self.acquired: dict[int, list[tuple[int, int, Clock]]] = {}
        """Address of a map -> its acquire fences: thread, time and clock."""

    def read(self, one: Any, address: int) -> TensorMap:
        """Check and return the tensor map that one lane reads at a generic address."""
        machine = self.machine
        array, offset = self._locate(one, address)
        if array.space == "global":
            self._check_order(one, array, offset)
        tensor_map = decode(array.data[offset : offset + MAP_BYTES].tobytes())
        if isinstance(tensor_map, str):
            why = tensor_map or "create it with tilecopy_emulator.tensor_map, not with cuTensorMapEncodeTiled"
            machine.hazard(
                "descriptor", f"{array.where(offset, MAP_BYTES)} are not a tensor map of the emulator ({why})", one
            )
        if "atom" in tensor_map.swizzle and machine.program.arch < 100:
            what = f"the target must be sm_100 or newer for the swizzle {tensor_map.swizzle}, got sm_{machine.program.arch}"
            machine.hazard("descriptor", what, one)
        return tensor_map

    def _locate(self, one: Any, address: int) -> tuple[GlobalArray, int]:
        """Return the array that contains a map, and the map's offset in it."""
        machine, where = self.machine, np.full((1, 1), address, np.uint64)
        array = self.memory.array_at(one, address, where)
        offset = address - array.base
        program = machine.program
        declared = {parameter.name: parameter.align for parameter in program.parameters if array.space == "param"}
        declared |= {variable.name: variable.align for variable in program.variables if array.space == "const"}
        align = declared.get(array.name, MAP_ALIGN_BYTES)
        if address % MAP_ALIGN_BYTES or align % MAP_ALIGN_BYTES:
            why = f" ({array.name} is declared with .align {align})" if align % MAP_ALIGN_BYTES else ""
            what = f"the address 0x{address:x} of a tensor map is not a multiple of {MAP_ALIGN_BYTES} bytes{why}"
            machine.hazard("alignment", what, one)
        if not 0 <= offset <= len(array.data) - MAP_BYTES:
            self.memory.outside(one, array, np.array([[offset]]), np.array([[True]]), MAP_BYTES)
        return array, offset

    def _check_order(self, one: Any, array: GlobalArray, offset: int) -> None:
        """Check that the map was written before, with a fence of the writer and one of this CTA in between."""
        if array.shadow is None:
            return
        machine, memory = self.machine, self.memory
        offsets = np.full((1, machine.copies), offset)
        memory.check_read(array, one, offsets, MAP_BYTES, 0, None, remember=False)
        cells, _ = memory.cells(array, offsets[:, :1], MAP_BYTES)
        stamps = array.shadow.writer[cells]
        stamps = stamps[(stamps != 0) & (actor_of(stamps) < BARRIER_ACTOR)]
        if not len(stamps):
            return
        machine.demand_single()
        missing = np.ones(len(stamps), bool)
        for lane, time, clock in self.acquired.get(array.base + offset, ()):
            if self._before(lane, time, int(one[0])):
                missing &= self._release_times(clock, stamps) < time_of(stamps)
        if missing.any():
            who = machine.launch.name_of(int(actor_of(stamps[np.argmax(missing)])))
            machine.hazard(
                "proxy", f"the tensor map in {array.where(offset, MAP_BYTES)} is read by the tensormap proxy after {who} wrote it: "
                "the writer must execute fence.proxy.tensormap::generic.release, and this CTA must execute .acquire for these bytes",
                one, threads=(who,),
            )  # fmt: skip

    def _before(self, other: int, time: int, lane: int) -> bool:
        """Return True if what another lane did happens before a lane of the same CTA."""
        order, size = self.machine.order, self.machine.threads
        keys, columns = np.array([lane // size + order.first]), np.array([other % size])
        return other // size == lane // size and bool(order.known_times(np.array([lane]), keys, columns)[0] >= time)

    def _release_times(self, clock: Clock, stamps: Any) -> Any:
        """Return the time up to which a clock has the release fences of each stamp's thread."""
        at, size = self.machine.order.section_at[TENSORMAP], self.machine.threads
        actors = actor_of(stamps).tolist()
        return np.array([clock.rows[a // size][at + a % size] if a // size in clock.rows else 0 for a in actors])

    def acquire(self, lanes: Any, addresses: Any) -> None:
        """Execute ``fence.proxy.tensormap::generic.acquire`` for the map at each lane's address."""
        machine, order = self.machine, self.machine.order
        for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
            array, offset = self._locate(np.array([lane]), address)
            cells, _ = self.memory.cells(array, np.array([offset]), MAP_BYTES)
            if array.shadow is not None and array.shadow.writer[cells].any():
                machine.demand_single()
                clock = order.snapshot(np.array([lane]))
                self.acquired.setdefault(address, []).append((lane, machine.launch.time.now, clock))
        machine.launch.time.now += 1
