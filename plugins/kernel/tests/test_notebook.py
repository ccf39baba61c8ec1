"""What a notebook shows of layouts, plans, kernels, reports and costs; and arguments by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TileLayout, TLane, laneid
from tilecopy.executors import html_table
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip

K = round_trip((64, 128), (32, 64), "float16")
A = tc.Buffer((64, 64), "float16", space="global", name="A")
TILE = tc.Buffer((64, 64), "float16", space="shared", name="tile")
PLAN = tc.plan(TILE[:, :], A[:, :], scope=tc.cta(128), target="sm_90a")


def cells(html: str) -> list[list[str]]:
    """The texts of a table, row by row; its tags are closed in order."""
    stack: list[str] = []
    for closing, name in re.findall(r"<(/?)(\w+)[^>]*>", html):
        assert not closing or stack.pop() == name
        stack += [] if closing else [name]
    assert not stack
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]


def test_a_plan_is_one_line() -> None:
    assert repr(PLAN) == "Plan(gmem_smem: copy A[64x64] -> tile[64x64], cta(128), sm_90a)"
    assert all(len(repr(plan)) < 100 and "\n" not in repr(plan) for plan in K.plans)


def test_tables_of_plans_and_costs() -> None:
    shown = dict(cells(PLAN._repr_html_()))
    assert shown["chosen"].startswith("gmem_smem (priority 10)") and "tile[0:64, 0:64]" in shown["to"]
    cost = dict(cells(tc.cost(PLAN)._repr_html_()))
    assert (cost["sectors"], cost["variant"]) == ("256", "gmem_smem")
    compared = cells(tc.compare(TILE[:, :], A[:, :], scope=tc.cta(128), op="copy")._repr_html_())
    assert [row[0] for row in compared] == ["variant", "gmem_smem", "ragged"]


def test_tables_of_layouts() -> None:
    layout = TileLayout(S[(32, 16) : (1 @ laneid, 1)] + R[4 : 32 @ TLane] + 3)
    assert cells(layout._repr_html_())[1:] == [
        ["shard", "32", "1", "laneid"],
        ["shard", "16", "1", "m"],
        ["replica", "4", "32", "TLane"],
        ["offset", "", "3", "m"],
    ]
    swizzled = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[8, 64]))
    assert cells(swizzled._repr_html_())[-1][:2] == ["swizzle", repr(swizzled.swizzle)]
    k = tc.KernelBuilder("sizes", threads=32)
    n = k.size("n")
    assert cells(k.param("A", (n, 8), "float32").layout._repr_html_()) == [["extent", "stride"], ["n", "8"], ["8", "1"]]


def test_tables_of_kernels_and_reports() -> None:
    assert [row[0] for row in cells(K._repr_html_())] == ["variant", "gmem_smem", "gmem_smem"]
    assert "round_trip(A, B)" in K._repr_html_()
    a = np.ones((64, 128), np.float16)
    report = dict(cells(K(a, np.empty_like(a), executor="emulator")._repr_html_()))
    assert report["threads"] == str(4 * 128) and int(report["  st"]) > 0


# ----------------------------------------------------------------------------------------- arguments by name


def scaled() -> tc.BuiltKernel:
    """Two arrays of one shape, which are easily exchanged, and a number."""
    k = tc.KernelBuilder("scaled", threads=32)
    a, b, n = k.param("A", (32,), "int32"), k.param("B", (32,), "int32"), k.scalar("n", upper=9)
    tid = k.thread_id()
    k.store(b[tid], k.load(a[tid]) + n)
    return k.build(target="sm_80", grid=1)


def arrays() -> tuple[Any, Any]:
    return np.arange(32, dtype=np.int32), np.zeros(32, np.int32)


@pytest.mark.parametrize("order", [(), ("A",), ("A", "B")])
def test_arguments_by_name_in_any_order(order: tuple[str, ...]) -> None:
    kernel, (a, b) = scaled(), arrays()
    given = {"n": 3, "B": b, "A": a}
    first = [given.pop(name) for name in order]
    kernel(*first, **given, executor="emulator")
    assert np.array_equal(b, a + 3)
    b[:] = 0
    kernel.prepare(*first, **given, executor="emulator")()
    assert np.array_equal(b, a + 3)


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        (0, {"A": 0, "b": 0, "n": 1}, ("b", "A", "B", "n")),
        (1, {"A": 0, "B": 0, "n": 1}, ("scaled", "A")),
        (1, {"n": 1}, ("B",)),
        (4, {"n": 1}, ("n",)),
    ],
)
def test_names_that_do_not_fit_are_refused(given: int, named: dict[str, Any], message: tuple[object, ...]) -> None:
    kernel, (a, b) = scaled(), arrays()
    for call in (kernel, kernel.prepare, kernel.launch_by_address):
        with pytest.raises(tc.LaunchError, match=mentions(*message)):
            call(*[a, b, 1, 2][:given], **{name: {"A": a, "B": b}.get(name, 1) for name in named}, executor="emulator")


def test_what_stands_in_a_cell_is_no_markup() -> None:
    assert cells(html_table([("<b>", 1)], ("a&b",))) == [["a&amp;b"], ["&lt;b&gt;", "1"]]
