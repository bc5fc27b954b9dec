"""Copies arrays on a GPU with a kernel: between any strides, alignments and dtypes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply import kernels
from tilewright.multiply.backends import batches
from tilewright.multiply.kernels import functors
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.functions import trace
from tilewright.simulate.programs import Program

Array = npt.NDArray[Any]
Extent = tuple[int, int, int]
#: Rows and columns of a tile, and threads of a block.
_TILE, _BLOCK = 32, (32, 8, 1)
#: Most blocks of a launch along y and z; beyond, each block does several parts.
_MOST = 65_535
#: Most matrices of a launch, whose number is an int.
_MOST_MATRICES = 2**31 - 1


@functools.lru_cache(maxsize=256)
def program(of: str, through: str, to: str, cc: tuple[int, int], parts: str = "") -> Program:
    """The kernel that copies elements of one dtype to another, rounded to a third in between.

    `parts` is how elements are written as several, the name of a class in the kernel.

    Raises MissingExtraError: the `gpu` extra is not installed.
    """
    path = Path(kernels.__file__).parent / "rearranged.cu"
    finish = trace(lambda x: x.cast(through).cast(to), {"x": of})
    made, *_ = functors.arguments(finish)
    entry = f"rearranged<{functors.renamed(element(of).c_memory)}, {made}, Finish{f', {parts}' * bool(parts)}>"
    text = f'{functors.source(finish, None)}#line 1 "{path}"\n{path.read_text()}'
    return Program.from_cuda(text, entry, cc, functors.OPTIONS, path=str(path))


def launches(source: Array, target: Array, parts_apart: int = 0) -> Iterator[tuple[Extent, Extent, tuple[Any, ...]]]:
    """The grid, the block and the arguments of the launches that copy an array to another of its shape.

    The parts of an element are `parts_apart` bytes apart.

    The arrays are views of device memory: their elements are not read.

    >>> x = np.zeros((40, 70), np.float32)
    >>> [grid for grid, *_ in launches(x.T, np.empty((70, 40), np.float32))]
    [(2, 3, 1)]
    >>> heads = np.zeros((5, 40, 8, 70), np.float32).swapaxes(1, 2)
    >>> [grid for grid, *_ in launches(heads, np.empty((5, 8, 40, 70), np.float32))]
    [(3, 2, 40)]
    """
    matrices = [one[(np.newaxis,) * (2 - one.ndim)] for one in (source, target)]
    for given in batches.split(matrices, _MOST_MATRICES):
        lead = (np.newaxis,) * (4 - given[0].ndim)
        views = [one[lead] for one in given]
        outer, inner, rows, columns = views[0].shape
        steps = [one.strides for one in views]
        turned = sum(bit * (abs(step[-2]) < abs(step[-1])) for bit, step in zip((1, 2), steps, strict=True))
        grid = (-(-columns // _TILE), min(-(-rows // _TILE), _MOST), min(outer * inner, _MOST))
        addresses = (np.uint64(one.ctypes.data) for one in views)
        distances = (np.int64(step) for step in (*steps[0], *steps[1], parts_apart))
        extents = (np.int32(one) for one in (outer * inner, inner, rows, columns, turned))
        yield grid, _BLOCK, (*addresses, *distances, *extents)
