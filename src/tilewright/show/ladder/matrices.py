"""The matrices of a climb: makes random ones and checks given ones."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.problem.dtypes import NAMES, element, name_of

Array = npt.NDArray[Any]
#: Arrays of the result's shape that a climb holds, and bytes of an element while it is drawn.
_RESULTS, _DRAWN_BYTES = 2, 8


def _host_bytes() -> int:
    """Bytes of the machine's memory; infinite if the system does not report them."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def operands(m: int, n: int, k: int, dtype: str, seed: int = 0) -> tuple[Array, Array]:
    """Return random operands of shapes (m, k) and (k, n); the same for the same arguments everywhere.

    Floats are uniform in [-1, 1), so sums cancel and round at every step; integers are uniform in [-1000, 1000).
    Booleans are drawn so that about half of the product is true.

    Raises
    ------
    ArgumentValueError
        The operands, the product and its reference do not fit in the machine's memory.

    Examples
    --------
    >>> a, b = operands(2, 3, 4, "int32")
    >>> a.shape, b.shape, a.dtype.name
    ((2, 4), (4, 3), 'int32')
    """
    random = np.random.default_rng(seed)
    kind = element(dtype)
    wanted = (m * k + k * n + _RESULTS * m * n) * _DRAWN_BYTES
    if wanted > _host_bytes():
        raise ArgumentValueError(
            f"matrices of M, N, K = {m}, {n}, {k} must fit this machine's memory of {_host_bytes() / 2**30:,.0f} GiB "
            f"(got {wanted / 2**30:,.0f} GiB); give smaller extents"
        )

    def one(shape: tuple[int, int]) -> Array:
        if kind.kind == "bool":
            return random.random(shape) < min(0.8, math.sqrt(math.log(2) / k))
        if kind.is_float:
            return random.uniform(-1, 1, shape).astype(kind.numpy)
        return random.integers(-1000, 1000, shape).astype(kind.numpy)

    return one((m, k)), one((k, n))


def check_operands(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the operands, in native byte order, if they can be multiplied.

    Raises ArgumentValueError: an operand is not a matrix, an extent is 0, or the inner extents differ.
    ArgumentTypeError: a dtype is neither real nor bool, or the two differ.
    """
    for name, operand in (("a", a), ("b", b)):
        if operand.ndim != 2:
            raise ArgumentValueError(
                f"`{name}` must be a matrix, of 2 dimensions (got {operand.ndim}, shape {operand.shape}); "
                f"reshape it, for example to (rows, columns)"
            )
        if name_of(operand.dtype) not in NAMES | {"bool"}:
            raise ArgumentTypeError(
                f"`{name}.dtype` must be a real number's or bool (got {operand.dtype}); convert it with .astype"
            )
        if 0 in operand.shape:
            raise ArgumentValueError(f"`{name}.shape` must have no extent of 0 (got {operand.shape})")
    if a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        raise ArgumentTypeError(
            f"`b.dtype` must equal `a.dtype` (got {b.dtype} and {a.dtype}); convert one of them with .astype"
        )
    if a.shape[1] != b.shape[0]:
        raise ArgumentValueError(
            f"`b.shape[0]` must equal `a.shape[1]` (got {b.shape[0]} and {a.shape[1]}); "
            f"shapes were {a.shape} and {b.shape}"
        )
    native = a.dtype.newbyteorder("=")
    return a.astype(native, copy=False), b.astype(native, copy=False)
