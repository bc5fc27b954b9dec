"""The catalogue's kernels of the host: the engine, and the three loops as written (S5).

The loops are compiled: i, j, l, one running sum, row-major flat arrays. The inner loop is the source's, one fused
multiply-add for each step; nothing is blocked, packed or vectorised. It is the first rung of the ladder, not a fast
product.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ground.native.functions import functions
from tilewright.multiply.backends.cpu import product
from tilewright.multiply.kernels.record import Record

Array = npt.NDArray[Any]
#: Dtypes that the loops are written for.
DTYPES = ("float32", "float64", "int32")
#: Multiply-adds between checks for Ctrl-C: about a tenth of a second.
_SLICE = 50_000_000


def three_loops(a: Array, b: Array) -> Array:
    """Multiply with the three loops.

    `a` and `b` have shapes (m, k) and (k, n), any strides (others than row-major are copied first), and one dtype of
    float32, float64 and int32, which wraps.

    Raises ArgumentTypeError: the dtypes differ or are none of the three; ArgumentValueError: the shapes do not match.

    Examples
    --------
    >>> three_loops(np.eye(2, dtype=np.float32), np.full((2, 3), 5, np.float32))
    array([[5., 5., 5.],
           [5., 5., 5.]], dtype=float32)
    """
    if a.dtype != b.dtype or a.dtype.name not in DTYPES:
        raise ArgumentTypeError(
            f"`a` and `b` must have one dtype of {', '.join(DTYPES)} (got {a.dtype} and {b.dtype}); convert them"
        )
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ArgumentValueError(f"`a` and `b` must have shapes (m, k) and (k, n) (got {a.shape} and {b.shape})")
    native = np.dtype(a.dtype.name)  # of the host's byte order
    left, right = np.ascontiguousarray(a, native), np.ascontiguousarray(b, native)
    m, k, n = *left.shape, right.shape[1]
    c: Array = np.empty((m, n), native)
    loops = getattr(functions("tw_three_loops_", Path(__file__).with_name("three_loops.c")), native.name)
    # Compiled code cannot be interrupted, so rows go in slices.
    rows = max(1, _SLICE // max(1, n * k))
    for start in range(0, m, rows):
        some, out = left[start : start + rows], c[start : start + rows]
        loops(some.ctypes.data, right.ctypes.data, out.ctypes.data, len(some), n, k)
    return c


_PRODUCTS = MappingProxyType({"three_loops": three_loops, "cpu_engine": product.multiply})


def run(record: Record, a: Array, b: Array) -> Array:
    """Multiply with a kernel of the host.

    Raises ArgumentValueError: the kernel is not one of the host.
    """
    if record.name not in _PRODUCTS:
        raise ArgumentValueError(
            f"kernel {record.name!r} runs on a GPU; launch its program with tilewright.simt.launch"
        )
    return _PRODUCTS[record.name](a, b)
