"""Records of matrices in a warp's registers: loads, stores, and tensor-core products.

A fragment of a product has `m * k * bits / 32 lanes / 32 bits` registers per lane.

Source: PTX ISA 9.1, 9.7.14.5 (mma, ldmatrix, stmatrix, movmatrix).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.simulate.intrinsics.operands import Address, Record, Registers, Type

_MOVES = "Matrices of 8 x 8 in registers"
_PRODUCTS = "Tensor-core products"
_LANES = 32


_ROW = Address("row", "shared", 16, "the first of a row's 16 bytes")


def _moved(verb: str, count: int, trans: bool) -> str:
    matrices = f"{count} matri{'x' if count == 1 else 'ces'} of 8 rows of 16 bytes"
    return f"{verb} {matrices}, whose addresses lanes 0 to {8 * count - 1} give" + (", transposed." if trans else ".")


def _ldmatrix(count: int, trans: bool) -> Record:
    return Record(
        f"ldmatrix_x{count}" + "_trans" * trans,
        f"ldmatrix.sync.aligned.m8n8.x{count}" + ".trans" * trans + ".shared.b16 {matrices}, [row];",
        (7, 5),
        (_ROW,),
        _moved("Loads", count, trans),
        _MOVES,
        Registers("matrices", "b32", count, words="two halves of each matrix"),
    )


def _stmatrix(count: int, trans: bool) -> Record:
    return Record(
        f"stmatrix_x{count}" + "_trans" * trans,
        f"stmatrix.sync.aligned.m8n8.x{count}" + ".trans" * trans + ".shared.b16 [row], {matrices};",
        (9, 0),
        (_ROW, Registers("matrices", "b32", count)),
        _moved("Stores", count, trans),
        _MOVES,
    )


@dataclass(frozen=True, slots=True)
class _Product:
    """A shape with its types."""

    m: int
    n: int
    k: int
    bits: int  #: Of an element of A and B.
    of: tuple[str, ...]  #: Types of A and B.
    sums: tuple[str, ...]  #: Types of C and D.
    cc: tuple[int, int]


_BYTES, _FLOAT8 = ("s8", "u8"), ("e4m3", "e5m2")
_SHAPES = (
    _Product(16, 8, 8, 16, ("f16",), ("f32", "f16"), (7, 5)),
    _Product(16, 8, 16, 16, ("f16",), ("f32", "f16"), (8, 0)),
    _Product(16, 8, 8, 16, ("bf16",), ("f32",), (8, 0)),
    _Product(16, 8, 16, 16, ("bf16",), ("f32",), (8, 0)),
    _Product(16, 8, 4, 32, ("tf32",), ("f32",), (8, 0)),
    _Product(16, 8, 8, 32, ("tf32",), ("f32",), (8, 0)),
    _Product(8, 8, 16, 8, _BYTES, ("s32",), (7, 5)),
    _Product(16, 8, 16, 8, _BYTES, ("s32",), (8, 0)),
    _Product(16, 8, 32, 8, _BYTES, ("s32",), (8, 0)),
    _Product(16, 8, 32, 8, _FLOAT8, ("f32",), (8, 9)),
    _Product(8, 8, 4, 64, ("f64",), ("f64",), (8, 0)),
    _Product(16, 8, 4, 64, ("f64",), ("f64",), (9, 0)),
    _Product(16, 8, 8, 64, ("f64",), ("f64",), (9, 0)),
    _Product(16, 8, 16, 64, ("f64",), ("f64",), (9, 0)),
)


def _mma(shape: _Product, of: str, sums: str) -> Record:
    m, n, k = shape.m, shape.n, shape.k
    held: Type = "f64" if of == "f64" else "b32"
    bits = 64 if held == "f64" else 32
    summed: Type = "f64" if sums == "f64" else "f32" if sums == "f32" else "s32" if sums == "s32" else "b32"
    width = 16 if sums == "f16" else bits if sums == "f64" else 32
    results = m * n * width // bits // _LANES
    a = Registers("a", held, m * k * shape.bits // bits // _LANES)
    b = Registers("b", held, k * n * shape.bits // bits // _LANES)
    return Record(
        f"mma_m{m}n{n}k{k}_{sums}_{of}",
        f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{sums}.{of}.{of}.{sums} {{d}}, {{a}}, {{b}}, {{c}};",
        shape.cc,
        (a, b, Registers("c", summed, results)),
        f"The warp's D = A B + C, with A of {m} x {k}, B of {k} x {n} and C of {m} x {n}.",
        _PRODUCTS,
        Registers("d", summed, results),
        pure=True,
    )


RECORDS = (
    *(_ldmatrix(count, trans) for trans in (False, True) for count in (1, 2, 4)),
    *(_stmatrix(count, trans) for trans in (False, True) for count in (1, 2, 4)),
    Record(
        "movmatrix_trans",
        "movmatrix.sync.aligned.m8n8.trans.b16 turned, matrix;",
        (7, 5),
        (Registers("matrix", "b32"),),
        "Transposes a matrix of 8 x 8 halves.",
        _MOVES,
        Registers("turned", "b32"),
    ),
    *(_mma(shape, of, sums) for shape in _SHAPES for of in shape.of for sums in shape.sums),
)
