"""One matrix product on this host: parts for the threads, buffers, and the kernel's arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.cpu.contexts import KernelKey, Tile, tile_of, vector_bytes
from tilewright.cpu.kernels import kernel
from tilewright.cpu.loops import ARGUMENTS
from tilewright.native.compiler import compiler
from tilewright.problem.dtypes import dtype

Array = npt.NDArray[Any]
#: Register type by accumulator dtype. Narrow integers are summed in 32 bits: the same modulo their own width.
REGISTERS = {
    "float16": "float", "bfloat16": "float", "float32": "float", "float64": "double",
    "int8": "i32", "uint8": "i32", "int16": "i32", "uint16": "i32", "int32": "i32", "uint32": "i32",
    "int64": "i64", "uint64": "i64",
}  # fmt: skip
#: Bytes of a register type.
_BYTES = {"float": 4, "double": 8, "i32": 4, "i64": 8}
#: Bytes of one part's sums where they cannot be kept in the output, and rows of A packed at a time.
_SUMS_BYTES = 4 << 20
_PACKED_ROWS = 1536
#: Multiply-adds that pay for a second thread.
_THREAD_WORK = 200_000


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of C."""

    row: int
    rows: int
    column: int
    columns: int


class Buffers(threading.local):
    """Packing buffers of each thread, reused and never larger than their kernels need."""

    def __init__(self) -> None:
        self.held: dict[str, Array] = {}

    def bytes(self, name: str, size: int) -> Array:
        """At least `size` bytes, aligned to 64."""
        found = self.held.get(name)
        if found is None or found.nbytes < size:
            raw = np.empty(size + 64, np.uint8)
            start = -raw.ctypes.data % 64
            found = self.held[name] = raw[start : start + size]
        return found


def kernel_key(a: str, b: str, c: str, accumulator: str) -> KernelKey:
    """The kernel for operand, output and accumulator dtypes on this host."""
    register = REGISTERS[accumulator]
    features = compiler().features
    family = "fma" if dtype(accumulator).is_float else "integer"
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


def parts(m: int, n: int, tile: Tile, threads: int, *, in_place: bool, sum_bytes: int) -> list[Part]:
    """Cut C into rectangles of whole tiles, at least one a thread where there are enough."""
    if m == 0 or n == 0:
        return []
    rows, columns = min(m, _PACKED_ROWS), n
    if not in_place:  # the sums of a part must fit their buffer
        columns = max(tile.nr, min(n, _SUMS_BYTES // (sum_bytes * max(rows, 1)) // tile.nr * tile.nr))
    if threads > 1:
        by_columns = -(-n // tile.nr) >= threads
        if by_columns:
            columns = min(columns, _whole(n, threads, tile.nr))
        else:
            rows = min(rows, _whole(m, threads, tile.mr))
    return [
        Part(row, min(rows, m - row), column, min(columns, n - column))
        for column in range(0, n, columns)
        for row in range(0, m, rows)
    ]


def _whole(extent: int, threads: int, unit: int) -> int:
    """A thread's share of an extent, in whole tiles."""
    share = (extent + threads - 1) // threads
    return (share + unit - 1) // unit * unit


def gemm(
    a: Array, b: Array, out: Array, *, accumulator: str, names: tuple[str, str, str], run: Callable[..., None]
) -> None:
    """out[m, n] = a[m, k] b[k, n], in canonical order.

    Parameters
    ----------
    a, b, out : ndarray
        Any strides; `out` shares no bytes with the operands.
    accumulator : str
        Dtype of the sums.
    names : (str, str, str)
        Dtypes of a, b and out.
    run : callable
        Runs a function on every item of a list, perhaps on several threads: a pool's `map`, or :func:`one_by_one`.
    """
    key = kernel_key(*names, accumulator)
    tile = tile_of(key)
    code = kernel(key)
    size = _BYTES[key.register]
    in_place = _same_bits(names[2], key.register) and (out.strides[1] == size or out.shape[1] == 1)
    m, n = out.shape
    pieces = parts(m, n, tile, getattr(run, "threads", 1), in_place=in_place, sum_bytes=size)

    def work(part: Part) -> None:
        _run_part(code, tile, a, b, out, part, in_place=in_place, size=size)

    run(work, pieces)


def _same_bits(name: str, register: str) -> bool:
    """Whether a dtype in memory is the register type as it is."""
    record = dtype(name)
    return record.is_float == (register in ("float", "double")) and record.bytes == _BYTES[register]


def _run_part(
    code: Callable[[int], None], tile: Tile, a: Array, b: Array, out: Array, part: Part, *, in_place: bool, size: int
) -> None:
    c = out[part.row : part.row + part.rows, part.column : part.column + part.columns]
    rows, columns = a[part.row : part.row + part.rows], b[:, part.column : part.column + part.columns]
    buffers = _buffers()
    address = c.ctypes.data
    sums_address, sums_pitch = address, c.strides[0]
    if not in_place:
        sums_pitch = part.columns * size
        sums_address = buffers.bytes("sums", max(part.rows * sums_pitch, 1)).ctypes.data
    k = a.shape[1]
    steps = min(k, tile.kc)
    values = {
        "m": part.rows, "n": part.columns, "k": k,
        "a": rows.ctypes.data, "a_rs": rows.strides[0], "a_cs": rows.strides[1],
        "b": columns.ctypes.data, "b_rs": columns.strides[0], "b_cs": columns.strides[1],
        "sums": sums_address, "sums_rs": sums_pitch,
        "out": address, "out_rs": c.strides[0], "out_cs": c.strides[1],
        "a_pack": buffers.bytes("a", max(part.rows, 1) * tile.kc * size).ctypes.data,
        "b_pack": buffers.bytes("b", (max(steps, 1) + 1) * (min(tile.nc, part.columns) + tile.nr) * size).ctypes.data,
        "first": 1,
    }  # fmt: skip
    arguments = np.array([values[name] for name in ARGUMENTS], np.int64)
    code(arguments.ctypes.data)


def one_by_one(work: Callable[[Part], None], items: list[Part]) -> None:
    """Run parts on the calling thread."""
    for item in items:
        work(item)


class Crew:
    """Threads that run parts; the caller's own is one of them."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(max(threads - 1, 1), thread_name_prefix="tilewright-cpu")

    def __call__(self, work: Callable[[Part], None], items: list[Part]) -> None:
        """Run all items; returns when they are done."""
        shares = [items[i :: self.threads] for i in range(self.threads)]
        futures = [self._pool.submit(one_by_one, work, share) for share in shares[1:] if share]
        one_by_one(work, shares[0])
        for future in futures:
            future.result()


def _buffers() -> Buffers:
    from tilewright.cpu.state import buffers

    return buffers()
