"""Products of whole matrices by a GPU's tensor cores, for vendor libraries that a program calls."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ground.settings import Settings
from tilewright.simulate.machine import Gpu
from tilewright.simulate.run.compiler import host
from tilewright.simulate.state import FORMATS, tensor_rules

Array = npt.NDArray[Any]
#: Extents of one instruction, m16n8k16.
_M, _N, _K = 16, 8, 16
_MULTIPLY = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, *[ctypes.c_uint64] * 3, *[ctypes.c_void_p] * 3
)  # fmt: skip


def whole_product(a: Array, b: Array, format: str, gpu: Gpu) -> npt.NDArray[np.float32]:
    """Multiply matrices as a kernel of `mma.sync.m16n8k16` does that runs over k in ascending order.

    `a`, `b` (shapes (m, k) and (k, n)): bits of the elements; any strides. `format`: the format of the elements. `gpu`:
    the GPU whose tensor cores multiply.

    Returns ndarray of float32, shape (m, n).

    >>> from tilewright import machine
    >>> x = np.arange(6, dtype=np.float16).reshape(2, 3).view(np.uint16)
    >>> whole_product(x, x.T, "f16", machine.gpu("h100"))
    array([[ 5., 14.],
           [14., 50.]], dtype=float32)
    """
    (m, k), n = a.shape, b.shape[1]
    rows, columns, steps = -(-m // _M), -(-n // _N), max(1, -(-k // _K))
    # registers of a lane, and lanes by fours: a lane has two elements of a row of A or a column of B (PTX ISA,
    # 9.7.14.5.8)
    left = _words(a, rows * _M, steps * _K).reshape(rows, 2, 8, steps, 2, 4).transpose(0, 3, 4, 1, 2, 5)
    right = _words(b.T, columns * _N, steps * _K).reshape(columns, 8, steps, 2, 4).transpose(0, 2, 3, 1, 4)
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    made = np.empty((rows, columns, 2, 2, 8, 4), np.float32)
    rules = tensor_rules(gpu.compute_capability)
    multiply = _MULTIPLY(host().runtime.addresses["tw_whole_product"])

    def row(at: int) -> None:
        multiply(
            rules.ctypes.data, FORMATS[format], 1, columns, steps, left[at].ctypes.data, right.ctypes.data,
            made[at].ctypes.data,
        )  # fmt: skip

    with ThreadPoolExecutor(Settings.from_environ().threads) as pool:
        for _ in pool.map(row, range(rows)):
            pass
    # row 8 r + g, column 8 c + 2 t + p
    return made.transpose(0, 2, 4, 1, 5, 3).reshape(rows * _M, columns * _N)[:m, :n]


def _words(matrix: Array, rows: int, columns: int) -> npt.NDArray[np.uint32]:
    """The matrix's elements in pairs along its rows, padded with zeros to these extents."""
    whole = np.zeros((rows, columns), np.uint16)
    whole[: matrix.shape[0], : matrix.shape[1]] = matrix
    return whole.view(np.uint32)
