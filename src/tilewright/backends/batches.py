"""Batches as launches: a kernel that takes a batch computes products along two axes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.programs.host_arrays import strided

Array = npt.NDArray[Any]
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
