"""What cuBLAS computes, by the formulas of its documentation: dense matrices in float64 or complex128.

An operand is a flat array, and its `Shape` says where each element lies. All elements are read into a dense matrix, a
formula of `FORMULAS` gives the results, and only the elements that a shape stores are written. This shares no code with
`tilewright.frontends.cublas`.

Source: cuBLAS, "Using the cuBLAS API", levels 1 to 3 and extensions; storage as in the reference BLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Cells = dict[tuple[int, int], int]
LOWER, UPPER = 0, 1
LEFT, RIGHT = 0, 1
N, T, C = 0, 1, 2
UNIT = 1


@dataclass(frozen=True)
class Shape:
    """Where the elements of an operand lie, and what the elements are that are not stored."""

    rows: int
    columns: int
    cells: Cells
    kind: str = ""  #: "symmetric", "hermitian", "unit" or nothing: zeros.
    most: int = 0  #: How far the array reaches that is documented, with elements that are not read.

    @property
    def size(self) -> int:
        return max([self.most, *(at + 1 for at in self.cells.values())])

    def read(self, flat: Array) -> Array:
        """The dense matrix."""
        dense = np.zeros((self.rows, self.columns), complex)
        for (i, j), at in self.cells.items():
            dense[i, j] = flat[at]
            if self.kind == "symmetric":
                dense[j, i] = flat[at]
            if self.kind == "hermitian":
                dense[i, j], dense[j, i] = (flat[at], flat[at].conjugate()) if i != j else [flat[at].real] * 2
        if self.kind == "unit":
            np.fill_diagonal(dense, 1)
        return dense

    def write(self, flat: Array, dense: Array) -> None:
        """Write the elements that are stored; those on the diagonal of a Hermitian matrix become real."""
        for (i, j), at in self.cells.items():
            flat[at] = dense[i, j].real if self.kind == "hermitian" and i == j else dense[i, j]


def vector(n: int, step: int) -> Shape:
    """Of a negative increment, the first element lies last."""
    start = (1 - n) * step if step < 0 else 0
    return Shape(n, 1, {(i, 0): start + i * step for i in range(n)})


def matrix(rows: int, columns: int, leading: int) -> Shape:
    return Shape(rows, columns, {(i, j): i + j * leading for j in range(columns) for i in range(rows)})


def triangle(
    n: int, uplo: int, kind: str, place: Callable[[int, int], int], width: int | None = None, unit: bool = False
) -> Shape:
    """The elements of one triangle, at most `width` beside the diagonal; none of the diagonal if it is `unit`."""
    cells = {}
    for i in range(n):
        for j in range(n):
            inside = i >= j if uplo == LOWER else i <= j
            if inside and (width is None or abs(i - j) <= width) and not (unit and i == j):
                cells[i, j] = place(i, j)
    reach = place(n - 1, n - 1) + (width or 0) * (uplo == LOWER) + 1 if n else 0
    return Shape(n, n, cells, "unit" if unit else kind, reach)


def shapes(base: str, p: Any) -> dict[str, Shape]:
    """The shape of each operand of a function, by the names of the parameters."""
    found: dict[str, Shape] = {}
    n, m, k = (getattr(p, name, 0) for name in "nmk")
    trans, transa, transb = (getattr(p, name, N) for name in ("trans", "transa", "transb"))
    left = getattr(p, "side", getattr(p, "mode", LEFT)) == LEFT
    kind = {"s": "symmetric", "h": "hermitian", "t": ""}.get(base[0], "")
    unit = getattr(p, "diag", 0) == UNIT

    def full(name: str, rows: int, columns: int) -> None:
        found[name] = matrix(rows, columns, getattr(p, f"ld{name.lower()}"))

    def half(name: str, order: int, width: int | None = None, unit: bool = False) -> None:
        leading = getattr(p, f"ld{name.lower()}", 0)
        if name == "AP":
            place = (
                (lambda i, j: i + (2 * n - j - 1) * j // 2) if p.uplo == LOWER else (lambda i, j: i + j * (j + 1) // 2)
            )
        elif width is not None:
            place = lambda i, j: (i - j if p.uplo == LOWER else width + i - j) + j * leading  # noqa: E731
        else:
            place = lambda i, j: i + j * leading  # noqa: E731
        found[name] = triangle(order, p.uplo, kind, place, width, unit)

    def vectors(**lengths: int) -> None:
        for name, length in lengths.items():
            found[name] = vector(length, getattr(p, f"inc{name}"))

    match base:
        case "amax" | "amin" | "asum" | "nrm2" | "scal":
            vectors(x=n)
        case "axpy" | "copy" | "swap" | "dot" | "dotu" | "dotc" | "rot" | "rotm":
            vectors(x=n, y=n)
        case "gemv":
            full("A", m, n)
            vectors(x=n if trans == N else m, y=m if trans == N else n)
        case "gbmv":
            inside = [(i, j) for j in range(n) for i in range(m) if -p.ku <= i - j <= p.kl]
            cells = {(i, j): p.ku + i - j + j * p.lda for i, j in inside}
            found["A"] = Shape(m, n, cells, most=(n - 1) * p.lda + p.kl + p.ku + 1 if m and n else 0)
            vectors(x=n if trans == N else m, y=m if trans == N else n)
        case "ger" | "geru" | "gerc":
            full("A", m, n)
            vectors(x=m, y=n)
        case "symv" | "hemv" | "syr2" | "her2":
            half("A", n)
            vectors(x=n, y=n)
        case "sbmv" | "hbmv":
            half("A", n, k)
            vectors(x=n, y=n)
        case "spmv" | "hpmv" | "spr2" | "hpr2":
            half("AP", n)
            vectors(x=n, y=n)
        case "syr" | "her":
            half("A", n)
            vectors(x=n)
        case "spr" | "hpr":
            half("AP", n)
            vectors(x=n)
        case "trmv" | "trsv":
            half("A", n, unit=unit)
            vectors(x=n)
        case "tbmv" | "tbsv":
            half("A", n, k, unit)
            vectors(x=n)
        case "tpmv" | "tpsv":
            half("AP", n, unit=unit)
            vectors(x=n)
        case "gemm":
            full("A", *((m, k) if transa == N else (k, m)))
            full("B", *((k, n) if transb == N else (n, k)))
            full("C", m, n)
        case "symm" | "hemm":
            half("A", m if left else n)
            full("B", m, n)
            full("C", m, n)
        case "syrk" | "herk" | "syr2k" | "her2k" | "syrkx" | "herkx":
            full("A", *((n, k) if trans == N else (k, n)))
            if hasattr(p, "ldb"):
                full("B", *((n, k) if trans == N else (k, n)))
            half("C", n)
        case "trmm" | "trsm":
            half("A", m if left else n, unit=unit)
            full("B", m, n)
            if base == "trmm":
                full("C", m, n)
        case "tpttr" | "trttp":
            half("A", n)
            half("AP", n)
        case "geam":
            full("A", *((m, n) if transa == N else (n, m)))
            full("B", *((m, n) if transb == N else (n, m)))
            full("C", m, n)
        case "dgmm":
            full("A", m, n)
            vectors(x=m if left else n)
            full("C", m, n)
    return found


def op(operation: int, dense: Array) -> Array:
    return dense if operation == N else dense.T if operation == T else dense.conj().T


def times(number: complex, values: Callable[[], Array]) -> Any:
    """What a coefficient of zero leaves out is not read."""
    return number * values() if number else 0


def solved(operation: int, triangular: Array, right: Array) -> Array:
    """The X of op(A) X = B, by substitution."""
    a, x = op(operation, triangular), right.copy()
    n = len(a)
    forward = all(a[i, j] == 0 for i in range(n) for j in range(i + 1, n))
    done: list[int] = []
    for i in range(n) if forward else reversed(range(n)):
        for j in done:
            x[i] -= a[i, j] * x[j]
        x[i] /= a[i, i]
        done.append(i)
    return x


def _size(x: Array) -> Array:
    return np.abs(x.real) + np.abs(x.imag)


def _first(p: Any, best: Callable[[Array], Any]) -> Any:
    """The number of the first largest or smallest, from 1; 0 without elements."""
    return {"result": 0 if p.n <= 0 or p.incx <= 0 else int(best(_size(p.x[:, 0]))) + 1}


def _rotg(p: Any) -> dict[str, Any]:
    a, b = p.a, p.b
    if p.complex:
        if a == 0:
            return {"a": b, "b": b, "c": 0, "s": 1}
        length = np.hypot(abs(a), abs(b))
        return {"a": a / abs(a) * length, "b": b, "c": abs(a) / length, "s": a / abs(a) * np.conj(b) / length}
    if a == 0 and b == 0:
        return {"a": 0, "b": 0, "c": 1, "s": 0}
    larger = a if abs(a) > abs(b) else b
    r = np.copysign(np.hypot(a.real, b.real), larger.real)
    c, s = a / r, b / r
    return {"a": r, "b": s if abs(a) > abs(b) else 1 / c if c else 1, "c": c, "s": s}


def _rotm(p: Any) -> dict[str, Any]:
    flag, h11, h21, h12, h22 = p.param
    if flag == -2:
        h11, h12, h21, h22 = 1, 0, 0, 1
    elif flag == 0:
        h11, h22 = 1, 1
    elif flag == 1:
        h12, h21 = 1, -1
    return {"x": h11 * p.x + h12 * p.y, "y": h21 * p.x + h22 * p.y}


def _rank(p: Any, transpose: Callable[[Array], Array]) -> Any:
    a = p.A if p.trans == N else transpose(p.A)
    b = p.B if hasattr(p, "B") else p.A
    b = b if p.trans == N else transpose(b)
    return a, b


def _transposed(a: Array) -> Array:
    return a.T


def _conjugated(a: Array) -> Array:
    return a.conj().T


def _k(turn: Callable[[Array], Array], both: bool = False) -> Callable[[Any], dict[str, Any]]:
    """A product of rank k; of two matrices `both` ways."""

    def formula(p: Any) -> dict[str, Any]:
        a, b = _rank(p, turn)
        other = np.conj(p.alpha) if turn is _conjugated else p.alpha
        product = times(p.alpha, lambda: a @ turn(b))
        if both:
            product = product + times(other, lambda: b @ turn(a))
        return {"C": product + times(p.beta, lambda: p.C)}

    return formula


def _vector_product(p: Any) -> dict[str, Any]:
    a = _triangular(p)
    if not a.size:  # as in the reference BLAS; a product of matrices with k of 0 is scaled
        return {}
    return {"y": times(p.alpha, lambda: op(getattr(p, "trans", N), a) @ p.x) + times(p.beta, lambda: p.y)}


def _outer(turn: Callable[[Array], Array], both: bool = False) -> Callable[[Any], dict[str, Any]]:
    def formula(p: Any) -> dict[str, Any]:
        name = "A" if hasattr(p, "A") else "AP"
        y = getattr(p, "y", p.x)
        product = times(p.alpha, lambda: p.x @ turn(y))
        if both:
            other = np.conj(p.alpha) if turn is _conjugated else p.alpha
            product = product + times(other, lambda: y @ turn(p.x))
        return {name: getattr(p, name) + product}

    return formula


def _triangular(p: Any) -> Array:
    found: Array = getattr(p, "A", getattr(p, "AP", None))
    return found


def _times_triangle(p: Any) -> dict[str, Any]:
    return {"x": op(p.trans, _triangular(p)) @ p.x}


def _solve_vector(p: Any) -> dict[str, Any]:
    return {"x": solved(p.trans, _triangular(p), p.x)}


def _trmm(p: Any) -> dict[str, Any]:
    a = op(p.trans, p.A)
    return {"C": times(p.alpha, lambda: a @ p.B if p.side == LEFT else p.B @ a)}


def _trsm(p: Any) -> dict[str, Any]:
    if not p.alpha:
        return {"B": np.zeros((p.m, p.n))}
    if p.side == LEFT:
        return {"B": solved(p.trans, p.A, p.alpha * p.B)}
    turned = solved(T, op(p.trans, p.A), (p.alpha * p.B).T)  # X op(A) = B, transposed
    return {"B": turned.T}


def _gemm(p: Any) -> dict[str, Any]:
    product = times(p.alpha, lambda: op(p.transa, p.A) @ op(p.transb, p.B))
    return {"C": product + times(p.beta, lambda: p.C)}


def _sides(p: Any) -> dict[str, Any]:
    product = times(p.alpha, lambda: p.A @ p.B if p.side == LEFT else p.B @ p.A)
    return {"C": product + times(p.beta, lambda: p.C)}


def _dot(turn: Callable[[Array], Array]) -> Callable[[Any], dict[str, Any]]:
    return lambda p: {"result": (turn(p.x) @ p.y)[0, 0]}


FORMULAS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "amax": lambda p: _first(p, np.argmax),
    "amin": lambda p: _first(p, np.argmin),
    "asum": lambda p: {"result": _size(p.x).sum()},
    "nrm2": lambda p: {"result": np.sqrt((np.abs(p.x) ** 2).sum())},
    "axpy": lambda p: {"y": p.y + times(p.alpha, lambda: p.x)},
    "copy": lambda p: {"y": p.x},
    "swap": lambda p: {"x": p.y, "y": p.x},
    "dot": _dot(_transposed),
    "dotu": _dot(_transposed),
    "dotc": _dot(_conjugated),
    "scal": lambda p: {"x": p.alpha * p.x},
    "rot": lambda p: {"x": p.c * p.x + p.s * p.y, "y": p.c * p.y - np.conj(p.s) * p.x},
    "rotg": _rotg,
    "rotm": _rotm,
    **dict.fromkeys("gemv gbmv symv hemv sbmv hbmv spmv hpmv".split(), _vector_product),
    **dict.fromkeys("ger geru syr spr".split(), _outer(_transposed)),
    **dict.fromkeys("gerc her hpr".split(), _outer(_conjugated)),
    **dict.fromkeys("syr2 spr2".split(), _outer(_transposed, both=True)),
    **dict.fromkeys("her2 hpr2".split(), _outer(_conjugated, both=True)),
    **dict.fromkeys("trmv tbmv tpmv".split(), _times_triangle),
    **dict.fromkeys("trsv tbsv tpsv".split(), _solve_vector),
    "gemm": _gemm,
    **dict.fromkeys("symm hemm".split(), _sides),
    **dict.fromkeys("syrk syrkx".split(), _k(_transposed)),
    **dict.fromkeys("herk herkx".split(), _k(_conjugated)),
    "syr2k": _k(_transposed, both=True),
    "her2k": _k(_conjugated, both=True),
    "trmm": _trmm,
    "trsm": _trsm,
    "tpttr": lambda p: {"A": p.AP},
    "trttp": lambda p: {"AP": p.A},
    "geam": lambda p: {
        "C": times(p.alpha, lambda: op(p.transa, p.A)) + times(p.beta, lambda: op(p.transb, p.B))
    },
    "dgmm": lambda p: {"C": p.x * p.A if p.side == LEFT else p.A * p.x.T},
}  # fmt: skip


def apply(base: str, given: Mapping[str, Any], flats: Mapping[str, Array]) -> dict[str, Any]:
    """Compute a call: change the flat arrays of operands; return its numbers by name."""
    found = shapes(base, SimpleNamespace(**given))
    dense = {name: shape.read(flats[name]) for name, shape in found.items()}
    results = FORMULAS[base](SimpleNamespace(**{**given, **dense}))
    numbers = {}
    for name, value in results.items():
        if name in found:
            shape = found[name]
            shape.write(flats[name], np.broadcast_to(value, (shape.rows, shape.columns)))
        else:
            numbers[name] = value
    return numbers
