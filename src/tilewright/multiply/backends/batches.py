"""Batches as launches: a kernel that takes a batch computes products along two axes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.simulate.programs.array_arguments import strided

Array = npt.NDArray[Any]
#: Most elements of a matrix of folded rows: kernels' indices have 32 bits.
_MOST_ELEMENTS = 2**30
#: An axis of a batch: its extent, and each array's distance of matrices in bytes.
_Axis = tuple[int, tuple[int, ...]]


def split(arrays: Sequence[Array], most: int) -> Iterator[list[Array]]:
    """The arrays of each launch: matrices, or, with two axes before the last two, at most `most` matrices.

    The arrays have the same axes before the last two, with any strides, and are not read. Axes that are evenly spaced
    in all arrays count as one. The two longest are those of a launch; there is a launch for each index of the others.

    >>> a, b = np.zeros((3, 2, 5, 4, 4)), np.broadcast_to(np.zeros((5, 4, 4)), (3, 2, 5, 4, 4))
    >>> [[x.shape for x in one] for one in split([a, b], 99)]
    [[(6, 5, 4, 4), (6, 5, 4, 4)]]
    >>> [one[0].shape for one in split([a, b], 12)], len(list(split([a, b], 1)))
    ([(2, 5, 4, 4), (2, 5, 4, 4), (2, 5, 4, 4)], 30)
    """
    shape = arrays[0].shape[:-2]
    if 0 in shape:
        return
    axes = merged(shape, [x.strides[:-2] for x in arrays])
    within = sorted(sorted(range(len(axes)), key=lambda at: -axes[at][0])[:2]) if most > 1 else []
    outside = [at for at in range(len(axes)) if at not in within]
    in_order = [axes[at] for at in (*outside, *within)]
    extents = tuple(extent for extent, _ in in_order)
    views = [
        strided(x, (*extents, *x.shape[-2:]), (*(steps[which] for _, steps in in_order), *x.strides[-2:]))
        for which, x in enumerate(arrays)
    ]
    for i in np.ndindex(extents[: len(outside)]):
        chosen = [x[i] for x in views]
        if within:
            yield from _parts([x if len(within) == 2 else x[np.newaxis] for x in chosen], most)
        else:
            yield chosen


def folded(a: Array, b: Array, c: Array, more: Sequence[Array]) -> tuple[Array, Array, Array, list[Array]]:
    """A product with fewer matrices: those of A below each other that are multiplied by one B are one.

    A, B and an epilogue's operands `more` broadcast to C's batch; the arrays are not read.

    >>> a, b, c = np.zeros((8, 5, 20, 30)), np.zeros((30, 40)), np.zeros((8, 5, 20, 40))
    >>> [x.shape for x in folded(a, b, c, [])[:3]]
    [(800, 30), (30, 40), (800, 40)]
    """
    if c.size == 0:
        return a, b, c, list(more)
    (m, n), batch = c.shape[-2:], c.shape[:-2]
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    every = [a, c, *(np.broadcast_to(x, c.shape) for x in more)]
    most = _MOST_ELEMENTS // max(n, a.shape[-1])
    kept, rows, row = fold((*batch, m), b.strides[:-2], [x.strides[:-1] for x in every], most)
    a, c, *rest = (
        strided(x, (*batch[:kept], rows, x.shape[-1]), (*x.strides[:kept], x.strides[row], x.strides[-1]))
        for x in every
    )
    return a, strided(b, (*batch[:kept], *b.shape[-2:]), (*b.strides[:kept], *b.strides[-2:])), c, rest


def fold(shape: Sequence[int], of_b: Sequence[int], steps: Sequence[Sequence[int]], most: int) -> tuple[int, int, int]:
    """How :func:`folded` makes one axis of rows: axes of the batch that stay, rows, and the axis with their distance.

    `shape` is C's without columns. `of_b` are B's strides along the batch, and `steps` those of the others along
    `shape`. There are `most` rows at most, or as many as in a matrix.

    >>> fold((8, 5, 20), (0, 0), [(4000, 800, 40)], 10**9), fold((8, 5, 20), (64, 0), [(4000, 800, 40)], 10**9)
    ((0, 800, 2), (1, 100, 2))
    """
    kept, rows, row = len(shape) - 1, shape[-1], len(shape) - 1
    while kept:
        at = kept - 1
        if shape[at] != 1:
            axis = at if rows == 1 else row
            even = all(one[at] == rows * one[axis] for one in steps)
            if of_b[at] != 0 or rows * shape[at] > most or not even:
                break
            row = axis
        kept, rows = at, rows * shape[at]
    return kept, rows, row


def merged(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[_Axis]:
    """Axes of arrays of one shape, without those of one element; neighbours are one if evenly spaced in every array.

    >>> merged((3, 2, 1, 5), [(160, 80, 80, 16), (0, 0, 7, 8)]), merged((3, 2), [(16, 8)])
    ([(6, (80, 0)), (5, (16, 8))], [(6, (8,))])
    """
    found: list[_Axis] = []
    for extent, *steps in zip(shape, *strides, strict=True):
        if extent == 1:
            continue
        if found and all(wide == extent * step for wide, step in zip(found[-1][1], steps, strict=True)):
            found[-1] = (found[-1][0] * extent, tuple(steps))
        else:
            found.append((extent, tuple(steps)))
    return found


def _parts(arrays: Sequence[Array], most: int) -> Iterator[list[Array]]:
    """Batches of `most` matrices at most, whole rows of the inner axis if these are not longer."""
    outer, inner = arrays[0].shape[:2]
    down, along = max(1, most // inner), min(inner, most)
    for y in range(0, outer, down):
        for x in range(0, inner, along):
            yield [one[y : y + down, x : x + along] for one in arrays]
