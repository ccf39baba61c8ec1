"""Arguments of ``run_ptx`` and ``run_cuda``: structures, pointers in them, and arguments of the wrong kind."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from tilecopy import LaunchError
from tilecopy_emulator import Pointer, Struct, TensorMap, run_ptx
from tilecopy_test_helpers.mentions import mentions

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def run(parameters, body, arguments, *, name="k", **more):
    """Run one thread of a kernel whose body may use the registers %r0 to %r9, %d0 to %d9 and %h0 to %h9."""
    registers = ".reg .b32 %r<10>; .reg .b64 %d<10>; .reg .b16 %h<10>; .reg .f64 %f<4>;"
    text = f"{HEAD}.visible .entry {name}({parameters}) {{ {registers} {body} ret; }}"
    return run_ptx(text, arguments, grid=1, block=1, **more)


CONFIG = ".param .align 8 .b8 config[24]"
COPY_ONE = "ld.param.u64 %d1, [config]; ld.param.u32 %r1, [config+8]; ld.param.f64 %f1, [config+16]; cvt.rni.s32.f64 %r2, %f1; mad.wide.u32 %d2, %r1, 4, %d1; st.global.u32 [%d2], %r2;"


def test_a_structure_holds_a_pointer_and_numbers():
    y = np.zeros(8, np.int32)
    run(CONFIG, COPY_ONE, [Struct(Pointer(y), 5, np.float64(9))])
    assert y.tolist() == [0, 0, 0, 0, 0, 9, 0, 0]


def test_a_field_lies_where_a_compiler_puts_it():
    fields = (np.int8(1), np.int16(2), 3, np.float64(4), True, Struct(np.int8(5), 6), np.array([7, 8], np.int16), None)
    wanted = struct.pack("=bxhid?xxxbxxxihhQ", 1, 2, 3, 4, True, 5, 6, 7, 8, 0)
    assert len(wanted) == 40
    out = np.zeros(5, np.uint64)
    body = "ld.param.u64 %d1, [y];" + "".join(
        f"ld.param.u64 %d2, [config+{8 * k}]; st.global.u64 [%d1+{8 * k}], %d2;" for k in range(5)
    )
    run(".param .u64 y, .param .align 8 .b8 config[40]", body, [out, Struct(*fields)])
    assert out.tobytes() == wanted


def test_an_array_in_two_places_is_one_array():
    x = np.zeros(2, np.int32)
    body = "ld.param.u64 %d1, [config]; ld.param.u64 %d2, [x]; st.global.u32 [%d1], 3; ld.global.u32 %r1, [%d2+-4]; st.global.u32 [%d2], %r1;"
    run(".param .align 8 .b8 config[8], .param .u64 x", body, [Struct(Pointer(x)), x[1:]])
    assert x.tolist() == [3, 3]


def test_a_pointer_to_pointers_and_an_array_of_structures():
    a, b = np.full(1, 11, np.int32), np.zeros(1, np.int32)
    body = "ld.param.u64 %d1, [p]; ld.global.u64 %d2, [%d1]; ld.global.u32 %r1, [%d2]; ld.global.u64 %d3, [%d1+{}]; st.global.u32 [%d3], %r1;"
    for argument, offset in (
        ([Pointer(a), Pointer(b)], 8),
        (Pointer([Pointer(a), Pointer(b)]), 8),
        ([Struct(Pointer(a), 1), Struct(Pointer(b), 2)], 16),
        (Pointer(Struct(Pointer(a), Pointer(b))), 8),
    ):
        b[0] = 0
        run(".param .u64 p", body.format(offset), [argument])
        assert b[0] == 11


def test_null_is_none():
    y = np.ones(1, np.uint64)
    body = "ld.param.u64 %d1, [y]; ld.param.u64 %d2, [p]; st.global.u64 [%d1], %d2;"
    run(".param .u64 y, .param .u64 p", body, [y, None])
    assert y[0] == 0


def test_a_tensor_map_for_an_address_lies_in_global_memory():
    x, y = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(1, np.float32)
    body = """
    .shared .align 128 .b8 tile[128]; .shared .align 8 .b8 bar[8]; .reg .pred %p<2>;
    mov.u32 %r1, tile; mov.u32 %r2, bar; ld.param.u64 %d1, [map]; ld.param.u64 %d2, [y];
    mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 32;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d1, {4, 2}], [%r2];
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra WAIT;
    ld.shared.b32 %r3, [%r1+16]; st.global.b32 [%d2], %r3;
    """
    map = TensorMap(x, "float32", sizes=(8, 8), strides_bytes=(32,), box=(4, 2))
    for argument in (map, Pointer(map)):
        y[0] = 0
        run(".param .u64 map, .param .u64 y", body, [argument, y])
        assert y[0] == 28


@pytest.mark.parametrize(
    ("name", "bits"),
    [("_Z1k6__halfPt", 0x3800), ("_Z1k13__nv_bfloat16Pt", 0x3F00), ("_Z1k6__halfPS_", 0x3800)],
)
def test_a_number_for_a_half_or_a_bfloat16(name, bits):
    y = np.zeros(1, np.uint16)
    body = "ld.param.u16 %h1, [h]; ld.param.u64 %d1, [y]; st.global.u16 [%d1], %h1;"
    run(".param .align 2 .b8 h[2], .param .u64 y", body, [0.5, y], name=name)
    assert y[0] == bits


@pytest.mark.parametrize(
    ("parameters", "argument", "values"),
    [
        (CONFIG, np.zeros(6, np.float32), ("config", "float32", 24)),
        (CONFIG, Struct(Pointer(np.zeros(4)), 5), ("config", 24, 16)),
        (CONFIG, Struct(Pointer(3), 5, np.float64(1)), ("config.0", 3)),
        (CONFIG, Struct("text"), ("config.0", "text")),
        (CONFIG, Struct(1 << 40), ("config.0", 1 << 40)),
        (CONFIG, b"123", ("config", 3, 24)),
        (".param .u32 n", np.zeros(3), ("n", "u32")),
        (".param .u32 n", None, ("n", "u32")),
        (".param .u64 p", Struct(1), ("p", "u64")),
        (".param .u64 p", [np.zeros(3)], ("p[0]",)),
        (".param .align 2 .b8 h[2]", 0.5, ("h", 0.5)),
        (".param .align 2 .b8 h[2]", np.zeros(2, np.float16), ("h", 2)),
    ],
)
def test_an_argument_of_the_wrong_kind_is_told_by_its_number_and_name(parameters, argument, values):
    with pytest.raises(LaunchError, match=mentions("argument 0", *values)):
        run(parameters, "", [argument])


VARIABLES = """
.const .align 4 .b8 w[8]; .global .align 4 .u32 counter; .global .f32 scale = 0f40000000; .global .align 8 .b8 _ZN1a6configE[16];
"""


def run_with_variables(body, variables=None, y=None):
    y = np.zeros(4, np.uint32) if y is None else y
    registers = ".reg .b32 %r<10>; .reg .b64 %d<10>; ld.param.u64 %d1, [y];"
    text = f"{HEAD}{VARIABLES}.visible .entry k(.param .u64 y) {{ {registers} {body} ret; }}"
    return run_ptx(text, [y], grid=1, block=1, variables=variables), y


def test_variables_of_the_module_are_set_and_come_back():
    body = """
    ld.const.u32 %r1, [w+4]; st.global.u32 [%d1], %r1; ld.global.u32 %r2, [counter]; add.u32 %r2, %r2, 1; st.global.u32 [counter], %r2;
    ld.global.u64 %d2, [_ZN1a6configE]; ld.global.u32 %r3, [_ZN1a6configE+8]; st.global.u32 [%d2+4], %r3;
    """
    weights, y = np.array([1.5, 2.5], np.float32), np.zeros(4, np.uint32)
    for name in ("config", "a::config", "_ZN1a6configE"):
        y[:] = 0
        report, _ = run_with_variables(body, {"w": weights, "counter": 7, name: Struct(Pointer(y), np.int64(9))}, y)
        assert y[:1].view(np.float32) == 2.5 and y[1] == 9
        assert report.variables["counter"].tolist() == [8] and report.variables["scale"].tolist() == [2.0]
        assert np.array_equal(report.variables["w"], weights) and report.variables["a::config"].nbytes == 16
        assert report.notes == ()


def test_reading_a_variable_without_a_value_is_noted_once():
    read = "ld.global.u32 %r1, [counter]; ld.const.u32 %r2, [w]; ld.const.u32 %r2, [w+4]; ld.global.u32 %r3, [scale];"
    report, _ = run_with_variables(read)
    assert len(report.notes) == 2
    assert ["counter" in note for note in report.notes] == [True, False] and "w" in report.notes[1]
    assert run_with_variables(read, {"counter": 0, "w": bytes(8)})[0].notes == ()
    assert run_with_variables("st.global.u32 [counter], 1; " + read, {"w": bytes(8)})[0].notes == ()
    assert run_with_variables("atom.global.add.u32 %r1, [counter], 1;")[0].notes == ()


@pytest.mark.parametrize(
    ("variables", "values"),
    [
        ({"none": 1}, ("none", "w, counter, scale, a::config")),
        ({"w": np.zeros(3, np.float32)}, ("w", 8, 12)),
        ({"w": 1}, ("w", 8, 4)),
        ({"counter": 1.5}, ("counter", 1.5)),
        ({"counter": 1 << 32}, ("counter", 1 << 32)),
        ({"a::config": Struct(3)}, ("a::config", 16, 4)),
        ({3: 1}, ("variables",)),
        ([("w", 1)], ("variables",)),
    ],
)
def test_a_value_that_does_not_fit_its_variable_is_refused(variables, values):
    with pytest.raises(LaunchError, match=mentions(*values)):
        run_with_variables("", variables)


@pytest.mark.parametrize(
    ("name", "argument", "values"),
    [
        ("_Z1kPf", np.zeros(4), ("float64",)),
        ("_Z1kPKf", np.zeros(4, np.int32), ("int32",)),
        ("_ZN1a1b1kEPi", np.zeros(4, np.int64), ("int64",)),
        ("_Z1kPi", 5, (5,)),
        ("_Z1km", np.zeros(4, np.int64), ()),
        ("_Z1kP6__half", np.zeros(4, np.float32), ("float32",)),
    ],
)
def test_an_argument_that_the_kernel_s_name_does_not_fit_is_refused(name, argument, values):
    with pytest.raises(LaunchError, match=mentions("argument 0", "p", *values)):
        run(".param .u64 p", "", [argument], name=name)


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("_Z1kPj", np.zeros(4, np.int32)),
        ("_Z1kPf", np.zeros(4, np.uint8)),
        ("_Z1kPf", None),
        ("_Z1kPt", np.zeros(4, np.float16)),
        ("_Z1kPv", np.zeros(4)),
        ("_Z1kP6float4", np.zeros(4)),
        ("_Z1kIfEvPT_", np.zeros(4)),
        ("_Z1kPf", np.zeros(4, np.complex64)),
        ("_Z1kl", 5),
        ("k", np.zeros(4)),
    ],
)
def test_an_argument_that_the_kernel_s_name_leaves_open_is_taken(name, argument):
    run(".param .u64 p", "", [argument], name=name)


def test_a_type_that_a_name_repeats_is_known():
    y = np.zeros(2, np.uint16)
    body = "ld.param.u16 %h1, [a]; ld.param.u64 %d1, [y]; st.global.u16 [%d1], %h1; ld.param.u16 %h1, [b]; st.global.u16 [%d1+2], %h1;"
    parameters = ".param .align 2 .b8 a[2], .param .align 2 .b8 b[2], .param .u64 y"
    for name, bits in (
        ("_Z1k13__nv_bfloat16S_Pt", [0x3F80, 0x4000]),
        ("_Z1k6__half13__nv_bfloat16Pt", [0x3C00, 0x4000]),
    ):
        run(parameters, body, [1, 2.0, y], name=name)
        assert y.tolist() == bits


@pytest.mark.parametrize(
    ("type", "numbers", "dtype"),
    [
        ("6float3", (1, 2.5, -3), np.float32),
        ("7double2", (1, 0.1), np.float64),
        ("6uchar4", (1, 2, 255, 4), np.uint8),
        ("6short2", (-1, 2), np.int16),
        ("9longlong1", (-5,), np.int64),
        ("4dim3", (1, 2, 3), np.uint32),
    ],
)
def test_the_components_of_a_vector_type_have_its_type(type, numbers, dtype):
    expected = np.array(numbers, dtype)
    y = np.zeros(16, np.uint8)
    body = "ld.param.u64 %d1, [y]; " + " ".join(
        f"ld.param.u8 %h1, [v+{at}]; st.global.u8 [%d1+{at}], %h1;" for at in range(expected.nbytes)
    )
    run(f".param .b8 v[{expected.nbytes}], .param .u64 y", body, [Struct(*numbers), y], name=f"_Z1k{type}Ph")
    assert y[: expected.nbytes].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("type", "fields", "values"),
    [("6float3", (1, 2), ("float3", 3, 2)), ("4int2", (1, 2.5), (2.5,)), ("6uchar4", (1, 2, 3, 256), (256,))],
)
def test_components_that_do_not_fit_a_vector_type_are_refused(type, fields, values):
    nbytes = {"6float3": 12, "4int2": 8, "6uchar4": 4}[type]
    with pytest.raises(LaunchError, match=mentions("v", *values)):
        run(f".param .b8 v[{nbytes}]", "", [Struct(*fields)], name=f"_Z1k{type}")
