"""Index arithmetic as emitted, run word by word: the registers hold what the integers are, past 2**31 and 2**32 too."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import tilecopy as tc
from hypothesis import assume, given
from hypothesis import strategies as st
from tilecopy import S, TileLayout
from tilecopy_test_helpers.drawn_integers import INTEGERS, SYMBOLS, among, environments, expressions
from tilecopy_test_helpers.index_text import BASE, builder, lines_of, parameters, run_text, signed
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples

from tilecopy_core.integers import Symbol, bounds_of, evaluate, fits, of_atom, symbols_of


@examples(200)
@given(
    expressions(),
    st.lists(environments(), min_size=1, max_size=4),
    st.sampled_from([32, 64]),
    st.sampled_from([1, 2**20 + 1, 2**33]),
)
def test_a_register_holds_what_the_integer_is(
    expr: tc.Int, found: list[dict[Symbol, int]], bits: int, factor: int
) -> None:
    expr = expr * factor if bits == 64 else expr
    assume(bits == 64 or fits(expr, 32))
    lower, upper = bounds_of(expr)
    assume(lower is not None and upper is not None and -(2**62) < lower and upper < 2**62)
    symbols = dict.fromkeys(SYMBOLS, "b32")
    ptx = builder(symbols)
    register = ptx.value(expr, bits)
    for env in found:
        assert signed(run_text(lines_of(ptx), parameters(symbols, env))[str(register)], bits) == evaluate(expr, env)


LARGE = [
    (Symbol("x", 0, 2**31 - 1), "b32"),
    (Symbol("y", 0, 2**20), "b32"),
    (Symbol("z", -(2**31), 2**31 - 1), "b32"),
    (Symbol("w", 0, 2**40), "b64"),
    (Symbol("v", -(2**33), 2**33), "b64"),
    (Symbol("u", 0, 2**32 - 1), "b64"),
]


def test_products_wider_than_32_bits() -> None:
    """Coefficients and factors on both sides of 2**31 and 2**32, at the ends of what the symbols can be."""
    types = dict(LARGE)
    x, y, z, w, _, u = (of_atom(found) for found, _ in LARGE)
    exprs = [
        *(u * factor for factor in (1, 3, -1, -8, -(2**20))),
        *(each * factor for each in (x, y, z) for factor in (2**31 - 1, 2**31, 2**31 + 5, 2**32 - 1, 2**32, -(2**31))),
        *(each * 2**33 for each in (z // 3, z // 4, z % 5, (z ^ 1) // 2, y ^ 5)),
        *(x * y, z * y, y * y, z * 3 * y, (z // 2) * (y + 1), w * y),
    ]
    for expr in exprs:
        ptx = builder(types)
        register = ptx.value(expr, 64)
        for pick in range(16):
            env = {
                found: (found.upper, found.lower)[pick >> number & 1] for number, found in enumerate(list(types)[:4])
            }
            env |= {found: found.upper or 0 if pick & 8 else 0 for found in list(types)[3:]}
            given_values = {name: number & 2**64 - 1 for name, number in parameters(types, env).items()}
            assert signed(run_text(lines_of(ptx), given_values)[str(register)], 64) == evaluate(expr, env), (expr, env)


def test_a_coefficient_that_wraps_to_0_is_no_shift() -> None:
    """What the kernel knows to be 0 may have any coefficient in a sum of 32 bits; 0 has no bit to shift by."""
    x = Symbol("x", 0, 7)
    ptx = builder({x: "b32"})
    ptx.tighter[x] = 0
    register = ptx.value(of_atom(x) * 2**32, 32)
    assert "shl" not in "".join(lines_of(ptx))
    assert run_text(lines_of(ptx), {"param_p0": 0})[str(register)] == 0


SOME = st.lists(st.sampled_from([found for found, _ in LARGE]), min_size=1, max_size=3, unique=True)


@cache
def values_of(found: Symbol) -> st.SearchStrategy[int]:
    """Return the strategy of what a symbol can be."""
    low, high = bounds_of(of_atom(found))
    return st.one_of(st.sampled_from([low, high, high - 1, max(low, -1), 0, 1]), st.integers(low, high))


@st.composite
def far(draw: st.DrawFn) -> tuple[tc.Int, dict[Symbol, int]]:
    """A sum of large integers, and a value for each."""
    total: tc.Int = draw(among(0, 1, -1, 7, 2**22, 2**23, 2**31, -(2**31), 2**32, 2**40, -(2**40)))
    env = {}
    for found, _ in LARGE:
        env[found] = draw(values_of(found))
    for found in draw(SOME):
        factor = draw(
            among(
                1,
                2,
                3,
                128,
                2**20,
                2**30,
                2**31 - 1,
                2**31,
                2**32 - 1,
                2**32,
                2**33,
                -1,
                -128,
                -(2**31),
                -(2**31) - 1,
                -(2**32),
            )
        )
        term = of_atom(found)
        kind = draw(among("", "", "", "//", "%", "^", "min"))
        number = draw(among(2, 3, 2**16, 2**31, 2**32, 2**33, 2**32 + 1, 10**10))
        term = (
            term // number
            if kind == "//"
            else term % number
            if kind == "%"
            else term ^ of_atom(LARGE[0][0])
            if kind == "^"
            else tc.minimum(term, number)
            if kind == "min"
            else term
        )
        total = total + term * factor
    return total, env


@examples(400)
@given(far(), st.sampled_from([1, 2, 4, 8]), st.integers(0, 3))
def test_a_global_address_is_right_wherever_the_element_is_inside(
    drawn: tuple[tc.Int, dict[Symbol, int]], size: int, room: int
) -> None:
    """The array ends a few elements after the one that is looked at: nothing else may be assumed of the parts."""
    offset, env = drawn
    at = evaluate(offset, env)
    shift = -at if at < 0 or room == 3 else 0  # the start is what makes it fall inside
    offset, at = offset + shift, at + shift
    assume(0 <= at < 2**43)
    assume(all(edge is None or abs(edge) < 2**59 for edge in (*bounds_of(offset), shift)))
    buffer = tc.Buffer(at + 1 + room, f"uint{size * 8}", space="global", name="A", layout=TileLayout(S[at + 1 + room]))
    symbols = dict(LARGE)
    ptx = builder(symbols)
    address = ptx.address(buffer, offset)
    registers = run_text(lines_of(ptx), parameters(symbols, env) | {"param_A": BASE})
    assert (registers[str(address.base)] + address.offset_bytes) % 2**64 == BASE + at * size
    assert (at * size) % address.align_bytes == 0
    assert -(2**23) <= address.offset_bytes < 2**23


@examples(200)
@given(
    st.sampled_from([1, 3, 2047, 2**20]),
    st.lists(st.sampled_from([1, 0, -1, -(2**20), -(2**31)]), min_size=1, max_size=3),
    st.sampled_from([-1, -(2**20), -(2**31), 1]),
    st.integers(0, 2**14),
    st.integers(0, 2**20),
)
def test_addresses_that_share_a_part_are_right_each(
    factor: int, others: list[int], step: int, at: int, turn: int
) -> None:
    """The last one is inside; of the others, which a guard may leave out, nothing may be assumed."""
    n, j = Symbol("n", 0, 2**50, varies="thread"), Symbol("j", 0, 2**20)
    symbols, env = {n: "b64", j: "b32"}, {n: at - step * turn, j: turn}
    assume(env[n] >= 0)
    last = factor * at
    buffer = tc.Buffer(last + 1, "uint8", space="global", name="A", layout=TileLayout(S[last + 1]))
    ptx = builder(symbols)
    for each in (*others, step):
        offset = (of_atom(n) + of_atom(j) * each) * factor
        address = ptx.address(buffer, offset)
    assert evaluate(offset, env) == last
    registers = run_text(lines_of(ptx), parameters(symbols, env) | {"param_A": BASE})
    assert registers[str(address.base)] + address.offset_bytes == BASE + last


@examples(200)
@given(
    expressions(),
    environments(),
    st.sampled_from([None, (0, 2, 3), (2, 2, 2), (3, 3, 3), (1, 3, 4), (0, 3, 3)]),
    st.sampled_from([0, 2, 8]),
    st.booleans(),
)
def test_a_shared_address_is_right_swizzled_or_not(
    expr: tc.Int, env: dict[Symbol, int], swizzle: Any, own: int, whole: bool
) -> None:
    lower, upper = bounds_of(expr)
    assume(lower is not None and upper is not None and 0 <= lower and upper < 4096)
    chosen = None if swizzle is None else tc.Swizzle(*swizzle)
    buffer = tc.Buffer(8192, "float32", space="shared", name="s", storage_offset=own, align_bytes=1024)
    symbols = dict.fromkeys(SYMBOLS, "b32")
    ptx = builder(symbols)
    address = ptx.address(buffer, expr, chosen, whole=whole)
    registers = run_text(lines_of(ptx), parameters(symbols, env) | {"smem_s": 1024})
    wanted = evaluate(expr, env)
    wanted = (wanted if chosen is None else chosen.apply(wanted)) + own
    assert (registers[str(address.base)] + address.offset_bytes) % 2**32 == 1024 + wanted * 4
    assert wanted * 4 % address.align_bytes == 0
    if whole:
        assert 1024 <= registers[str(address.base)] <= 1024 + wanted * 4


def test_the_interpreter_tells_widths_apart() -> None:
    text = ["mul.wide.u32 %rd0, %r, 2;", "mul.wide.s32 %rd1, %r, 2;", "shr.s32 %r2, %r, 4;", "add.s32 %r3, %r, 1;"]
    found = run_text(text, {"%r": 2**32 - 1})
    assert found == {"%rd0": 2**33 - 2, "%rd1": 2**64 - 2, "%r2": 2**32 - 1, "%r3": 0}
    assert symbols_of(INTEGERS[0]) == {next(iter(SYMBOLS))}


def test_a_loop_ends_within_64_bits() -> None:
    start, count = tc.symbol("start", upper=2**40), tc.symbol("count", upper=2**63 - 1)
    index = next(iter(tc.symbol("i").symbols))
    ptx = builder({found: "b64" for each in (start, count) for found in each.symbols})
    with pytest.raises(tc.PtxError, match=mentions(64)), ptx.loop(index, count, start):
        pass
