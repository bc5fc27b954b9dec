"""Random products of arrays on a GPU, of any extents and strides, against the CPU engine.

Values are small integers, whose sums are exact in every order. The bytes between the elements of a result are compared
too.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw

cuda: Any = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
Array = npt.NDArray[Any]
DTYPES = ("float32", "float16", ml_dtypes.bfloat16, "int8", ml_dtypes.float8_e5m2)
EXTENTS = (0, 1, 1, 2, 3, 7, 8, 16, 17, 31, 33, 64, 65, 130)


def laid(random: np.random.Generator, shape: tuple[int, ...], kind: Any, *, repeats: bool) -> tuple[Array, Array]:
    """A buffer of small integers, and an array in it: axes in any order, with gaps, backwards, from any element on.

    With `repeats` an axis may have a stride of 0.
    """
    strides, step, first = [0] * len(shape), 1, 0
    for axis in random.permutation(len(shape)):
        strides[axis] = step * int(random.choice([1, 1, 1, 2, 3]))
        step = strides[axis] * max(shape[axis], 1) + int(random.choice([0, 0, 1, 4, 8]))
        if random.random() < 0.15:
            first += strides[axis] * max(shape[axis] - 1, 0)
            strides[axis] *= -1
        elif repeats and random.random() < 0.05:
            strides[axis] = 0
    lead, item = int(random.choice([0, 0, 1, 8])), np.dtype(kind).itemsize
    buffer = random.integers(-4, 4, lead + step + 8).astype(kind)
    return buffer, np.ndarray(shape, kind, buffer, (lead + first) * item, [item * one for one in strides])


class There:
    """An array in a copy of its buffer on the GPU."""

    def __init__(self, buffer: Array, array: Array) -> None:
        self.held = cuda.to_device(buffer.view(np.uint8))
        at = self.held.__cuda_array_interface__["data"][0] + array.ctypes.data - buffer.ctypes.data
        self.dtype = array.dtype
        kind = array.dtype.str if array.dtype.isbuiltin == 1 else f"|V{array.itemsize}"
        self.__cuda_array_interface__ = {
            "data": (at, False), "shape": array.shape, "strides": array.strides, "typestr": kind, "version": 3,
        }  # fmt: skip


def same(random: np.random.Generator) -> bool:
    """Whether a random product has the values of the CPU engine's, and changes nothing else."""
    kind = DTYPES[random.integers(len(DTYPES))]
    m, n, k = (int(random.choice(EXTENTS)) for _ in range(3))
    batch = tuple(random.integers(1, 4, random.integers(0, 3)))
    shapes = (*batch, m, k) if random.random() < 0.9 else (k,), (*batch[1:], k, n) if random.random() < 0.9 else (k,)
    operands = [laid(random, shape, kind, repeats=True) for shape in shapes]
    (_, a), (_, b) = operands
    expected = np.asarray(tw.matmul(a, b))
    buffer, out = laid(random, expected.shape, expected.dtype, repeats=False)
    into = There(buffer, out)
    order: Any = random.choice(["canonical", "fast", "tf32x3"])
    for _ in range(2):  # by the rules, and by the kept launch
        tw.matmul(*(There(*one) for one in operands), into, order=str(order))
    out[...] = expected
    found: Array = into.held.copy_to_host().view(buffer.dtype)
    return bool((found == buffer).all())


@pytest.mark.parametrize(
    ("name", "cases"), [("h100", 4), *(pytest.param(name, 400, marks=pytest.mark.volume) for name in ("t4", "h100"))]
)
def test_random_products_are_those_of_the_cpu_engine(name: str, cases: int) -> None:
    random = np.random.default_rng(12)
    with tw.simulated_gpu(name):
        for case in range(cases):
            assert same(random), case
