"""A kernel that builds is one that assemblers take: parameter bytes, tensor memory, tensor maps, and what inline PTX writes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import tilecopy as tc
from tilecopy.assemblers import available_assemblers
from tilecopy_test_helpers.mentions import mentions


def assembled(kernel: tc.BuiltKernel) -> tc.BuiltKernel:
    """The kernel, whose text every installed assembler takes."""
    for name in available_assemblers():
        assert kernel.cubin(name)
    return kernel


# ----------------------------------------------------------------------------------------------------- parameter bytes


def with_parameters(arrays: int, scalars: int = 0) -> tc.BuiltKernel:
    k = tc.KernelBuilder("many", threads=32)
    for number in range(scalars):
        k.scalar(f"n{number}")
    for number in range(arrays):
        k.param(f"A{number}", (32,), "float32")
    return k.build(target="sm_90", grid=1)


@pytest.mark.parametrize(("arrays", "scalars"), [(544, 0), (543, 2)])
def test_parameters_of_4352_bytes_need_no_newer_version(arrays: int, scalars: int) -> None:
    assert with_parameters(1).ptx.split("\n")[0] == assembled(with_parameters(arrays, scalars)).ptx.split("\n")[0]


@pytest.mark.parametrize(("arrays", "scalars"), [(545, 0), (543, 3), (544, 1), (4095, 0), (4094, 2)])
def test_more_parameters_need_a_newer_version(arrays: int, scalars: int) -> None:
    assert assembled(with_parameters(arrays, scalars)).ptx.startswith(".version 8.1\n")


@pytest.mark.parametrize(("arrays", "scalars", "total"), [(4096, 0, 32_768), (4095, 1, 32_768)])
def test_parameters_that_no_kernel_takes_are_refused(arrays: int, scalars: int, total: int) -> None:
    with pytest.raises(tc.PtxError, match="32,764") as caught:
        with_parameters(arrays, scalars)
    assert f"{total:,}" in str(caught.value)


@pytest.mark.parametrize(("arrays", "version"), [(32, "8.0"), (48, "8.1")])
def test_tensor_maps_count_with_their_alignment(arrays: int, version: str) -> None:
    """32 maps take 4,096 bytes behind the arrays, at a multiple of 64."""
    k = tc.KernelBuilder("maps", threads=32)
    params: list[Any] = [k.param(f"A{number}", (64, 64), "float16") for number in range(arrays)]
    tile, full = k.shared((64, 64), "float16", align_bytes=128), k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        for array in params[:32]:
            k.thread.copy_async(tile[0:32, 0:32], array[0:32, 0:32], mbar=full[0], variant="tma")
    kernel = assembled(k.build(target="sm_90", grid=1))
    assert kernel.ptx.startswith(f".version {version}\n")


# --------------------------------------------------------------------------------------------------------- tensor maps

ATOMS = {32: (5, 2, 2), 64: (6, 1, 1)}
"""Bytes of an atom -> per_element (for bytes), swizzle_len and atom_len of the 128-byte swizzle with such atoms."""


def swizzled(atom_bytes: int, variant: str, target: str) -> tc.BuiltKernel:
    per_element, swizzle_len, atom_len = ATOMS[atom_bytes]
    k = tc.KernelBuilder("atoms", threads=32)
    array = k.param("A", (64, 64), "float16")
    layout = tc.SwizzledLayout(tc.Swizzle(per_element - 1, swizzle_len, atom_len), tc.TileLayout(tc.S[64, 64]))
    tile, full = k.shared((64, 64), "float16", layout=layout, align_bytes=1024), k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        if variant == "tma":
            k.thread.copy_async(tile[:, :], array[:, :], mbar=full[0], variant=variant)
        else:
            k.thread.copy_async(array[:, :], tile[:, :], variant=variant)
    return k.build(target=target, grid=1)


@pytest.mark.parametrize("atom_bytes", ATOMS)
@pytest.mark.parametrize("variant", ["tma", "tma_store"])
def test_a_tensor_map_says_what_its_swizzle_needs(atom_bytes: int, variant: str) -> None:
    for target in ("sm_100", "sm_100a", "sm_120a"):
        assert ".target sm_100\n" in assembled(swizzled(atom_bytes, variant, target)).ptx
    for target in ("sm_90", "sm_90a"):
        with pytest.raises(tc.NoVariantError, match=mentions(variant, target)) as caught:
            swizzled(atom_bytes, variant, target)
        assert target in caught.value.declined[variant]


# ---------------------------------------------------------------------------------------------------------- inline PTX


def builder(threads: int = 32) -> tc.KernelBuilder:
    return tc.KernelBuilder("inline", threads=threads)


def value(k: tc.KernelBuilder) -> Any:
    return k.load(k.param("A", (32,), "float32")[k.thread_id()])


WRITES: dict[str, tuple[str, Any]] = {
    "an id": ("add.s32 {0}, {0}, 1;", lambda k: k.thread_id()),
    "a value": ("mul.f32 {0}, {0}, {0};", value),
    "under a guard": ("{{ .reg .pred p; setp.eq.u32 p, 0, 0; @p add.f32 {0}, {0}, {0}; }}", value),
    "a vector": ("{{ .reg .b32 x; mov.b64 {{x, {0}}}, 7; }}", lambda k: k.lane_id()),
    "a pair": ("{{ .reg .pred p; shfl.sync.idx.b32 {0}|p, 1, 2, 31, -1; }}", lambda k: k.lane_id()),
    "a load": ("{{ .reg .b64 a; mov.b64 a, 64; ld.global.b32 {0}, [a]; }}", lambda k: k.lane_id()),
    "an atomic": ("{{ .reg .b64 a; mov.b64 a, 64; atom.global.add.u32 {0}, [a], 1; }}", lambda k: k.lane_id()),
    "a barrier's result": (
        "{{ .reg .pred p; setp.eq.u32 p, 0, 0; barrier.red.popc.u32 {0}, 0, p; }}",
        lambda k: k.lane_id(),
    ),
    "tensor memory's": (
        "{{ .reg .b32 a; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{{0}}}, [a]; }}",
        lambda k: k.lane_id(),
    ),
    "a fragment": ("mov.b32 {0}, 0;", lambda k: k.registers(k.local((1,), "float32"))[:]),
    "a number": ("add.s32 {0}, {0}, 1;", lambda k: 3),
    "with no space": ("mov.b32{0}, 1;", lambda k: k.thread_id()),
    "after a comment": ("mov.b32/* */{0},1;", lambda k: k.thread_id()),
    "a predicate": ("@{0} nanosleep.u32 1;", lambda k: k.thread_id()),
    "an opcode": ("{0} 1;", lambda k: k.thread_id()),
    "a declaration": (".reg .b32 {0};", lambda k: k.thread_id()),
    "a call's result": ("call ({0}), f, (1);", lambda k: k.thread_id()),
    "an address with no brackets": ("prefetch.global.L2 {0};", lambda k: k.address(k.param("A", (32,), "float32")[0])),
    "in the second line": ("nanosleep.u32 1;\nmov.u32 {0},\n 1;", lambda k: k.warp_id() + 1),
}


@pytest.mark.parametrize("what", WRITES)
def test_inline_ptx_writes_what_out_names_alone(what: str) -> None:
    text, operand = WRITES[what]
    k = builder(64)
    with pytest.raises(tc.RequestError, match="test_assembler_limits"):
        k.inline_ptx(text, operand(k))


@pytest.mark.parametrize(
    "text",
    [
        "mov.b32 %r0, 1;",
        "mov.b32 x, 1;",
        "{{ .reg .b32 x; mov.b32 x, 1; }} mov.b32 x, 2;",
        "{{ .reg .b32 x; mov.b32 x, y; }}",
        "{{ .reg .b32 x; ld.global.b32 x, [at]; }}",
        "@p nanosleep.u32 1;",
        "@!%p0 nanosleep.u32 1;",
        "bra nowhere;",
        "frobnicate.b32 %r1;",
        "mov.u32 %tid.x, 1;",
        "mov.u32 %laneid, 1;",
    ],
)
def test_inline_ptx_names_what_is_declared_alone(text: str) -> None:
    with pytest.raises(tc.RequestError, match="test_assembler_limits"):
        builder().inline_ptx(text)


@pytest.mark.parametrize(
    "texts",
    [
        ["{{ .reg .b32 %r<4>; mov.b32 %r1, 1; }}"],
        [".reg .b32 x; .reg .b32 x;"],
        [".reg .b32 x;", ".reg .b32 x;"],
        ["AGAIN: nanosleep.u32 1;", "AGAIN: nanosleep.u32 2;"],
        ["{{ .reg .b32 x; mov.b32 x, 1;"],
        ["mov.b32 x, 1; }}"],
        ["nanosleep.u32 1"],
    ],
)
def test_inline_ptx_is_text_that_the_kernel_can_hold(texts: list[str]) -> None:
    k = builder()
    for text in texts[:-1]:
        k.inline_ptx(text)
    with pytest.raises(tc.RequestError, match="test_assembler_limits"):
        k.inline_ptx(texts[-1])


@pytest.mark.parametrize(
    "text",
    ["st.global.f32 [{0}], 0f00000000;", "st.global.f32 [{0} + 4], 0f00000000;", "{{ .reg .b64 x; mov.b64 x, {0}; }}"],
)
def test_an_element_is_an_address_with_its_brackets(text: str) -> None:
    k = builder()
    with pytest.raises(tc.RequestError, match="test_assembler_limits"):
        k.inline_ptx(text, k.param("A", (32,), "float32")[3])


def test_what_inline_ptx_may_say() -> None:
    """Declared names, special registers, parameters and shared buffers by their names, constants, and text that goes on."""
    k = builder()
    a, fragment = k.param("A", (32,), "float32"), k.local((2,), "float32")
    tile = k.shared((32,), "float32", name="tile")
    k.store(tile[k.thread_id()], 1.0)
    k.inline_ptx(".reg .b32 kept; .reg .pred even;\nmov.u32 kept, %laneid;")
    k.inline_ptx("and.b32 kept, kept, WARP_SZ; setp.eq.u32 even, kept, 0x0;")
    k.inline_ptx("@even bra SKIP; nanosleep.u32 0xff; SKIP:")
    k.inline_ptx("{{ .reg .b64 at; .reg .b32 word<2>; ld.param.u64 at, [param_A]; mov.u32 word1, smem_tile; }}")
    k.inline_ptx(
        "{{ .reg .f32 x; ld.shared.f32 x, {0}; st.global.f32 {1}, x; }}", tile[k.thread_id()], a[k.thread_id()]
    )
    k.inline_ptx("mov.b32 {1}, {0}; add.f32 {2}, {1}, 0f3F800000;", k.load(a[0]), out=[fragment[0], fragment[1]])
    k.inline_ptx("{{ .reg .pred p; shfl.sync.idx.b32 {0}|p, {0}, 2, 31, -1; elect.sync _|p, -1; }}", out=[fragment[0]])
    k.store(a[k.thread_id()], k.load(fragment[1]))
    assembled(k.build(target="sm_90a", grid=1))


def test_a_shared_buffer_is_a_variable_in_static_memory_alone() -> None:
    k = builder()
    k.shared((100, 128), "float32", name="tile")
    k.inline_ptx("{{ .reg .b32 x; mov.u32 x, smem_tile; }}")
    with pytest.raises(tc.RequestError, match=r"smem_tile[\s\S]*test_assembler_limits"):
        k.build(target="sm_90", grid=1)


def unknown(opcode: str) -> tuple[tc.BuiltKernel, str]:
    k = builder()
    fragment = k.local((1,), "float32")
    tid = k.thread_id()
    k.store(fragment[0], 1.0)
    k.inline_ptx(f"{opcode} {{0}}, {{1}};", tid, fragment[:])
    kernel = k.build(target="sm_90a", grid=1)
    return kernel, next(line.strip() for line in kernel.ptx.splitlines() if opcode in line)


@pytest.mark.parametrize(
    ("opcode", "nearest"), [("ad.s32", "add.s32"), ("mov.b23", "mov.b32"), ("mul.s32", "mul.lo.s32")]
)
def test_an_unknown_opcode_gets_copies_and_a_note(opcode: str, nearest: str) -> None:
    kernel, line = unknown(opcode)
    assert opcode in kernel.explain() and nearest in kernel.explain()
    for name in line.split(" ", 1)[1].strip(";").split(", "):
        assert kernel.ptx.count(f"{name},") + kernel.ptx.count(f"{name};") == 2, "written by a mov, read by the text"


def test_known_opcodes_get_their_operands_themselves() -> None:
    k = builder()
    k.inline_ptx("nanosleep.u32 {0};", k.thread_id())
    kernel = k.build(target="sm_90a", grid=1)
    assert kernel.notes == () and kernel.ptx.count("mov.") == 1


# ------------------------------------------------------------------------------------------------------- tensor memory


def tensor_kernel(buffers: int = 1, threads: int = 128) -> tuple[tc.KernelBuilder, list[tc.Buffer]]:
    k = tc.KernelBuilder("tensors", threads=threads)
    layout = tc.TileLayout(tc.S[(32, 16) : (1 @ tc.TLane, 1 @ tc.TCol)] + tc.R[4 : 32 @ tc.TLane])
    return k, [k.tmem((32, 16), "uint8", layout=layout) for _ in range(buffers)]


def allocated(buffers: int, **options: Any) -> tc.KernelBuilder:
    k, tensors = tensor_kernel(buffers)
    with k.if_(k.warp_id() == 0):
        for tensor in tensors:
            k.tcgen05_alloc(tensor, **options)
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        for tensor in tensors:
            k.tcgen05_dealloc(tensor)
    return k


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_a_kernel_relinquishes_once_after_its_last_allocation(buffers: int) -> None:
    kernel = assembled(allocated(buffers).build(target="sm_100a", grid=1))
    opcodes = [line.split()[0] for line in kernel.ptx.splitlines() if line.startswith("\ttcgen05")]
    names = [opcode.split(".")[1] for opcode in opcodes]
    assert names == ["alloc"] * buffers + ["relinquish_alloc_permit"] + ["dealloc"] * buffers
    kernel(executor="emulator")


def test_an_allocation_in_a_loop_keeps_the_permission() -> None:
    k, (tensor,) = tensor_kernel()
    with k.if_(k.warp_id() == 0), k.range(3):
        k.tcgen05_alloc(tensor)
        k.warp_sync()
        k.tcgen05_dealloc(tensor)
        k.warp_sync()
    assembled(k.build(target="sm_100a", grid=1))(executor="emulator")


def test_a_kernel_has_one_cta_group() -> None:
    """What says nothing has the group of the others; copies, too."""
    kernel = assembled(allocated(2, cta_group=2).build(target="sm_100a", grid=2, cluster=2))
    assert "cta_group::1" not in kernel.ptx and kernel.ptx.count("cta_group::2") == 5
    k, (tensor,) = tensor_kernel()
    tile, done = k.shared((32, 16), "uint8", align_bytes=128), k.mbarrier("done")
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(tensor)
    k.cta_sync()
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(tensor[:, :], tile[:, :])
        k.tcgen05_commit(done, cta_group=2)
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(tensor)
    kernel = assembled(k.build(target="sm_100a", grid=2, cluster=2))
    assert "cta_group::1" not in kernel.ptx and "tcgen05.cp.cta_group::2" in kernel.ptx


SECOND_GROUPS: dict[str, Any] = {
    "alloc": lambda k, tensor, tile, done: k.tcgen05_alloc(tensor, cta_group=1),
    "dealloc": lambda k, tensor, tile, done: k.tcgen05_dealloc(tensor, cta_group=1),
    "commit": lambda k, tensor, tile, done: k.tcgen05_commit(done, cta_group=1),
    "copy": lambda k, tensor, tile, done: k.thread.copy_async(tensor[:, :], tile[:, :], cta_group=1),
    "inline": lambda k, tensor, tile, done: k.inline_ptx("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"),
}


@pytest.mark.parametrize("second", SECOND_GROUPS)
def test_a_second_cta_group_is_refused(second: str) -> None:
    k, (tensor,) = tensor_kernel()
    tile, done = k.shared((32, 16), "uint8", align_bytes=128), k.mbarrier("done")

    def build() -> None:
        with k.if_(k.thread_id() == 0):
            SECOND_GROUPS[second](k, tensor, tile, done)
        k.build(target="sm_100a", grid=2, cluster=2)

    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(tensor, cta_group=2)
    with pytest.raises(tc.TilecopyError, match="cta_group"):
        build()


# ----------------------------------------------------------------------------------------------------------- registers


def held(registers: int, threads: int, **options: Any) -> tc.BuiltKernel:
    """A copy through fragments of some registers a thread."""
    k = tc.KernelBuilder("held", threads=threads)
    a, b = (k.param(name, (threads, registers), "float32") for name in "AB")
    layout = tc.TileLayout(tc.S[(threads, registers) : (1 @ tc.tx, 1)])
    fragment = k.local((threads, registers), "float32", layout=layout)
    k.cta.copy(fragment[:, :], a[:, :])
    k.cta_sync()
    k.cta.copy(b[:, :], fragment[:, :])
    return k.build(target="sm_90a", grid=1, **options)


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")
@pytest.mark.parametrize("assembler", available_assemblers())
def test_what_a_kernel_takes(assembler: str) -> None:
    few, many = held(16, 128).resources(assembler), held(200, 1024).resources(assembler)
    assert 16 <= few.registers <= 64 and few.spill_bytes == few.shared_bytes == 0
    assert many.registers == 64 and many.spill_bytes >= 4 * (200 - 64)
    k = tc.KernelBuilder("shared", threads=32)
    tile, a = k.shared((50, 128), "float32"), k.param("A", (50, 128), "float32")
    k.warp.copy(tile[:, :], a[:, :])
    kernel = k.build(target="sm_90a", grid=1)
    assert kernel.resources(assembler).shared_bytes == kernel.shared_bytes == 50 * 128 * 4


def test_shared_memory_of_the_pool_counts() -> None:
    k = tc.KernelBuilder("pool", threads=32)
    tile, a = k.shared((100, 128), "float32"), k.param("A", (100, 128), "float32")
    k.warp.copy(tile[:, :], a[:, :])
    kernel = k.build(target="sm_90a", grid=1)
    assert kernel.dynamic_shared and kernel.resources().shared_bytes == 100 * 128 * 4


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")
def test_explain_says_that_a_kernel_spills() -> None:
    kernel = held(200, 1024)
    assert f"spills {kernel.resources().spill_bytes} bytes" in kernel.explain()
    assert "spills" not in held(16, 128).explain()


def test_without_an_assembler_resources_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = held(16, 128)
    monkeypatch.setattr("tilecopy.assemblers.ASSEMBLERS", ())
    with pytest.raises(tc.AssemblerError):
        kernel.resources()
    assert kernel.explain()


@pytest.mark.parametrize(
    ("registers", "threads", "ctas", "most"),
    [
        (128, 1024, None, 64),
        (64, 1024, None, None),
        (128, 512, None, None),
        (132, 512, 1, 128),
        (128, 256, 4, 64),
        (64, 256, 4, None),
    ],
)
def test_notes_know_the_registers_that_a_thread_has(
    registers: int, threads: int, ctas: int | None, most: int | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.PerformanceWarning)
        kernel = held(registers, threads, min_ctas_per_sm=ctas)
    for plan in kernel.plans:
        notes = [note.text for note in plan.notes if note.kind == "registers"]
        assert len(notes) == (most is not None) and all(
            f" {most} " in text and str(registers) in text for text in notes
        )
