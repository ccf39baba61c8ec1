"""The normal form of a relayout moves the same bytes, and promises no more than holds."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
import tilecopy as tc
from hypothesis import assume, given
from hypothesis import strategies as st
from tilecopy_relayout import plan_relayout
from tilecopy_relayout.planner.candidates import candidates
from tilecopy_relayout.planner.problem import Problem, RelayoutSpec, problem_of
from tilecopy_relayout.planner.tilings import SmemLayout, Tiling, sector_elems, smem_layout_of, thread_values_of, vector
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples


def moved_bytes(
    extents: tuple[int, ...], src: tuple[int, ...], dst: tuple[int, ...], elem_bytes: int, at: tuple[int, int] = (0, 0)
) -> set[tuple[int, int]]:
    """``(source byte, destination byte)`` of every byte."""
    found = set()
    for index in product(*map(range, extents)):
        from_, to = (sum(i * s for i, s in zip(index, steps, strict=True)) * elem_bytes for steps in (src, dst))
        found |= {(at[0] + from_ + byte, at[1] + to + byte) for byte in range(elem_bytes)}
    return found


def steps_of(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Extents and steps of a problem, the reversed dimensions walked backwards."""
    src = tuple(-step if n in problem.reversed else step for n, step in enumerate(problem.src))
    return problem.extents, src, problem.dst


@examples(300)
@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=3),
    st.data(),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([(16, 16), (4, 8), (16, 2)]),
)
def test_the_normal_form_moves_the_same_bytes(
    extents: list[int], data: st.DataObject, elem_bytes: int, aligned: tuple[int, int]
) -> None:
    rank = len(extents)
    src = tuple(data.draw(st.sampled_from([-16, -8, -4, -1, 0, 1, 1, 2, 4, 8, 16, 24])) for _ in range(rank))
    order = data.draw(st.permutations(range(rank)))
    dst, step = [0] * rank, data.draw(st.sampled_from([1, 1, 2]))
    for dim in order:  # no two elements in one place
        dst[dim] = step * data.draw(st.sampled_from([1, 1, -1]))
        step *= extents[dim] * data.draw(st.sampled_from([1, 1, 2]))
    problem, starts = problem_of(RelayoutSpec(tuple(extents), src, tuple(dst), elem_bytes), *aligned)
    assert problem.size_bytes == prod(extents) * elem_bytes
    assert min(problem.src) >= 0 and min(problem.dst) >= 1
    # reversed dimensions begin at their lowest source address, which is where their last element is
    own, own_src, own_dst = steps_of(problem)
    first = sum((e - 1) * -s for e, s in zip(own, own_src, strict=True) if s < 0) * problem.elem_bytes
    wanted = moved_bytes(tuple(extents), src, tuple(dst), elem_bytes)
    found = moved_bytes(own, own_src, own_dst, problem.elem_bytes, (starts[0] + first, starts[1]))
    assert found == wanted
    for align, given_align, start in (
        (problem.src_align, aligned[0], starts[0]),
        (problem.dst_align, aligned[1], starts[1]),
    ):
        assert given_align % align == 0 and start % align == 0, "the first element of the normal form is so aligned"
    for side, align in (("src", problem.src_align), ("dst", problem.dst_align)):
        steps = getattr(problem, side)
        for dim, each in enumerate(steps):
            vec = vector(problem, dim, side)
            assert vec == 1 or steps[dim] == 1
            assert align % (vec * problem.elem_bytes) == 0 or vec == 1
            assert vec == 1 or all(step % vec == 0 for n, step in enumerate(steps) if n != dim), each


@given(st.sampled_from([2, 4, 8, 16]), st.sampled_from([1, 2, 4]))
def test_rows_that_stay_together_are_wide_elements(run: int, elem_bytes: int) -> None:
    assume(run * elem_bytes <= 16)
    problem, _ = problem_of(RelayoutSpec((4, 6, run), (run, 4 * run, 1), (6 * run, run, 1), elem_bytes))
    assert (problem.elem_bytes, problem.size) == (run * elem_bytes, 24)


PROBLEMS = [
    problem_of(RelayoutSpec(extents, src, dst, elem_bytes))[0]
    for extents, src, dst, elem_bytes in (
        ((96, 80), (1, 96), (80, 1), 4),
        ((33, 65), (1, 33), (65, 1), 2),
        ((24, 30, 20), (20, 480, 1), (1, 24, 720), 1),
        ((100, 7), (7, 1), (1, 100), 8),
        ((64, 48), (-48, 1), (1, 64), 2),
        ((40, 9, 12), (1, 480, 40), (108, 12, 1), 4),
    )
]


def test_threads_and_registers_take_every_element_of_a_box_once() -> None:
    for problem in PROBLEMS:
        for tiling in candidates(problem):
            thread_values = thread_values_of(problem, tiling)
            for dim, extent in enumerate(tiling.tile):
                own = [mode for mode in thread_values.modes if mode.dim == dim]
                coordinates = [sum(steps) for steps in product(*([d.weight * n for n in range(d.extent)] for d in own))]
                assert sorted(coordinates) == list(range(extent)), (problem, tiling)
            for thread in (True, False):
                own = [mode for mode in thread_values.modes if mode.thread == thread]
                numbers = [sum(steps) for steps in product(*([d.stride * n for n in range(d.extent)] for d in own))]
                assert sorted(numbers) == list(range(len(numbers)))
                assert not thread or len(numbers) <= tiling.threads
            steps, counts = tiling.steps(problem), tiling.counts(problem)
            early = sector_elems(problem) - 1 if tiling.kind == "shifted" else 0
            for dim, (extent, step, count) in enumerate(zip(problem.extents, steps, counts, strict=True)):
                reach = extent + (early if dim == len(steps) - 1 else 0)
                assert (count - 1) * step < reach <= count * step, (problem, tiling)


def test_the_box_lies_in_shared_memory_once_and_digits_step_through_it() -> None:
    for problem in PROBLEMS:
        for tiling in candidates(problem):
            if tiling.kind in ("direct", "element"):
                continue
            thread_values = thread_values_of(problem, tiling)
            smem_layout = smem_layout_of(problem, tiling, thread_values)

            def at(place: tuple[int, ...], smem_layout: SmemLayout = smem_layout) -> int:
                lines, rest = divmod(place[smem_layout.run], smem_layout.vec)
                others = sum(
                    c * s for n, (c, s) in enumerate(zip(place, smem_layout.steps, strict=True)) if n != smem_layout.run
                )
                return others + lines * smem_layout.jump + rest * smem_layout.steps[smem_layout.run]

            places = [at(place) for place in product(*map(range, tiling.tile))]
            assert len(set(places)) == len(places), (problem, tiling)
            for mode in thread_values.modes:
                one = tuple(mode.weight if n == mode.dim else 0 for n in range(len(tiling.tile)))
                assert smem_layout.step(mode) == at(one), (problem, tiling, mode)


def test_boxes_that_begin_early_are_as_many_as_that_takes() -> None:
    problem = problem_of(RelayoutSpec((24, 64), (1, 24), (64, 1), 2))[0]
    tiling = Tiling("shifted", (8, 32 + sector_elems(problem)), 128, (0, 1))
    assert tiling.steps(problem) == (8, 32) and tiling.counts(problem) == (3, 3)


def test_two_elements_in_one_place_are_refused() -> None:
    with pytest.raises(tc.RequestError, match=mentions("out_strides")):
        plan_relayout((4, 2), "float32", (1, 0), out_strides=(0, 1), target="sm_90")
