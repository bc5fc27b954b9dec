"""Level 3 of cuBLAS on the host, but for `gemm` (`products.py`), and its extensions. `tw.matmul` multiplies.

Source: cuBLAS, "Level-3 Function Reference", "BLAS-like Extension"; BLAS.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontends.cublas.operands import Operands, RefusedCall
from tilewright.frontends.cublas.products import multiply
from tilewright.frontends.cublas.storage import (
    is_upper,
    multiplied,
    packed,
    solved,
    triangle,
    triangular,
    update,
    whole,
)
from tilewright.frontends.host_arrays import Array, read, write


def trmm(call: Operands) -> None:
    """C = alpha op(A) B, or alpha B op(A)."""
    _beside(call, multiplied, "C")


def trsm(call: Operands) -> None:
    """Solve op(A) X = alpha B, or X op(A) = alpha B; X is in place of B."""
    _beside(call, solved, "B")


def trsmBatched(call: Operands) -> None:
    """The same for matrices whose addresses are in arrays on the device."""
    for one in call.each():
        trsm(one)


def _beside(call: Operands, function: Callable[[Array, Array, bool], Array], result: str) -> None:
    m, n, right = call["m"], call["n"], call["side"]
    alpha, target = call.number("alpha"), call.matrix(result, m, n)
    columns = triangle(call, "A", n if right else m)
    call.leading("lda", n if right else m)
    call.leading("ldb", m)
    if not target.size:
        return
    if not alpha:
        write(call.gpu, target, np.zeros_like(target))
        return
    matrix, values = triangular(call, columns, n if right else m), read(call.gpu, call.matrix("B", m, n)) * alpha
    found = function(matrix.T, values.T, not is_upper(call)).T if right else function(matrix, values, is_upper(call))
    write(call.gpu, target, found)


# -- symmetric matrices -----------------------------------------------------------------------------------------


def symm(call: Operands) -> None:
    """C = alpha A B + beta C, or alpha B A + beta C, for a symmetric A."""
    _symmetric(call, hermitian=False)


def hemm(call: Operands) -> None:
    """The same for a Hermitian A."""
    _symmetric(call, hermitian=True)


def _symmetric(call: Operands, *, hermitian: bool) -> None:
    m, n = call["m"], call["n"]
    size = n if call["side"] else m
    target, alpha, beta = call.matrix("C", m, n), call.number("alpha"), call.number("beta")
    call.leading("lda", size)
    call.leading("ldb", m)
    if not target.size:
        return
    pair: list[Array | None] = [None, None]
    if alpha:
        pair = [whole(call, triangle(call, "A", size), size, hermitian=hermitian), call.operand("B", m, n)]
    left, right = pair[::-1] if call["side"] else pair
    multiply(call.gpu, target, left, right, alpha, beta)


def syrk(call: Operands) -> None:
    """One triangle of C = alpha op(A) op(B)^T + beta C; without B it is A."""
    _rank_k(call, hermitian=False, both=False)


def herk(call: Operands) -> None:
    """One triangle of C = alpha op(A) op(B)^H + beta C; without B it is A."""
    _rank_k(call, hermitian=True, both=False)


def syr2k(call: Operands) -> None:
    """One triangle of C = alpha (op(A) op(B)^T + op(B) op(A)^T) + beta C."""
    _rank_k(call, hermitian=False, both=True)


def her2k(call: Operands) -> None:
    """One triangle of C = alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C."""
    _rank_k(call, hermitian=True, both=True)


syrkx = syrkEx = syrk3mEx = syrk
herkx = herkEx = herk3mEx = herk


def _rank_k(call: Operands, *, hermitian: bool, both: bool) -> None:
    n, k, operation = call["n"], call["k"], call["trans"]
    columns, alpha, beta = triangle(call, "C", n), call.number("alpha"), call.number("beta")
    names = ("A", "B") if "B" in call.given else ("A", "A")
    call.leading("ldc", n)
    for name in names:
        call.leading(f"ld{name.lower()}", k if operation else n)
    change = np.zeros((n, n), call.dtype())
    if alpha and k and n:
        left, right = (call.operand(name, n, k, operation) for name in names)
        change = alpha * _outer(left, right, hermitian=hermitian)
        if both:
            factor = np.conj(alpha) if hermitian else alpha
            change = change + factor * _outer(right, left, hermitian=hermitian)
    update(call, columns, change.astype(call.dtype()), beta, hermitian=hermitian)


def _outer(left: Array, right: Array, *, hermitian: bool) -> Array:
    """A product with the transpose, or its conjugate, of the second matrix."""
    return multiplied(left, right.conj().T if hermitian else right.T, False)


# -- extensions -------------------------------------------------------------------------------------------------


def geam(call: Operands) -> None:
    """C = alpha op(A) + beta op(B)."""
    m, n = call["m"], call["n"]
    target, values = call.matrix("C", m, n), np.zeros((m, n), call.dtype())
    for name, number in (("A", "alpha"), ("B", "beta")):
        factor, operation = call.number(number), call[f"trans{name.lower()}"]
        leading = call.leading(f"ld{name.lower()}", n if operation else m)
        if call[name] == call["C"] and target.size and (operation or leading != call["ldc"]):
            raise RefusedCall("INVALID_VALUE", f"C in place of {name} needs {name} as it is, and `ldc` to be its own")
        if factor and target.size:
            values = values + factor * call.operand(name, m, n, operation)
    write(call.gpu, target, values)


def dgmm(call: Operands) -> None:
    """C = A diag(x), or diag(x) A with the left side."""
    m, n, right = call["m"], call["n"], call["side"]
    target, matrix = call.matrix("C", m, n), call.operand("A", m, n)
    if target.size:
        count, step = (n if right else m), call.given["incx"]
        diagonal = (
            read(call.gpu, call.vector("x", count)) if step else read(call.gpu, call.vector("x", 1)).repeat(count)
        )
        write(call.gpu, target, matrix * (diagonal[None, :] if right else diagonal[:, None]))


def tpttr(call: Operands) -> None:
    """A triangle of A from a packed one."""
    call.leading("lda", call["n"])
    for (_, _, stored), (_, _, target) in zip(packed(call, call["n"]), triangle(call, "A", call["n"]), strict=True):
        write(call.gpu, target, read(call.gpu, stored))


def trttp(call: Operands) -> None:
    """A packed triangle from one of A."""
    call.leading("lda", call["n"])
    for (_, _, stored), (_, _, target) in zip(triangle(call, "A", call["n"]), packed(call, call["n"]), strict=True):
        write(call.gpu, target, read(call.gpu, stored))
