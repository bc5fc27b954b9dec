"""Every kernel's record. The command line, the ladder and the tests iterate these; there is no second list.

A record says where a kernel comes from, what it takes, in which order it sums, how it is launched and what it is
known to get wrong. It compiles nothing before it is asked to.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.machine import launch_limits
from tilewright.problem.bounds import Bound
from tilewright.problem.dtypes import DTYPES, element

if TYPE_CHECKING:
    from tilewright.programs.program import Program

Array = npt.NDArray[Any]
#: (dtype, compute capability) -> Program
Compile = Callable[[str, tuple[int, int]], "Program"]

_CANONICAL = ("float32", "float64", "int32")
_INTEGERS_FIRST = ("int32", "float32", "float64")
#: The most blocks that share a tile of C.
MOST_SPLIT = 8
#: Least compute capability that the compilers still make kernels for, and that has asynchronous copies.
OLDEST, _AMPERE = (7, 5), (8, 0)


#: What the rows are that kernels come from: `docs/sources.md` says more of each.
SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "S1": "Numba, one thread an element",
        "S2": "Numba, tiles of 16 x 16 in shared memory",
        "S3": "CUDA C++, blocks of C, as the vendor's sample",
        "S4": "OpenCL, for Numba's removed AMD target",
        "S5": "the host, three loops",
        "S6": "CUDA C++, one thread an element, integers",
        "S9": "CUDA C++, tiles in shared memory, integers",
        "S11": "CUDA C++, several results a thread",
        "SGEMM": "CUDA C++, float32, up to tiles of warps",
        "TC": "CUDA C++, tensor cores",
        "CPU": "the host, the engine behind tw.matmul",
        "OpenCL": "OpenCL, tiles in registers",
    }
)


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Grid and block of a launch, each (x, y, z)."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Record:
    """One kernel."""

    name: str  #: Stable and short; what the command line takes.
    title: str  #: One line for people.
    source: str  #: Row of the source systems, `S2`; `CPU` for Tilewright's own CPU engine.
    #: What runs it, as the table of backends has it: `cpu` for the host, `gpu` for a GPU real or simulated, else a
    #: device with kernels of its own.
    backend: str
    dtypes: tuple[str, ...] = _CANONICAL  #: NumPy names of the dtypes it takes, the source's own first.
    #: How it sums: the canonical order, each product rounded to the dtype and summed in float64, or as the GPU's tensor
    #: cores do.
    order: Literal["fma", "rounded-product", "tensor-core"] = "fma"
    bound: Bound | None = None  #: How far from the exact product it may be; None where its bits follow from its order.
    cc: tuple[int, int] = OLDEST  #: Least compute capability.
    published: bool = False  #: A specimen, kept as published with its defects: shown, not trusted.
    limits: str = ""  #: What it takes only, or where it is right only; empty where it takes every shape.
    notes: str = ""  #: What to look for in its counts.
    tile: tuple[int, int] = (0, 0)  #: Rows and columns of C a block computes; (0, 0) on the CPU.
    block: tuple[int, int] = (0, 0)  #: Threads of a block in x and y; (0, 0) on the CPU.
    #: Results of a thread, as many rows as share an element of B that it read, and columns that share one of A.
    results: tuple[int, int] = (1, 1)
    any_block: bool = False  #: Threads ask for the block's extents, so that it may have others.
    rows_by_x: bool = False  #: The rows of C follow x (as the published Python kernels have it), not y.
    compiler: Compile | None = None  #: Makes the Program; None on the CPU.
    #: Order of the kernel's arguments: arrays, extents, `ld`, how many elements a row is behind the one before, and
    #: `work`, memory for sums of blocks that share a tile and a counter of each tile.
    operands: Literal["abc", "abc m n k", "cab m k n", "abc m n k ld", "abc m n k ld work"] = "abc"
    #: Steps of k for each block that shares a tile of C with others, up to `MOST_SPLIT`; 0 where one takes all.
    split: int = 0
    module: str = ""  #: Of a kernel of the host: where its function `multiply(a, b)` is.
    form: Literal["", "naive", "tiled", "register_tiled"] = ""  #: Of a kernel whose tile depends on the device.

    def program(self, dtype: str, cc: tuple[int, int] = (9, 0)) -> Program:
        """Compile the kernel for a dtype; the same Program for the same question.

        Raises ArgumentValueError: it is no kernel for GPUs, or not for so old a one; ArgumentTypeError: the kernel does
        not take the dtype; MissingExtraError: the `gpu` extra is not installed.
        """
        if self.compiler is None:
            raise ArgumentValueError(f"kernel {self.name!r} is one of {self.backend!r} and has no GPU program")
        if dtype not in self.dtypes:
            raise ArgumentTypeError(f"kernel {self.name!r} takes {', '.join(self.dtypes)} (got {dtype})")
        if cc < self.cc:
            raise ArgumentValueError(f"kernel {self.name!r} {self.too_old(cc)}; choose a newer GPU")
        return self.compiler(dtype, cc)

    def too_old(self, cc: tuple[int, int]) -> str:
        """Why it does not run on GPUs of a compute capability; "" where it does.

        Examples
        --------
        >>> find("tensor_core").too_old((7, 5)), find("tiled").too_old((7, 5))
        ('needs compute capability 8.0 or newer (got 7.5)', '')
        """
        need, have = (".".join(map(str, version)) for version in (self.cc, cc))
        return f"needs compute capability {need} or newer (got {have})" if cc < self.cc else ""

    def in_blocks(self, edge: int) -> Record | None:
        """The kernel with square blocks of C of that edge; None where it is not made for them.

        Examples
        --------
        >>> find("global_memory").in_blocks(8).launch_rule(32, 32, 32)
        LaunchShape(grid=(4, 4, 1), block=(8, 8, 1))
        """
        if self.any_block and 1 <= edge * edge <= launch_limits().threads_per_block:
            return replace(self, tile=(edge, edge), block=(edge, edge))
        return self if self.tile == (edge, edge) else None

    def launch_rule(self, m: int, n: int, k: int) -> LaunchShape:
        """The grid and block for C of shape (m, n); `k` says how many blocks share a tile, where a kernel lets them.

        Examples
        --------
        >>> find("global_memory").launch_rule(32, 32, 32)
        LaunchShape(grid=(1, 1, 1), block=(32, 32, 1))
        """
        if self.backend != "gpu":
            raise ArgumentValueError(f"kernel {self.name!r} is one of {self.backend!r} and has no launch shape")
        rows, columns = -(-m // self.tile[0]), -(-n // self.tile[1])
        parts = min(-(-k // self.split), MOST_SPLIT) if self.split else 1
        grid = (rows, columns, parts) if self.rows_by_x else (columns, rows, parts)
        return LaunchShape(grid, (*self.block, 1))

    def arguments(self, a: Array, b: Array, c: Array) -> tuple[Any, ...]:
        """The kernel's arguments; operands that are not row-major are copied, as the kernels' C++ takes flat arrays.

        One that is told how far its rows are apart takes any whose rows have no gaps in them.

        `a` and `b` have shapes (m, k) and (k, n); the kernel writes into `c`, (m, n) and row-major. Raises
        ArgumentValueError: it is not.
        """
        (m, k), n = a.shape, b.shape[1]
        if c.shape != (m, n) or not c.flags.c_contiguous:
            raise ArgumentValueError(
                f"`c` must be row-major of shape {(m, n)} (got {c.shape}, strides {c.strides}); make it with np.empty"
            )
        if self.operands.startswith("abc m n k ld"):
            a, b = (
                operand if _in_rows(operand) else np.require(operand, requirements=["C", "A"]) for operand in (a, b)
            )
            leading = (operand.strides[0] // operand.itemsize for operand in (a, b, c))
            return a, b, c, *(np.int32(size) for size in (m, n, k, *leading)), *self._work(m, n, k)
        # Python's Programs are specialised for arrays that may be written: a copy even where only that flag differs.
        wanted: Literal["W", "A"] = "W" if self.operands == "abc" else "A"
        a, b = (np.require(operand, requirements=["C", "A", wanted]) for operand in (a, b))
        if self.operands == "abc":
            return a, b, c
        sizes = (m, n, k) if self.operands == "abc m n k" else (m, k, n)
        arrays = (a, b, c) if self.operands == "abc m n k" else (c, a, b)
        return *arrays, *(np.int32(size) for size in sizes)

    def _work(self, m: int, n: int, k: int) -> tuple[Array, ...]:
        """Memory for the sums of blocks that share a tile, and the tiles' counters."""
        if not self.operands.endswith("work"):
            return ()
        columns, rows, parts = self.launch_rule(m, n, k).grid
        sums = rows * columns * parts * self.tile[0] * self.tile[1] if parts > 1 else 1
        return np.empty(sums, np.float32), np.zeros(rows * columns, np.uint32)

    def accepts(self, m: int, n: int, k: int, dtype: str) -> str | None:
        """Why the kernel cannot be launched for a product, or None when it can.

        A published specimen is launched for any shape that fits a grid, right or wrong: its `limits` say when it is
        right.

        Examples
        --------
        >>> find("tiled_published").accepts(16, 16, 16, "float64")
        'takes float32 only, not float64'
        """
        if dtype not in self.dtypes:
            return f"takes {', '.join(self.dtypes)} only, not {dtype}"
        if min(m, n, k) < 1:
            return f"takes extents of at least 1, not {(m, n, k)}"
        if self.backend != "gpu":
            return None
        # Flat indices are 32-bit, as in the sources; the margin is a tile's overhang.
        if self.operands != "abc" and max(m * k, k * n, m * n) >= 2**31 - max(self.tile) * max(n, k):
            return "indexes with 32 bits: each matrix must have fewer than 2**31 elements"
        for axis, blocks, most in zip("xyz", self.launch_rule(m, n, k).grid, launch_limits().grid_extents, strict=True):
            if blocks > most:
                return f"needs a grid of {blocks} blocks in {axis}, over the limit of {most}"
        return None

    def run_cpu(self, a: Array, b: Array) -> Array:
        """Multiply on the host.

        Raises ArgumentValueError: the record is none of the host's.
        """
        if not self.module:
            raise ArgumentValueError(
                f"kernel {self.name!r} runs on a GPU; launch its program with tilewright.simt.launch"
            )
        c: Array = importlib.import_module(self.module).multiply(a, b)
        return c

    def reference(self, a: Array, b: Array) -> Array:
        """The product this kernel must give, bit for bit: the canonical one, or that of its own stated order.

        One that states a bound comes near the canonical product only; `wrong_elements` says whether it is near enough.
        """
        from tilewright.problem.reference import canonical

        if self.order == "rounded-product" and a.dtype != np.float64:
            return canonical(a, b, acc_dtype="float64", out_dtype=a.dtype, order="rounded-product")
        return canonical(a, b)

    def wrong_elements(self, c: Array, a: Array, b: Array) -> int:
        """How many elements of a product are not what this kernel must give: its reference's bits, or its bound."""
        from tilewright.problem.reference import mismatches

        return mismatches(c, self.reference(a, b)) if self.bound is None else self.bound.outside(c, a, b)


def _in_rows(operand: Array) -> bool:
    """Whether the elements of a row lie side by side, and rows one behind the other."""
    rows, columns = operand.strides
    width = operand.shape[1] * operand.itemsize
    return columns == operand.itemsize and rows >= width and rows % operand.itemsize == 0 and operand.flags.aligned


def records() -> tuple[Record, ...]:
    """Every kernel, from the foot of the ladder up.

    Examples
    --------
    >>> [record.name for record in records()][:3]
    ['three_loops', 'cpu_engine', 'naive_published']
    """
    return _RECORDS


def find(name: str) -> Record:
    """The record of a name.

    Raises
    ------
    ArgumentValueError
        There is none.
    """
    for record in records():
        if record.name == name:
            return record
    raise ArgumentValueError(f"a kernel must be one of {', '.join(record.name for record in records())} (got {name!r})")


@functools.lru_cache(maxsize=256)
def _python(module: str, kernel: str, dtype: str, cc: tuple[int, int], made: bool) -> Program:
    """Compile a Python kernel for row-major matrices; `made` says that it is a factory over dtypes."""
    from tilewright.programs.optional import require
    from tilewright.programs.program import Program

    require("numba.cuda", "Compiling Python kernels")
    function = getattr(require(f"tilewright.kernels.{module}", "The kernel"), kernel)
    matrix = f"{dtype}[:, ::1]"
    return Program.from_python(function(dtype) if made else function, f"void({matrix}, {matrix}, {matrix})", cc)


@functools.lru_cache(maxsize=256)
def _cuda(file: str, entry: str, dtype: str, cc: tuple[int, int]) -> Program:
    """Compile a template instance of a CUDA C++ kernel; `TYPE` in `entry` stands for the element type."""
    from tilewright.programs.program import Program

    path = Path(__file__).parent / file
    return Program.from_cuda(path, entry.replace("TYPE", element(dtype).cuda), cc)


#: What the host's engine and OpenCL's kernels take: every number that NumPy has by itself.
_NUMBERS = tuple(dict.fromkeys((*_CANONICAL, *(x.name for x in DTYPES if not x.extends_numpy))))


#: Floats of two bytes, which tensor cores sum in float32.
_HALVES = tuple(x.name for x in DTYPES if x.bytes == 2 and x.is_float and x.cuda)


def _numba(name: str, module: str, title: str, source: str, *, made: bool = True, **more: Any) -> Record:
    """A Python kernel of 16 x 16 threads; `made` says that its function is a factory over dtypes."""
    compiler = functools.partial(_python, module, name, made=made)
    return Record(name, title, source, "gpu", tile=(16, 16), block=(16, 16), compiler=compiler, **more)


def _template(
    name: str, file: str, entry: str, title: str, source: str, size: int, operands: Any, rows: int = 0, **more: Any
) -> Record:
    """A CUDA C++ kernel of square blocks of C, with `rows` rows of threads where these are fewer."""
    return Record(
        name, f"CUDA C++: {title}", source, "gpu", tile=(size, size), block=(size, rows or size), operands=operands,
        compiler=functools.partial(_cuda, file, entry), **more,
    )  # fmt: skip


def _block_partitioned(size: int) -> Record:
    return _template(
        f"block_partitioned_{size}", "block_partitioned.cu", f"MatrixMulCUDA<{size}, TYPE>",
        f"block-partitioned product, {size}x{size}", "S3", size, "cab m k n",
        notes="guarded edges; the source takes multiples of the block only",
    )  # fmt: skip


def _shared_memory(size: int) -> Record:
    return _template(
        f"shared_memory_{size}", "shared_memory.cu", f"shared_memory<{size}, TYPE>",
        f"shared memory, {size}x{size}", "S9", size, "abc m n k", dtypes=_INTEGERS_FIRST,
        notes="S10 blames bank conflicts for the 8x8 and 16x16 tiles; compare the conflicts counted",
    )  # fmt: skip


def _several_results(count: int) -> Record:
    s = "s" * (count > 1)
    return _template(
        f"results_{count}", "several_results.cu", f"several_results<TYPE, 32, {count}>",
        f"{count} result{s} a thread, 32x32", "S11", 32, "abc m n k", 32 // count, results=(count, 1),
        notes=f"rows {32 // count} apart; one read of B's tile serves {count} multiply-add{s}",
    )  # fmt: skip


def _sgemm(
    name: str, entry: str, title: str, edge: int, results: tuple[int, int], notes: str, file: str = ""
) -> Record:
    """A kernel of the float32 ladder: square tiles of C, blocks of one dimension."""
    return Record(
        name, f"CUDA C++: {title}", "SGEMM", "gpu", ("float32",), tile=(edge, edge), results=results,
        block=(edge * edge // (results[0] * results[1]), 1), operands="abc m n k", notes=notes,
        compiler=functools.partial(_cuda, file or f"{name}.cu", entry),
    )  # fmt: skip


def _tensor_core(
    name: str,
    entry: str,
    title: str,
    dtypes: tuple[str, ...],
    bound: Bound | None,
    notes: str,
    edge: int = 128,
    split: int = 0,
) -> Record:
    """A kernel of tensor cores: square tiles of C, of which a warp owns half the rows and 32 columns."""
    file, limits = f"{entry.partition('<')[0]}.cu", "" if bound is None else f"within {bound} of the exact product"
    order: Literal["fma", "tensor-core"] = "fma" if bound is None else "tensor-core"
    return Record(
        name, f"CUDA C++: {title}", "TC", "gpu", dtypes, order=order, bound=bound, cc=_AMPERE,
        limits=limits, notes=notes, tile=(edge, edge), block=(2 * edge, 1), results=(edge // 16, 8),
        operands="abc m n k ld work" if split else "abc m n k ld", split=split,
        compiler=functools.partial(_cuda, file, entry),
    )  # fmt: skip


def _opencl(form: Literal["naive", "tiled", "register_tiled"], source: str, title: str, notes: str) -> Record:
    return Record(f"opencl_{form}", f"OpenCL: {title}", source, "opencl", _NUMBERS, notes=notes, form=form)


_RECORDS = (
    Record(
        "three_loops", "CPU: three loops", "S5", "cpu", module="tilewright.backends.cpu.three_loops",
        notes="one running sum, nothing blocked: the foot of the ladder",
    ),
    Record(
        "cpu_engine", "CPU: the engine behind tw.matmul", "CPU", "cpu", _NUMBERS,
        module="tilewright.backends.cpu.product",
        notes="packed, tiled in registers, vectors and threads: the same bits as the three loops",
    ),
    _numba(
        "naive_published", "numba_naive", "Numba CUDA: naive kernel, as published", "S1", made=False, any_block=True,
        dtypes=("float32", "float64"), order="rounded-product", published=True, rows_by_x=True,
        limits="right for every shape, in an order of its own for float32",
        notes="sums float32 products in float64, and is uncoalesced: the row follows threadIdx.x",
    ),
    _numba(
        "naive", "numba_naive", "Numba CUDA: naive kernel, typed sum, coalesced", "S1", any_block=True,
        notes="the column follows threadIdx.x and the sum has the operands' width",
    ),
    _numba(
        "tiled_published", "tiled_published", "Numba CUDA: shared-memory tiles, as published", "S2", made=False,
        dtypes=("float32",), order="rounded-product", published=True, rows_by_x=True,
        limits="right only where m, n and k are multiples of 16 and k equals m",
        notes="guard with `and`, no filled edges, k loop of gridDim.x steps, tiles indexed [tx, ty]",
    ),
    _numba(
        "tiled", "tiled", "Numba CUDA: shared-memory tiles, corrected", "S2", notes="any shape; tiles indexed [ty, tx]"
    ),
    *(_block_partitioned(size) for size in (16, 32)),
    _template(
        "global_memory", "global_memory.cu", "global_memory<TYPE>", "global memory only", "S6", 32, "abc m n k",
        dtypes=_INTEGERS_FIRST, any_block=True, notes="S7 counts it at width 32: 5,120 load and 128 store transactions",
    ),
    *(_shared_memory(size) for size in (8, 16, 32)),
    *(_several_results(count) for count in (1, 2, 4, 8, 16, 32)),
    _sgemm(
        "uncoalesced", "one_element<32, false>", "one thread an element, rows along a warp", 32, (1, 1),
        "the row follows threadIdx.x: what not to do, right for every shape", "coalesced.cu",
    ),
    _sgemm(
        "coalesced", "one_element<32, true>", "one thread an element, columns along a warp", 32, (1, 1),
        "the column follows threadIdx.x", "coalesced.cu",
    ),
    _sgemm(
        "thread_tile_1d", "thread_tile_1d<64, 64, 8, 8>", "8 results of a column a thread, 64x64x8", 64, (8, 1),
        "one read of B's tile serves 8 multiply-adds",
    ),
    _sgemm(
        "thread_tile_2d", "thread_tile_2d<128, 128, 8, 8, 8>", "8x8 results a thread, 128x128x8", 128, (8, 8),
        "16 reads serve 64 multiply-adds; bank conflicts in reading both tiles",
    ),
    _sgemm(
        "vectorised", "vectorised<128, 128, 8, 8, 8>", "8x8 results a thread, float4, A transposed", 128, (8, 8),
        "rows that are not aligned to 16 bytes go element by element; conflicts in storing A, reading B",
    ),
    _sgemm(
        "padded", "padded<128, 128, 8, 8, 8>", "the same without bank conflicts", 128, (8, 8),
        "A's tile has rows 4 elements longer, a thread's results lie in patches of 4x4",
    ),
    _sgemm(
        "double_buffered", "double_buffered<128, 128, 8, 8, 8>", "the same with two buffers", 128, (8, 8),
        "the next tiles are loaded while these are multiplied; one barrier a step",
    ),
    _sgemm(
        "warp_tiled", "warp_tiled<128, 128, 16, 64, 64, 8>", "warp tiles of 64x64, 128x128x16", 128, (8, 16),
        "24 reads serve 128 multiply-adds",
    ),
    _tensor_core(
        "tensor_core", "tensor_core<TYPE, 128, 128, 32, 64, 32, 3>", "tensor cores, three stages of copies",
        _HALVES, Bound(1, 16),
        "a warp's product of 16 x 8 x 16 is one instruction; tiles swizzled, read by ldmatrix",
    ),
    _tensor_core(
        "split_k", "split_k<TYPE, 64, 64, 32, 32, 32, 4>", "tensor cores, k split over blocks", _HALVES, Bound(1, 32),
        "for few tiles and many steps; the last block of a tile adds the sums of all, k ascending", 64, 512,
    ),
    _tensor_core(
        "tensor_core_tf32", "tensor_core_f32<false, 128, 128, 16, 64, 32, 3>", "tensor cores, float32 cut to tf32",
        ("float32",), Bound(1, 2**13 + 32), "operands are rounded to 11 bits: half of what a float32 has is gone",
    ),
    _tensor_core(
        "tensor_core_tf32x3", "tensor_core_f32<true, 128, 128, 16, 64, 32, 3>", "tensor cores, float32 as three",
        ("float32",), Bound(1 / 32, 64),
        "each operand is two tf32 numbers; right for finite operands from 1e-30 on",
    ),
    _tensor_core(
        "tensor_core_f64", "tensor_core_f64<64, 64, 16, 32, 32, 3>", "tensor cores, float64", ("float64",), None,
        "a chain of fused multiply-adds, so the canonical bits", 64,
    ),
    _tensor_core(
        "tensor_core_s8", "tensor_core_s8<128, 128, 64, 64, 32, 3>", "tensor cores, int8", ("int8",), None,
        "exact in any order; B's columns are put together from bytes of two registers",
    ),
    _opencl("naive", "S4", "naive kernel", "a work-item an element of C"),
    _opencl("tiled", "S4", "tiles in local memory, 16x16", "any shape; the source takes multiples of 16"),
    _opencl(
        "register_tiled", "OpenCL", "tiles in local memory and registers, vectors", "tiles by the device's kind"
    ),
)  # fmt: skip
