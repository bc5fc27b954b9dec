"""Symmetric, triangular, banded and packed matrices of cuBLAS, as dense ones of NumPy, and what is done with these.

Only what a call names is read and written: one triangle, without its diagonal of ones, or a band.

Source: cuBLAS, "Level-2 Function Reference"; BLAS, "Storage of matrices".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.frontends.cublas.operands import UPPER, Operands, turned
from tilewright.frontends.host_arrays import Array, array_at, read, write

#: The columns of what is stored: number, rows, and elements in memory.
Columns = Iterator[tuple[int, slice, Array]]


def triangle(call: Operands, name: str, n: int) -> Columns:
    """The columns of a triangle of an n x n matrix, which is refused at once if it is not in memory."""
    stored = call.matrix(name, n, n)
    return ((at, rows, stored[rows, at]) for at, rows in _places(call, n))


def packed(call: Operands, n: int) -> Columns:
    """The columns of a packed triangle, one behind the other."""
    stored = array_at(call.gpu, call["AP"], call.dtype(), (n * (n + 1) // 2,))
    ends = itertools.accumulate(rows.stop - rows.start for _, rows in _places(call, n))
    return (
        (at, rows, stored[end - rows.stop + rows.start : end])
        for (at, rows), end in zip(_places(call, n), ends, strict=True)
    )


def _places(call: Operands, n: int) -> Iterator[tuple[int, slice]]:
    """The columns of a triangle, with the rows of each."""
    return ((at, slice(0, at + 1) if call["uplo"] == UPPER else slice(at, n)) for at in range(n))


def band(call: Operands, rows: int, columns: int, below: int, above: int) -> Columns:
    """The columns of a band: element (i, j) is in row above + i - j of column j."""
    leading = call.leading("lda", below + above + 1)
    stored = call.at(call["A"], below + above + 1, columns, leading, call.dtype())
    places = ((at, max(0, at - above), min(rows, at + below + 1)) for at in range(columns))
    return (
        (at, slice(first, last), stored[above + first - at : above + last - at, at])
        for at, first, last in places
        if first < last
    )


def bands(call: Operands) -> Columns:
    """A triangle with k diagonals beside the main one."""
    upper = call["uplo"] == UPPER
    return band(call, call["n"], call["n"], 0 if upper else call["k"], call["k"] if upper else 0)


def dense(call: Operands, columns: Columns, shape: tuple[int, int]) -> Array:
    """The matrix, with 0 for what is not stored."""
    found = np.zeros(shape, call.dtype())
    for at, rows, stored in columns:
        found[rows, at] = read(call.gpu, stored)
    return found


def whole(call: Operands, columns: Columns, n: int, *, hermitian: bool) -> Array:
    """A symmetric or Hermitian matrix from its triangle."""
    found = dense(call, columns, (n, n))
    diagonal = np.diag(found).real if hermitian else np.diag(found)
    found = found + (found.conj().T if hermitian else found.T)
    np.fill_diagonal(found, diagonal)
    return found


def triangular(call: Operands, columns: Columns, n: int) -> Array:
    """Op of a triangular matrix; a diagonal of ones is not read."""
    found = dense(call, _below(columns, call["uplo"]) if call["diag"] else columns, (n, n))
    if call["diag"]:
        np.fill_diagonal(found, 1)
    return turned(found, call["trans"])


def _below(columns: Columns, uplo: int) -> Columns:
    """The columns of a triangle without its diagonal."""
    for at, rows, stored in columns:
        yield (at, slice(rows.start, at), stored[:-1]) if uplo == UPPER else (at, slice(at + 1, rows.stop), stored[1:])


def update(call: Operands, columns: Columns, change: Array, beta: Any, *, hermitian: bool) -> None:
    """Store change + beta C in a triangle; None adds to what is there. The diagonal of a Hermitian matrix is real."""
    for at, rows, stored in columns:
        values = change[rows, at].copy()
        if beta is None or beta:
            values += read(call.gpu, stored) if beta is None else beta * read(call.gpu, stored)
        if hermitian:
            values.imag[at - rows.start] = 0
        write(call.gpu, stored, values.astype(stored.dtype))


def is_upper(call: Operands) -> bool:
    """Whether op(A) is an upper triangle."""
    return (call["uplo"] == UPPER) != bool(call["trans"])


def multiplied(matrix: Array, values: Array, upper: bool) -> Array:
    """The product of a matrix with columns."""
    import tilewright as tw

    found: Array = tw.matmul(matrix, values)
    return found


def solved(matrix: Array, values: Array, upper: bool) -> Array:
    """Solve by substitution, row by row; a zero on the diagonal gives infinities, as BLAS's do."""
    n = len(matrix)
    found = values.copy()
    with np.errstate(all="ignore"):
        for at in reversed(range(n)) if upper else range(n):
            known = slice(at + 1, n) if upper else slice(0, at)
            found[at] = (found[at] - matrix[at, known] @ found[known]) / matrix[at, at]
    return found
