"""Which kernel multiplies which dtypes on this host, and how C is cut into parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tilewright.cpu.contexts import KernelKey, Tile, vector_bytes
from tilewright.cpu.elements import element
from tilewright.native.compiler import compiler
from tilewright.problem.algebra import Semiring
from tilewright.problem.dtypes import dtype

Array = npt.NDArray[Any]
#: Register type by accumulator dtype. Narrow integers are summed in 32 bits: the same modulo their own width.
REGISTERS = {
    "float16": "float", "bfloat16": "float", "float32": "float", "float64": "double",
    "int8": "i32", "uint8": "i32", "int16": "i32", "uint16": "i32", "int32": "i32", "uint32": "i32",
    "int64": "i64", "uint64": "i64", "complex64": "float", "complex128": "double",
}  # fmt: skip
#: Bytes of one part's sums where they cannot be kept in the output, and rows of A packed at a time.
_SUMS_BYTES = 4 << 20
_PACKED_ROWS = 1536


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of C."""

    row: int
    rows: int
    column: int
    columns: int


def kernel_key(a: str, b: str, c: str, accumulator: str, algebra: Semiring | None = None) -> KernelKey:
    """The kernel for operand, output and accumulator dtypes on this host."""
    features = compiler().features
    if algebra is not None:  # its operations are not the same modulo a narrower width
        return KernelKey(a, b, c, element(accumulator).memory, "semiring", vector_bytes(features), algebra)
    register = REGISTERS[accumulator]
    family = "fma" if register in ("float", "double") else "integer"
    if register == "i32" and dot_product_fits(a, b, c, features):
        family = "dot"
    return KernelKey(a, b, c, register, family, vector_bytes(features))


def dot_product_fits(a: str, b: str, c: str, features: str) -> bool:
    """Whether the host's dot-product instructions give these dtypes' exact result.

    Bytes of any signs do. Words must be signed, or the result be cut to 16 bits, where signs do not matter.
    """
    present = set(features.split(","))
    if "+avx512vnni" not in present or vector_bytes(features) != 64:
        return False
    records = [dtype(name) for name in (a, b)]
    if any(r.is_float for r in records) or len({r.bytes for r in records}) > 1:
        return False
    width = records[0].bytes
    return width == 1 or (width == 2 and (dtype(c).bytes <= 2 or all(r.kind == "signed" for r in records)))


def parts(
    m: int, n: int, tile: Tile, threads: int, *, in_place: bool, sum_bytes: int, by_rows: bool = False
) -> list[Part]:
    """Cut C into rectangles of whole tiles, at least one a thread where there are enough.

    Each part packs what it needs of A and B: threads share columns, so that B is packed once, or rows `by_rows`, where
    packing A costs more.
    """
    if m == 0 or n == 0:
        return []
    rows, columns = min(m, _PACKED_ROWS), n
    if not in_place:  # the sums of a part must fit their buffer
        columns = max(tile.nr, min(n, _SUMS_BYTES // (sum_bytes * max(rows, 1)) // tile.nr * tile.nr))
    if threads > 1:
        by_columns = -(-n // tile.nr) >= threads
        if by_columns and not (by_rows and -(-m // tile.mr) >= threads):
            columns = min(columns, _whole(n, threads, tile.nr))
        else:
            rows = min(rows, _whole(m, threads, tile.mr))
    return [
        Part(row, min(rows, m - row), column, min(columns, n - column))
        for column in range(0, n, columns)
        for row in range(0, m, rows)
    ]


def strips(m: int, n: int, tile: Tile, threads: int, *, in_place: bool, sum_bytes: int) -> list[Part]:
    """Cut C of few rows into columns only, two shares a thread."""
    most = n if in_place else max(1, _SUMS_BYTES // (sum_bytes * m))
    share = min(_whole(n, 2 * threads if threads > 1 else 1, tile.nr), max(tile.width, most // tile.width * tile.width))
    return [Part(0, m, column, min(share, n - column)) for column in range(0, n, share)]


def _whole(extent: int, threads: int, unit: int) -> int:
    """A thread's share of an extent, in whole tiles."""
    share = (extent + threads - 1) // threads
    return (share + unit - 1) // unit * unit
