"""Level 1 of cuBLAS on the host: functions of vectors. `tw.matmul` computes sums of products, in the canonical order.

Source: cuBLAS, "Level-1 Function Reference"; BLAS, `srotg`, `srotm`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


amaxEx, aminEx, AsumEx, Nrm2Ex, dotu, DotEx, DotcEx = amax, amin, asum, nrm2, dot, dot, dotc


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


AxpyEx, CopyEx, SwapEx, ScalEx = axpy, copy, swap, scal


def rot(call: Operands) -> None:
    """x, y = c x + s y, c y - conj(s) x."""
    cosine, sine = (call.numbers(name, 1).astype(_sums(call.number_type(name))) for name in "cs")
    left, right = _pair(call)
    _write_both(call, cosine * left + sine * right, cosine * right - np.conj(sine) * left)


def rotm(call: Operands) -> None:
    """The modified rotation of x and y: `param` has a flag, and then h11, h21, h12 and h22 as far as they differ."""
    param = call.numbers("param", 5).astype(_sums(call.number_type("param")))
    flag, (h11, h21, h12, h22) = int(param[0]), param[1:]
    if flag == -2:  # the identity
        return
    if flag == 0:
        h11 = h22 = param.dtype.type(1)
    elif flag == 1:
        h12, h21 = param.dtype.type(1), param.dtype.type(-1)
    left, right = _pair(call)
    _write_both(call, h11 * left + h12 * right, h21 * left + h22 * right)


def _pair(call: Operands) -> Iterator[Array]:
    """The elements of x and y, in the type in which they are rotated."""
    return (read_vector(call, name).astype(_sums(call.dtype(f"{name}Type"))) for name in "xy")


def _write_both(call: Operands, left: Array, right: Array) -> None:
    for name, values in (("x", left), ("y", right)):
        target = call.vector(name, call["n"])
        write(call.gpu, target, values.astype(target.dtype))


def rotg(call: Operands) -> None:
    """The rotation that makes the second of two numbers 0: c and s, with r in place of a and z in place of b."""
    a, b = (call.numbers(name, 1).astype(_sums(call.number_type(name)))[0] for name in "ab")
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


#: The number whose square keeps the factors of a modified rotation from vanishing and from overflowing.
_GAMMA = 4096


def rotmg(call: Operands) -> None:
    """The modified rotation that makes the second of two numbers with factors 0: `param`, as in `rotm`."""
    kind = call.number_type("x1")
    d1, d2, x, y = (call.number(name).astype(_sums(kind)) for name in ("d1", "d2", "x1", "y1"))
    with np.errstate(all="ignore"):
        flag, matrix, (d1, d2, x) = _modified(d1, d2, x, y)
    for name, value in (("d1", d1), ("d2", d2), ("x1", x)):
        call.give(name, value)
    call.give("param", flag)
    for at in {-2: (), -1: (0, 1, 2, 3), 0: (1, 2), 1: (0, 3)}[flag]:
        call.give("param", matrix[at], 1 + at)


def _modified(d1: Any, d2: Any, x: Any, y: Any) -> tuple[int, list[Any], tuple[Any, Any, Any]]:
    """Flag, h11, h21, h12 and h22, and the two factors and the first number afterwards."""
    zero, one = d1 * 0, d1 * 0 + 1
    nothing = -1, [zero] * 4, (zero, zero, zero)
    p1, p2 = d1 * x, d2 * y
    if d1 < 0:
        return nothing
    if p2 == 0:
        return -2, [], (d1, d2, x)
    if abs(p1 * x) > abs(p2 * y):
        matrix = [one, -y / x, p2 / p1, one]
        scale = one - matrix[2] * matrix[1]
        if scale <= 0:
            return nothing
        flag, d1, d2, x = 0, d1 / scale, d2 / scale, x * scale
    elif p2 * y < 0:
        return nothing
    else:
        matrix = [p1 / p2, -one, one, x / y]
        scale = one + matrix[0] * matrix[3]
        flag, d1, d2, x = 1, d2 / scale, d1 / scale, y * scale
    d1, first = _scaled(d1)
    d2, second = _scaled(d2)
    matrix = [matrix[0] / first, matrix[1] / second, matrix[2] / first, matrix[3] / second]
    return (flag if first == second == 1 else -1), matrix, (d1, d2, x / first)


def _scaled(factor: Any) -> tuple[Any, Any]:
    """A factor between the limits, and the root of that by which it was multiplied."""
    root = factor * 0 + 1
    while factor and np.isfinite(factor) and not 1 / _GAMMA**2 < abs(factor) < _GAMMA**2:
        step = type(root)(_GAMMA if abs(factor) < 1 else 1 / _GAMMA)
        factor, root = factor * step * step, root * step
    return factor, root


RotEx, RotmEx, RotgEx, RotmgEx = rot, rotm, rotg, rotmg
