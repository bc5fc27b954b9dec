"""Level 1 of cuBLAS on the host: functions of vectors. `tw.matmul` computes sums of products, in the canonical order.

Source: cuBLAS, "Level-1 Function Reference"; BLAS, `srotg`, `srotm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontends.cublas.operands import Operands
from tilewright.frontends.host_arrays import Array, read, write


def read_vector(call: Operands, name: str) -> Array:
    """A vector of n elements that is read."""
    return read(call.gpu, call.vector(name, call["n"]))


def _magnitudes(values: Array) -> Array:
    """What BLAS compares and sums: |Re| + |Im|."""
    return np.abs(values.real) + np.abs(values.imag) if np.iscomplexobj(values) else np.abs(values)


def _is_empty(call: Operands) -> bool:
    """Whether functions of one vector have nothing to do: for increments that are not positive too."""
    return call["n"] <= 0 or call["incx"] <= 0


def amax(call: Operands) -> None:
    """The 1-based index of the first largest element; 0 for an empty vector."""
    _give_index(call, np.argmax)


def amin(call: Operands) -> None:
    """The 1-based index of the first smallest element; 0 for an empty vector."""
    _give_index(call, np.argmin)


def _give_index(call: Operands, chosen: Callable[[Array], Any]) -> None:
    call.give("result", 0 if _is_empty(call) else 1 + int(chosen(_magnitudes(read_vector(call, "x")))))


def asum(call: Operands) -> None:
    """The sum of |Re| + |Im|."""
    values = np.empty(0) if _is_empty(call) else _magnitudes(read_vector(call, "x"))
    call.give("result", _product(values, np.ones_like(values)))


def nrm2(call: Operands) -> None:
    """The Euclidean length, also where squares overflow or vanish."""
    found: Any = 0
    if not _is_empty(call):
        values = read_vector(call, "x")
        parts = np.concatenate([values.real, values.imag]) if np.iscomplexobj(values) else values
        parts = parts.astype(_sums(parts.dtype))
        largest = np.abs(parts).max()
        scale = largest if 0 < largest < np.inf else parts.dtype.type(1)
        found = scale * np.sqrt(_product(parts / scale, parts / scale))
    call.give("result", found)


def dot(call: Operands) -> None:
    """The sum of products."""
    call.give("result", _product(read_vector(call, "x"), read_vector(call, "y")))


def dotc(call: Operands) -> None:
    """The sum of products with the conjugates of x."""
    call.give("result", _product(read_vector(call, "x").conj(), read_vector(call, "y")))


Nrm2Ex, dotu, DotEx, DotcEx = nrm2, dot, dot, dotc


def _product(left: Array, right: Array) -> Any:
    import tilewright as tw

    return tw.matmul(left, right)


def _sums(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which elements are added and scaled."""
    return np.dtype("float32") if kind.itemsize < 4 else kind


def axpy(call: Operands) -> None:
    """Y = alpha x + y."""
    target, alpha = call.vector("y", call["n"]), call.number("alpha")
    if alpha and target.size:
        sums = _sums(target.dtype)
        values = alpha * read_vector(call, "x").astype(sums) + read(call.gpu, target).astype(sums)
        write(call.gpu, target, values.astype(target.dtype))


def copy(call: Operands) -> None:
    """Y = x."""
    write(call.gpu, call.vector("y", call["n"]), read_vector(call, "x"))


def swap(call: Operands) -> None:
    """Exchange x and y."""
    left, right = read_vector(call, "x"), read_vector(call, "y")
    kept = left.copy()
    write(call.gpu, left, right)
    write(call.gpu, right, kept)


def scal(call: Operands) -> None:
    """X = alpha x."""
    if not _is_empty(call):
        target = read_vector(call, "x")
        values = target.astype(_sums(target.dtype)) * call.number("alpha")
        write(call.gpu, target, values.astype(target.dtype))


AxpyEx, ScalEx = axpy, scal


def rot(call: Operands) -> None:
    """x, y = c x + s y, c y - conj(s) x."""
    cosine, sine = call.number("c"), call.number("s")
    left, right = read_vector(call, "x"), read_vector(call, "y")
    _write_both(call, cosine * left + sine * right, cosine * right - np.conj(sine) * left)


def rotm(call: Operands) -> None:
    """The modified rotation of x and y: `param` has a flag, and then h11, h21, h12 and h22 as far as they differ."""
    param = call.numbers("param", 5)
    flag, (h11, h21, h12, h22) = int(param[0]), param[1:]
    if flag == -2:  # the identity
        return
    if flag == 0:
        h11 = h22 = param.dtype.type(1)
    elif flag == 1:
        h12, h21 = param.dtype.type(1), param.dtype.type(-1)
    left, right = read_vector(call, "x"), read_vector(call, "y")
    _write_both(call, h11 * left + h12 * right, h21 * left + h22 * right)


def _write_both(call: Operands, left: Array, right: Array) -> None:
    for name, values in (("x", left), ("y", right)):
        target = call.vector(name, call["n"])
        write(call.gpu, target, values.astype(target.dtype))


def rotg(call: Operands) -> None:
    """The rotation that makes the second of two numbers 0: c and s, with r in place of a and z in place of b."""
    a, b = call.number("a"), call.number("b")
    one, size = type(abs(a))(1), np.hypot(abs(a), abs(b))
    if np.iscomplexobj(a):
        phase = a / abs(a) if a else type(a)(1)
        found = (abs(a) / size, phase * np.conj(b) / size, phase * size) if a else (0 * one, phase, b)
    elif size:
        size = np.copysign(size, a if abs(a) > abs(b) else b)
        found = a / size, b / size, size
    else:
        found = one, 0 * one, size
    cosine, sine, first = found
    call.give("a", first)
    call.give("c", cosine)
    call.give("s", sine)
    if not np.iscomplexobj(a):
        call.give("b", sine if abs(a) > abs(b) or not size else one / cosine if cosine else one)
