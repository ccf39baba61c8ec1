"""Arguments on the command line of ``tilecopy emulate``: literals, variables that are set, and what is saved."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from tilecopy_emulator.command import emulate

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .b8 w[8];
.global .align 4 .u32 counter;
"""


def run(tmp_path, parameters, body, *words, name="k"):
    registers = ".reg .b16 %h<4>; .reg .b32 %r<10>; .reg .b64 %d<10>;"
    text = f"{HEAD}.visible .entry {name}({parameters}) {{ {registers} {body} ret; }}"
    (tmp_path / "k.ptx").write_text(text)
    return CliRunner().invoke(emulate, [str(each) for each in (tmp_path / "k.ptx", "--block", 1, *words)])


def bytes_of(tmp_path, word, size):
    """The bytes of a structure that a word means, as a kernel sees them."""
    body = "ld.param.u64 %d1, [y];" + "".join(
        f"ld.param.u8 %r1, [p+{at}]; st.global.u8 [%d1+{at}], %r1;" for at in range(size)
    )
    parameters = f".param .u64 y, .param .align 8 .b8 p[{size}]"
    done = run(tmp_path, parameters, body, f"zeros:uint8:{size}", word, "--save", f"y={tmp_path / 'y.npy'}")
    assert done.exit_code == 0, done.output
    return np.load(tmp_path / "y.npy").tobytes()


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("{3, 0.25}", struct.pack("=if", 3, 0.25)),
        ("{}", b"\0"),
        ("struct:3,0.25,-1", struct.pack("=ifi", 3, 0.25, -1)),
        ("{int64:3,float16:0.5,int8:-1,bool:1}", struct.pack("=qeb?xxxx", 3, 0.5, -1, True)),
        ("{{1,int8:2},{3},null}", struct.pack("=ibxxxixxxxQ", 1, 2, 3, 0)),
        ("bytes:00ff10", b"\x00\xff\x10"),
        ("bfloat16:0.1", np.array(0.1).astype(ml_dtypes.bfloat16).tobytes()),
    ],
)
def test_structures(tmp_path, word, wanted):
    assert bytes_of(tmp_path, word, len(wanted)) == wanted


COPY = """
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y];
    ld.global.u32 %r1, [%d1]; ld.global.u32 %r2, [%d1+4]; st.global.u32 [%d2], %r1; st.global.u32 [%d2+4], %r2;
"""


@pytest.mark.parametrize(
    ("word", "least", "most"),
    [
        ("full:int32:2:-7", -7, -7),
        ("full:int32:2:0x10", 16, 16),
        ("randint:int32:2:5", 0, 4),
        ("randint:int32:2:-20:-10", -20, -11),
        ("randint:int32:2:100:200:7", 100, 199),
        ("random:int32:2:3", 0, (1 << 31) - 1),
    ],
)
def test_arrays_of_one_value_and_of_random_integers(tmp_path, word, least, most):
    words = [word, "zeros:int32:2", "--save", f"1={tmp_path / 'y.npy'}"]
    results = []
    for _ in range(2):
        assert run(tmp_path, ".param .u64 x, .param .u64 y", COPY, *words).exit_code == 0
        results.append(np.load(tmp_path / "y.npy").tolist())
    assert results[0] == results[1] and all(least <= each <= most for each in results[0])


def test_a_seed_changes_random_numbers(tmp_path):
    results = set()
    for word in (
        "randint:int32:2:0:1000000000",
        "randint:int32:2:0:1000000000:1",
        "random:int32:2",
        "random:int32:2:1",
    ):
        words = [word, "zeros:int32:2", "--save", f"1={tmp_path / 'y.npy'}"]
        assert run(tmp_path, ".param .u64 x, .param .u64 y", COPY, *words).exit_code == 0
        results.add(np.load(tmp_path / "y.npy").tobytes())
    assert len(results) == 4


def test_a_half_by_value_and_null(tmp_path):
    body = "ld.param.u64 %d1, [y]; ld.param.u16 %h1, [h]; ld.param.u64 %d2, [p]; st.global.u64 [%d1], %d2; st.global.u16 [%d1+2], %h1;"
    parameters = ".param .u64 y, .param .align 2 .b8 h[2], .param .u64 p"
    for word, name in (("0.5", "_Z1kPt6__halfPf"), ("float16:0.5", "k")):
        words = ["ones:uint16:4", word, "null", "--save", f"0={tmp_path / 'y.npy'}"]
        assert run(tmp_path, parameters, body, *words, name=name).exit_code == 0
        assert np.load(tmp_path / "y.npy").tolist() == [0, 0x3800, 0, 0]


def test_arrays_in_structures_are_saved_by_the_number_of_the_field(tmp_path):
    body = """
    ld.param.u64 %d1, [p]; ld.param.u64 %d2, [p+8]; ld.global.u32 %r1, [%d1]; st.global.u32 [%d2], %r1;
    ld.param.u64 %d3, [q]; ld.global.u64 %d4, [%d3+8]; st.global.u32 [%d4], 8;
    """
    words = ["struct:full:int32:1:5,zeros:int32:1", "[zeros:int32:1,zeros:int32:2x1]"]
    saves = ["--save", f"p.1={tmp_path / 'a.npy'}", "--save", f"1.1={tmp_path / 'b.npy'}"]
    done = run(tmp_path, ".param .align 8 .b8 p[16], .param .u64 q", body, *words, *saves)
    assert done.exit_code == 0, done.output
    assert np.load(tmp_path / "a.npy").tolist() == [5] and np.load(tmp_path / "b.npy").tolist() == [[8], [0]]


def test_variables_are_set_and_saved(tmp_path):
    body = "ld.const.u32 %r1, [w+4]; ld.global.u32 %r2, [counter]; add.u32 %r1, %r1, %r2; st.global.u32 [counter], %r1;"
    np.save(tmp_path / "w.npy", np.array([3, 4], np.int32))
    save = ["--save", f"counter={tmp_path / 'c.npy'}"]
    for value in (f"w={tmp_path / 'w.npy'}", "w={3,4}", "w=full:int32:2:4"):
        done = run(tmp_path, "", body, "--set", value, "--set", "counter=30", *save)
        assert done.exit_code == 0 and "note" not in done.output, done.output
        assert np.load(tmp_path / "c.npy").tolist() == [34]
    noted = json.loads(run(tmp_path, "", body, "--set", "w={3,4}", "--json").output)["notes"]
    assert len(noted) == 1 and "counter" in noted[0]


@pytest.mark.parametrize(
    "word",
    ["{1,", "{1,x}", "struct:", "[1]]", "{" * 100 + "}" * 100, "full:int32:2", "full:int8:2:300", "full:int32:2:1.5",
     "randint:int32:2", "randint:int32:2:5:5", "randint:int8:2:0:300", "randint:int32:2:0:5:-1", "randint:int32:2:0.5", "bytes:0",
     "int8:300", "float16:1e9", "nonsense:3", "zeros:int32:2:1", "nul", "zeros:float32:99999999999x99999999999"],
)  # fmt: skip
def test_a_word_that_is_no_argument_is_wrong_usage(tmp_path, word):
    done = run(tmp_path, ".param .u64 x", "", word)
    assert done.exit_code == 2, done.output


@pytest.mark.parametrize(
    ("words", "status", "value"),
    [
        (["--set", "w"], 2, "w"),
        (["--set", "nobody=3"], 3, "nobody"),
        (["--set", "w=3"], 3, "w"),
        (["--save", "nobody=y.npy"], 3, "nobody"),
        (["--save", "x.0=y.npy"], 3, "x.0"),
    ],
)
def test_variables_and_arrays_that_do_not_exist(tmp_path, words, status, value):
    done = run(tmp_path, ".param .u64 x", "", "zeros:int32:1", *words)
    assert done.exit_code == 2 if status == 2 else vars(done.exception)["exit_status"] == status
    assert value in f"{done.output}{done.exception}"


@pytest.mark.parametrize("kind", ["zeros:uint8:%s", "ones:uint8:%s", "full:uint8:%s:1", "arange:uint8:%s"])
def test_an_array_larger_than_any_emulation_is_refused_before_it_is_made(tmp_path, kind):
    elems = 2**34 + 1
    done = run(tmp_path, ".param .u64 p", "", kind % elems)
    assert done.exit_code == 2 and str(elems) in done.output and str(2**34) in done.output
