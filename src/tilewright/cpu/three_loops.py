"""S5: the three loops, compiled and otherwise left alone: i, j, l, one running sum, row-major flat arrays.

The inner loop is what the source wrote, one fused multiply-add an element of A and B; nothing is blocked, packed or
put side by side. It is the foot of the ladder, not a fast product.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.native.compiler import compiler
from tilewright.native.once import once

Array = npt.NDArray[Any]

#: Dtypes the loops are compiled for, with their LLVM types.
LLVM_TYPES = {"float32": "float", "float64": "double", "int32": "i32"}

#: Multiply-adds between looks at Ctrl-C: about a tenth of a second.
_SLICE = 50_000_000

_TEXT = """
define void @three_loops(ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k) nounwind {
entry:
  %some = icmp sgt i64 %m, 0
  br i1 %some, label %row, label %done

row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.end ]
  %a.row = mul i64 %i, %k
  %c.row = mul i64 %i, %n
  br label %column.test

column.test:
  %j = phi i64 [ 0, %row ], [ %j.next, %store ]
  %j.more = icmp slt i64 %j, %n
  br i1 %j.more, label %step.test, label %row.end

step.test:
  %l = phi i64 [ 0, %column.test ], [ %l.next, %step ]
  %sum = phi TYPE [ ZERO, %column.test ], [ %sum.next, %step ]
  %l.more = icmp slt i64 %l, %k
  br i1 %l.more, label %step, label %store

step:
  %a.at = add i64 %a.row, %l
  %a.ptr = getelementptr TYPE, ptr %a, i64 %a.at
  %x = load TYPE, ptr %a.ptr
  %b.row = mul i64 %l, %n
  %b.at = add i64 %b.row, %j
  %b.ptr = getelementptr TYPE, ptr %b, i64 %b.at
  %y = load TYPE, ptr %b.ptr
  MULTIPLY_ADD
  %l.next = add i64 %l, 1
  br label %step.test

store:
  %c.at = add i64 %c.row, %j
  %c.ptr = getelementptr TYPE, ptr %c, i64 %c.at
  store TYPE %sum, ptr %c.ptr
  %j.next = add i64 %j, 1
  br label %column.test

row.end:
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %m
  br i1 %i.more, label %row, label %done

done:
  ret void
}
"""

_FLOAT = """%sum.next = call TYPE @llvm.fma.SUFFIX(TYPE %x, TYPE %y, TYPE %sum)"""
_FLOAT_DECLARATION = "declare TYPE @llvm.fma.SUFFIX(TYPE, TYPE, TYPE)\n"
_INTEGER = """%product = mul TYPE %x, %y
  %sum.next = add TYPE %sum, %product"""


def module_text(dtype: str) -> str:
    """The LLVM module of one dtype."""
    type_ = LLVM_TYPES[dtype]
    is_float = dtype.startswith("float")
    text = _TEXT.replace("MULTIPLY_ADD", _FLOAT if is_float else _INTEGER) + (_FLOAT_DECLARATION if is_float else "")
    suffix = dtype.replace("float", "f")
    return text.replace("TYPE", type_).replace("ZERO", "0.0" if is_float else "0").replace("SUFFIX", suffix)


@once
def _compiled(dtype: str) -> tuple[Callable[..., None], Any]:
    """The compiled loops, and the library that holds their code."""
    library = compiler().link(compiler().compile(module_text(dtype), passes=0), ("three_loops",))
    words = (ctypes.c_void_p,) * 3 + (ctypes.c_int64,) * 3
    return ctypes.CFUNCTYPE(None, *words)(library.addresses["three_loops"]), library


def multiply(a: Array, b: Array) -> Array:
    """Multiply with the three loops.

    Parameters
    ----------
    a, b : ndarray, shapes (m, k) and (k, n)
        One dtype of float32, float64 and int32; any strides (others than row-major are copied first).

    Returns
    -------
    ndarray, shape (m, n)
        The canonical product; int32 wraps.

    Raises
    ------
    ArgumentTypeError
        The dtypes differ or are none of the three.
    ArgumentValueError
        The shapes do not fit.

    Examples
    --------
    >>> multiply(np.eye(2, dtype=np.float32), np.full((2, 3), 5, np.float32))
    array([[5., 5., 5.],
           [5., 5., 5.]], dtype=float32)
    """
    if a.dtype != b.dtype or a.dtype.name not in LLVM_TYPES:
        raise ArgumentTypeError(
            f"`a` and `b` must have one dtype of {', '.join(LLVM_TYPES)} (got {a.dtype} and {b.dtype}); convert them"
        )
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ArgumentValueError(f"`a` and `b` must have shapes (m, k) and (k, n) (got {a.shape} and {b.shape})")
    native = np.dtype(a.dtype.name)  # of the host's byte order
    left, right = np.ascontiguousarray(a, native), np.ascontiguousarray(b, native)
    m, k, n = *left.shape, right.shape[1]
    c: Array = np.empty((m, n), native)
    loops, _ = _compiled(native.name)
    # Compiled code cannot be interrupted, so rows go in slices.
    rows = max(1, _SLICE // max(1, n * k))
    for start in range(0, m, rows):
        some, out = left[start : start + rows], c[start : start + rows]
        loops(some.ctypes.data, right.ctypes.data, out.ctypes.data, len(some), n, k)
    return c
