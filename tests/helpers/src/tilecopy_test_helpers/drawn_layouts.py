"""Layouts drawn by Hypothesis: permuted, padded, split, swizzled."""

from __future__ import annotations

from hypothesis import strategies as st


@st.composite
def layouts(
    draw: st.DrawFn, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], int, tuple[int, int, int] | None]:
    """Iters of a layout of a shape (permuted, padded, split), an offset and a swizzle."""
    extents: list[int] = []
    for extent in shape:
        split = draw(st.sampled_from([1, 1, 1, 2, 4, 8]))
        extents += [extent // split, split] if extent % split == 0 and split < extent else [extent]
    order = draw(st.one_of(st.just(list(range(len(extents)))), st.permutations(range(len(extents)))))
    strides, step = [0] * len(extents), draw(st.sampled_from([1, 1, 1, 2]))
    for dim in reversed(order):
        strides[dim] = step
        step = step * extents[dim] + draw(st.sampled_from([0, 0, 0, 1, 4, 8]))
    swizzle = draw(st.sampled_from([None, None, None, (0, 2, 3), (2, 2, 2), (3, 3, 3), (1, 3, 4), (4, 1, 1)]))
    return tuple(extents), tuple(strides), draw(st.sampled_from([0, 0, 0, 1, 4, 8, 16])), swizzle
