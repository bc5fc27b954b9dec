"""Level 2 of cuBLAS on the host: matrices and vectors. `tw.matmul` multiplies them.

Source: cuBLAS, "Level-2 Function Reference"; BLAS.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontends.cublas.level1 import read_vector
from tilewright.frontends.cublas.operands import Operands, RefusedCall, turned
from tilewright.frontends.cublas.products import combine, multiply
from tilewright.frontends.cublas.storage import (
    Columns,
    band,
    bands,
    dense,
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


def _steps(call: Operands) -> None:
    """Refuse increments of 0, and columns that are too near to each other."""
    for name in ("incx", "incy"):
        if call.given.get(name, 1) == 0:
            raise RefusedCall("INVALID_VALUE", f"`{name}` must not be 0")
    given = call.given
    if "lda" in given:
        band = given["kl"] + given["ku"] + 1 if "kl" in given else given["k"] + 1 if "k" in given else 0
        call.leading("lda", band or given.get("m", given["n"]))


# -- products with vectors --------------------------------------------------------------------------------------


def gemv(call: Operands) -> None:
    """Y = alpha op(A) x + beta y."""
    rows, columns = (call["n"], call["m"]) if call["trans"] else (call["m"], call["n"])
    _times(call, lambda: call.operand("A", rows, columns, call["trans"]), rows, columns)


def gemvBatched(call: Operands) -> None:
    """The products of matrices and vectors whose addresses are in arrays on the device, or at equal distances."""
    for one in call.each():
        gemv(one)


gemvStridedBatched = gemvBatched


def gbmv(call: Operands) -> None:
    """Y = alpha op(A) x + beta y for a band."""
    m, n = call["m"], call["n"]
    rows, columns = (n, m) if call["trans"] else (m, n)

    def matrix() -> Array:
        return turned(dense(call, band(call, m, n, call["kl"], call["ku"]), (m, n)), call["trans"])

    _times(call, matrix, rows, columns)


def symv(call: Operands) -> None:
    """Y = alpha A x + beta y for a symmetric matrix."""
    _times_whole(call, lambda: triangle(call, "A", call["n"]), hermitian=False)


def hemv(call: Operands) -> None:
    """The same for a Hermitian matrix."""
    _times_whole(call, lambda: triangle(call, "A", call["n"]), hermitian=True)


def sbmv(call: Operands) -> None:
    """The same for a symmetric band."""
    _times_whole(call, lambda: bands(call), hermitian=False)


def hbmv(call: Operands) -> None:
    """The same for a Hermitian band."""
    _times_whole(call, lambda: bands(call), hermitian=True)


def spmv(call: Operands) -> None:
    """The same for a packed symmetric matrix."""
    _times_whole(call, lambda: packed(call, call["n"]), hermitian=False)


def hpmv(call: Operands) -> None:
    """The same for a packed Hermitian matrix."""
    _times_whole(call, lambda: packed(call, call["n"]), hermitian=True)


def _times_whole(call: Operands, columns: Callable[[], Columns], *, hermitian: bool) -> None:
    n = call["n"]
    _times(call, lambda: whole(call, columns(), n, hermitian=hermitian), n, n)


def _times(call: Operands, matrix: Callable[[], Array], rows: int, columns: int) -> None:
    """Y = alpha op(A) x + beta y; A is read only if alpha is not 0."""
    _steps(call)
    alpha, beta = call.number("alpha"), call.number("beta")
    if not rows or not columns:
        return
    target = call.vector("y", rows)
    left = matrix() if alpha else None
    right = read(call.gpu, call.vector("x", columns)) if alpha else None
    if left is None or right is None or left.dtype.itemsize > 2:
        multiply(call.gpu, target, left, right, alpha, beta)
        return
    found = read(call.gpu, target).astype(np.float32) if beta else np.zeros(rows, np.float32)
    combine(call.gpu, found, left.astype(np.float32), right.astype(np.float32), alpha, beta)
    write(call.gpu, target, found.astype(target.dtype))


# -- updates by vectors -----------------------------------------------------------------------------------------


def ger(call: Operands) -> None:
    """A = alpha x y^T + A."""
    _rank_one(call, conjugated=False)


def gerc(call: Operands) -> None:
    """A = alpha x y^H + A."""
    _rank_one(call, conjugated=True)


geru = ger


def _rank_one(call: Operands, *, conjugated: bool) -> None:
    _steps(call)
    target, alpha = call.matrix("A", call["m"], call["n"]), call.number("alpha")
    if alpha and target.size:
        x, y = (read(call.gpu, call.vector(name, count)) for name, count in (("x", call["m"]), ("y", call["n"])))
        write(call.gpu, target, alpha * np.outer(x, y.conj() if conjugated else y) + read(call.gpu, target))


def syr(call: Operands) -> None:
    """A = alpha x x^T + A, in one triangle."""
    _rank_one_triangle(call, triangle(call, "A", call["n"]), hermitian=False)


def her(call: Operands) -> None:
    """A = alpha x x^H + A, in one triangle."""
    _rank_one_triangle(call, triangle(call, "A", call["n"]), hermitian=True)


def spr(call: Operands) -> None:
    """The same for a packed symmetric matrix."""
    _rank_one_triangle(call, packed(call, call["n"]), hermitian=False)


def hpr(call: Operands) -> None:
    """The same for a packed Hermitian matrix."""
    _rank_one_triangle(call, packed(call, call["n"]), hermitian=True)


syr2, her2, spr2, hpr2 = syr, her, spr, hpr


def _rank_one_triangle(call: Operands, columns: Columns, *, hermitian: bool) -> None:
    """With y it is the update by alpha x y^T and its transpose."""
    _steps(call)
    alpha = call.number("alpha")
    if not alpha or not call["n"]:
        return
    x = read_vector(call, "x").copy()
    y = read_vector(call, "y").copy() if "y" in call.given else x
    change = alpha * np.outer(x, y.conj() if hermitian else y)
    if "y" in call.given:
        change = change + (change.conj().T if hermitian else change.T)
    update(call, columns, change, None, hermitian=hermitian)


# -- triangular matrices ----------------------------------------------------------------------------------------


def trmv(call: Operands) -> None:
    """X = op(A) x for a triangular matrix."""
    _transform(call, triangle(call, "A", call["n"]), multiplied)


def tbmv(call: Operands) -> None:
    """The same for a band."""
    _transform(call, bands(call), multiplied)


def tpmv(call: Operands) -> None:
    """The same for a packed matrix."""
    _transform(call, packed(call, call["n"]), multiplied)


def trsv(call: Operands) -> None:
    """Solve op(A) x = b, which is in place of x."""
    _transform(call, triangle(call, "A", call["n"]), solved)


def tbsv(call: Operands) -> None:
    """The same for a band."""
    _transform(call, bands(call), solved)


def tpsv(call: Operands) -> None:
    """The same for a packed matrix."""
    _transform(call, packed(call, call["n"]), solved)


def _transform(call: Operands, columns: Columns, function: Callable[[Array, Array, bool], Array]) -> None:
    _steps(call)
    if call["n"]:
        target = read_vector(call, "x")
        matrix = triangular(call, columns, call["n"])
        write(call.gpu, target, function(matrix, target.copy()[:, None], is_upper(call))[:, 0])
