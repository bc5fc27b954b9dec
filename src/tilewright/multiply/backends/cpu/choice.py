"""Chooses the kernel for a product's dtypes on this host, and cuts C into parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tilewright.ground.native.compiler import compiler
from tilewright.ground.native.tile_registers import tile_registers_granted
from tilewright.multiply.backends.cpu.contexts import KernelKey, Tile, vector_bytes
from tilewright.multiply.problem.algebra import Semiring
from tilewright.multiply.problem.dtypes import dtype, element

Array = npt.NDArray[Any]
#: Bytes of one part's sums if they cannot be kept in the output, and rows of A packed at a time.
_SUMS_BYTES = 4 << 20
_PACKED_ROWS = 1536
#: The same for parts that pack all of B's columns again for each part.
_GRID_SUMS_BYTES = 12 << 20
#: Parts of a thread's columns, and least columns of each: other threads can take parts of a delayed thread. The parts
#: cost nothing, since each column of B is packed once anyway (measured with up to 8).
_SHARES, _SHARE_COLUMNS = 4, 256
#: Elements of a row of C whose sums take as long as packing a row of A or a column of B, and as long as two threads
#: that write to one cache line; they do so in every row if they share columns (100 ns; k 512).
_PACKING, _SHARED_LINE = 32, 200
#: Multiply-adds, bytes along k and rows of C from which AMX tiles are the host's fastest; for floats only bytes along k
#: count.
_AMX_WORK, _AMX_ROW_BYTES, _AMX_ROWS = 32**3, 64, 9


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of C."""

    row: int
    rows: int
    column: int
    columns: int

    def cut(self, rows: int, columns: int) -> list[Part]:
        """The rectangle in parts of so many rows and columns, smaller at the ends, in column-major order."""
        return [
            Part(self.row + i, min(rows, self.rows - i), self.column + j, min(columns, self.columns - j))
            for j in range(0, self.columns, columns)
            for i in range(0, self.rows, rows)
        ]


def kernel_key(
    a: str,
    b: str,
    c: str,
    accumulator: str,
    algebra: Semiring | None = None,
    *,
    order: str = "canonical",
    extents: tuple[int, int, int] = (0, 0, 0),
) -> KernelKey:
    """The kernel for operand, output and accumulator dtypes on this host.

    `extents` (m, n, k) are those of one matrix: some kernels are faster for large ones only. The order `fast` allows
    kernels that sum floats in another order than the canonical one.
    """
    features = compiler().features
    if algebra is not None:  # an algebra's operations do not give the same bits in a narrower width
        return KernelKey(a, b, c, element(accumulator).memory, "semiring", vector_bytes(features), algebra)
    register = element(accumulator).register
    family = "fma" if register in ("float", "double") else "integer"
    if register == "i32":
        family = dot_family(a, b, c, features) or family
    if amx_fits(a, b, accumulator, order, features) and _pays(a, *extents) and tile_registers_granted():
        family = "amx"
    return KernelKey(a, b, c, register, family, vector_bytes(features))


#: The processor feature with accumulating dot products, by vector bytes.
_DOT_FEATURES = {64: "+avx512vnni", 32: "+avxvnni"}


def dot_family(a: str, b: str, c: str, features: str) -> str | None:
    """The family of instructions on the host that multiply groups of bytes or words exactly.

    Bytes may have any signedness. Words must be signed, unless the result is cut to 16 bits, where signs do not matter.

    >>> dot_family("int8", "uint8", "int32", "+avx2,+avxvnni"), dot_family("int16", "int8", "int32", "+sse2")
    ('dot', 'pairs')
    >>> dot_family("uint16", "uint16", "int32", "+sse2") is None
    True
    """
    present = set(features.split(","))
    records = [dtype(name) for name in (a, b)]
    if any(r.is_float or r.bytes > 2 for r in records):
        return None
    if dtype(c).bytes > 2 and any(r.bytes == 2 and r.kind != "signed" for r in records):
        return None
    if _DOT_FEATURES.get(vector_bytes(features)) in present:
        return "dot"
    return "pairs" if "+sse2" in present else None


def amx_fits(a: str, b: str, accumulator: str, order: str, features: str) -> bool:
    """Whether the host's tile registers multiply these dtypes in an allowed order.

    Sums of bytes in 32 bits are exact in any order, for any signedness.

    >>> amx_fits("int8", "uint8", "int32", "canonical", "+amx-tile,+amx-int8,+avx512f,+avx512bw,+avx512vl,+avx512dq")
    True
    """
    present = set(features.split(","))
    if vector_bytes(features) != 64 or "+amx-tile" not in present:
        return False
    left, right = element(a), element(b)
    if not left.amx or left.amx != right.amx or f"+amx-{left.amx}" not in present:
        return False
    if left.is_float:
        return accumulator == "float32" and order == "fast"
    return element(accumulator).register == "i32"


def _pays(a: str, m: int, n: int, k: int) -> bool:
    """Whether a product is large enough for tiles: few rows waste most of each, and a short k the stores of C.

    For floats k alone decides: tiles sum them in another order, and an element's bits must not depend on m and n.
    """
    if k * dtype(a).bytes < _AMX_ROW_BYTES:
        return False
    return dtype(a).is_float or (m * n * k >= _AMX_WORK and m >= _AMX_ROWS)


def parts(
    m: int, n: int, tile: Tile, threads: int, *, in_place: bool, sum_bytes: int, by_rows: bool = False
) -> list[Part]:
    """Cut C into rectangles of whole tiles, at least one per thread if there are enough.

    Each part packs its own A and B. Threads divide the columns, so that B is packed once, or with `by_rows` the rows,
    if packing A costs more.
    """
    if m == 0 or n == 0:
        return []
    rows, columns = min(m, _PACKED_ROWS), n
    if not in_place:  # the sums of a part must fit their buffer
        columns = max(tile.nr, min(n, _SUMS_BYTES // (sum_bytes * max(rows, 1)) // tile.nr * tile.nr))
    if threads > 1:
        by_columns = -(-n // tile.nr) >= threads
        if by_columns and not (by_rows and -(-m // tile.mr) >= threads):
            shares = max(1, min(_SHARES, n // (threads * _SHARE_COLUMNS)))
            columns = min(columns, _whole(n, threads * shares, tile.nr))
        else:
            rows = min(rows, _whole(m, threads, tile.mr))
    return Part(0, m, 0, n).cut(rows, columns)


def strips(m: int, n: int, tile: Tile, threads: int, *, in_place: bool, sum_bytes: int) -> list[Part]:
    """Cut C of few rows by columns only, a share per thread.

    Two shares per thread would be slower: where B's row has 4 pages each share would be one page of it, and prefetchers
    restart at each page (8x4096x4096 lost a quarter of its speed).
    """
    most = n if in_place else max(1, _SUMS_BYTES // (sum_bytes * m))
    share = min(_whole(n, threads, tile.nr), max(tile.width, most // tile.width * tile.width))
    return [Part(0, m, column, min(share, n - column)) for column in range(0, n, share)]


def shorter(found: list[Part], tile: Tile, most: int) -> list[Part]:
    """Cut parts further, into whole tiles of at most `most` elements, if one tile is not larger.

    >>> tile = Tile(mr=6, vectors=4, width=16, kc=512, nc=512)
    >>> [part.columns for part in shorter([Part(0, 60, 0, 640)], tile, 20_000)]
    [320, 320]
    """
    if all(part.rows * part.columns <= most for part in found):
        return found
    cut = []
    for part in found:
        columns = min(part.columns, max(tile.nr, most // max(part.rows, 1) // tile.nr * tile.nr))
        rows = min(part.rows, max(tile.mr, most // max(columns, 1) // tile.mr * tile.mr))
        cut += part.cut(rows, columns)
    return cut


def grid_parts(m: int, n: int, tile: Tile, threads: int, *, in_place: bool, sum_bytes: int) -> list[Part]:
    """Cut C into a grid of rectangles, for kernels that pack both operands of each.

    Of the grids with at most one rectangle per thread, it takes the one whose largest rectangle takes the least time to
    pack, multiply and store.
    """

    def cost(share: tuple[int, int]) -> int:
        rows, columns = share
        return rows * columns + _PACKING * (rows + columns) + (_SHARED_LINE * rows if columns < n else 0)

    if m == 0 or n == 0:
        return []
    shares = [(_whole(m, down, tile.mr), _whole(n, threads // down, tile.nr)) for down in range(1, threads + 1)]
    rows, columns = min(shares, key=cost)
    if not in_place:  # the sums of a part must fit their buffer
        columns = min(columns, max(1, _GRID_SUMS_BYTES // (sum_bytes * tile.mr) // tile.nr) * tile.nr)
        rows = min(rows, max(1, _GRID_SUMS_BYTES // (sum_bytes * columns) // tile.mr) * tile.mr)
    return Part(0, m, 0, n).cut(rows, columns)


def _whole(extent: int, threads: int, unit: int) -> int:
    """A thread's share of an extent, in whole tiles."""
    share = (extent + threads - 1) // threads
    return (share + unit - 1) // unit * unit
