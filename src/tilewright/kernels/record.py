"""What a kernel's record says: where it comes from, what it takes, in which order it sums, how it is launched.

It compiles nothing before it is asked to.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.kernels import functors
from tilewright.machine import launch_limits
from tilewright.problem.algebra import Semiring, semiring
from tilewright.problem.bounds import Bound
from tilewright.problem.dtypes import element
from tilewright.problem.expression import Expression

if TYPE_CHECKING:
    from tilewright.gpu.tensor_maps import TensorMap
    from tilewright.programs.program import Program

Array = npt.NDArray[Any]


class Compile(Protocol):
    """Makes the Program of a kernel."""

    def __call__(
        self, dtype: str, cc: tuple[int, int], *, finish: Expression | None = ..., algebra: Semiring | None = ...
    ) -> Program:
        """Compile it for a dtype and a compute capability, with what it `takes`."""


#: What the published kernels take.
CANONICAL = ("float32", "float64", "int32")
#: The most blocks that share a tile of C.
MOST_SPLIT = 8
#: Least compute capability that the compilers still make kernels for.
OLDEST = (7, 5)


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Grid and block of a launch, each (x, y, z), and the dynamic shared memory of a block."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """One kernel."""

    name: str  #: Stable and short; what the command line takes.
    title: str  #: One line for people.
    source: str  #: Row of the source systems, `S2`; `CPU` for Tilewright's own CPU engine.
    #: What runs it, as the table of backends has it: `cpu` for the host, `gpu` for a GPU real or simulated, else a
    #: device with kernels of its own.
    backend: str
    dtypes: tuple[str, ...] = CANONICAL  #: NumPy names of the dtypes it takes, the source's own first.
    #: How it sums: the canonical order, each product rounded to the dtype and summed in float64, or as the GPU's tensor
    #: cores do.
    order: Literal["fma", "rounded-product", "tensor-core"] = "fma"
    bound: Bound | None = None  #: How far from the exact product it may be; None where its bits follow from its order.
    cc: tuple[int, int] = OLDEST  #: Least compute capability.
    family: bool = False  #: No other compute capability has its instructions.
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
    #: `work`, memory for sums of blocks that share a tile and a counter of each tile, or `turned`, which operands have
    #: their columns side by side, or `batch`, how many elements a matrix is behind the one before.
    #: Of `boxes`, A and B are tensor maps of boxes of 64 rows by 128 bytes, and C has the only `ld`.
    operands: Literal[
        "abc", "abc m n k", "cab m k n", "abc m n k ld", "abc m n k ld work", "abc m n k ld turned",
        "abc m n k ld batch", "boxes",
    ] = "abc"  # fmt: skip
    #: Of `boxes`: whether A is to be by columns, and B. One that is the other way is copied.
    columns: tuple[bool, bool] = (False, False)
    boxes_of_c: bool = False  #: Of `boxes`: whether C is written by boxes where its rows allow it.
    #: Steps of k for each block that shares a tile of C with others, up to `MOST_SPLIT`; 0 where one takes all.
    split: int = 0
    #: Most blocks of a launch, where a block takes one tile after another; with `split`, so many steps after others.
    resident: int = 0
    group: int = 0  #: Rows of tiles that these take together: down a column of them, then along.
    cluster: int = 1  #: Blocks that have tiles below each other, and copy for each other.
    shared_bytes: int = 0  #: Dynamic shared memory of a block.
    depth: int = 16  #: Steps of k that a block has read before it multiplies them.
    stages: int = 1  #: Of these on their way at once.
    reads: int = 1  #: What a warp's read of an operand costs, in reads of lanes that are side by side.
    beside: int = 0  #: Instructions of a step of k beside reads and multiply-adds, where its loop is not unrolled.
    tensor: str = ""  #: The format in which tensor cores multiply, as GPUs' records name them; "" outside them.
    passes: int = 1  #: Their products for one of C's.
    alike: str = ""  #: The kernel whose sums are made as this one's, where theirs is no order that has a name.
    #: What it can be compiled with: an "epilogue", a traced expression of its sums, which are rounded once then; an
    #: "algebra", operations in the places of + and x.
    takes: tuple[Literal["epilogue", "algebra"], ...] = ()
    #: Names of the algebras that it has instructions of, in place of plus-times; without one given it is the first.
    algebras: tuple[str, ...] = ()
    module: str = ""  #: Of a kernel of the host: where its function `multiply(a, b)` is.
    form: Literal["", "naive", "tiled", "register_tiled"] = ""  #: Of a kernel whose tile depends on the device.

    @property
    def chain(self) -> str:
        """What kernels have in common that give the same bits for any m and n; "" where the bits depend on these.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> [find(name).chain for name in ("tiled", "batched", "split_k", "stream_k")]
        ['canonical', 'tensor_core', 'split_k', '']
        """
        if self.order == "fma":
            return "canonical"
        return "" if self.split and self.resident else self.alike or self.name

    def program(
        self,
        dtype: str,
        cc: tuple[int, int] = (9, 0),
        *,
        finish: Expression | None = None,
        algebra: Semiring | None = None,
    ) -> Program:
        """Compile the kernel for a dtype; the same Program for the same question.

        `finish` is of the sum, in the dtype `sums(dtype)`, and of operands that `arguments` takes as `more`; its dtype
        is C's. `algebra` is on that dtype too.

        Raises ArgumentValueError: it is no kernel for GPUs, or not for so old a one, or takes no epilogue or algebra;
        ArgumentTypeError: the kernel does not take the dtype, or does not sum in that of the expressions;
        MissingExtraError: the `gpu` extra is not installed.
        """
        if self.compiler is None:
            raise ArgumentValueError(f"kernel {self.name!r} is one of {self.backend!r} and has no GPU program")
        if dtype not in self.dtypes:
            raise ArgumentTypeError(f"kernel {self.name!r} takes {', '.join(self.dtypes)} (got {dtype})")
        if refused := self.unfit(cc):
            raise ArgumentValueError(f"kernel {self.name!r} {refused}; choose another GPU")
        given = {"epilogue": finish, "algebra": None if self.algebras else algebra}
        if lacks := [name for name, what in given.items() if what is not None and name not in self.takes]:
            raise ArgumentValueError(f"kernel {self.name!r} takes no {lacks[0]}; choose one whose record says so")
        if algebra is not None and not self.has(algebra):
            raise ArgumentValueError(f"kernel {self.name!r} has {', '.join(self.algebras)} only (got {algebra.name})")
        of = (None if finish is None else finish.parameters[0][1], None if algebra is None else algebra.dtype)
        if wrong := set(of) - {None, self.sums(dtype), *((of[1],) if self.algebras else ())}:
            raise ArgumentTypeError(f"kernel {self.name!r} sums {dtype} in {self.sums(dtype)} (got {wrong.pop()})")
        return (
            self.compiler(dtype, cc, finish=finish, algebra=algebra)
            if any(expression is not None for expression in (finish, algebra))
            else self.compiler(dtype, cc)
        )

    def has(self, algebra: Semiring) -> bool:
        """Whether it can be made for an algebra, or is of it by itself.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> from tilewright.problem.algebra import semiring
        >>> [find("tensor_core_bits").has(semiring(name, "bool")) for name in ("xor-and", "min-max")]
        [True, False]
        """
        if not self.algebras:
            return "algebra" in self.takes
        own = (semiring(name, dtype) for name in self.algebras for dtype in self.dtypes)
        return any(algebra in (one, one.in_words()) for one in own)

    def sums(self, dtype: str) -> str:
        """The dtype in which it sums products of a dtype: the host converts operands of other kernels to that of sums.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> find("tensor_core").sums("float16"), find("tensor_core_s8").sums("int8")
        ('float32', 'int32')
        """
        return dtype if "algebra" in self.takes else element(dtype).accumulator

    def unfit(self, cc: tuple[int, int]) -> str:
        """Why it does not run on GPUs of a compute capability; "" where it does.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> find("tensor_core").unfit((7, 5)), find("tiled").unfit((7, 5))
        ('needs compute capability 8.0 or newer (got 7.5)', '')
        """
        need, have = (".".join(map(str, version)) for version in (self.cc, cc))
        if cc == self.cc or (cc > self.cc and not self.family):
            return ""
        return f"needs compute capability {need}{'' if self.family else ' or newer'} (got {have})"

    def in_blocks(self, edge: int) -> Record | None:
        """The kernel with square blocks of C of that edge; None where it is not made for them.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> find("global_memory").in_blocks(8).launch_rule(32, 32, 32)
        LaunchShape(grid=(4, 4, 1), block=(8, 8, 1), shared_bytes=0)
        """
        if self.any_block and 1 <= edge * edge <= launch_limits().threads_per_block:
            return replace(self, tile=(edge, edge), block=(edge, edge))
        return self if self.tile == (edge, edge) else None

    def launch_rule(self, m: int, n: int, k: int, batch: int = 1) -> LaunchShape:
        """The grid and block for C of shape (m, n); `k` says how many blocks share a tile, where a kernel lets them.

        `batch` is how many matrices there are, of a kernel that takes several.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> find("global_memory").launch_rule(32, 32, 32)
        LaunchShape(grid=(1, 1, 1), block=(32, 32, 1), shared_bytes=0)
        """
        if self.backend != "gpu":
            raise ArgumentValueError(f"kernel {self.name!r} is one of {self.backend!r} and has no launch shape")
        rows, columns = -(-m // self.tile[0]), -(-n // self.tile[1])
        steps = -(-k // self.split) if self.split else 1
        parts = min(steps, MOST_SPLIT) * batch
        grid = (rows, columns, parts) if self.rows_by_x else (columns, rows, parts)
        if self.resident:
            rows = -(-rows // self.cluster) * self.cluster
            grid = (min(rows * columns * steps, self.resident), 1, 1)
        return LaunchShape(grid, (*self.block, 1), self.shared_bytes)

    def blank(self, m: int, n: int, dtype: str) -> Array:
        """Zeros of shape (m, n), in the dtype of the products that the kernel writes.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> find("tensor_core_fp8").blank(2, 3, "float8_e5m2").dtype.name
        'float32'
        """
        return np.zeros((m, n), element(element(dtype).product).numpy)

    def arguments(self, a: Array, b: Array, c: Array, more: Sequence[Array] = ()) -> tuple[Any, ...]:
        """The kernel's arguments; operands that are not row-major are copied, as the kernels' C++ takes flat arrays.

        One that is told how far its rows are apart takes any whose rows have no gaps in them. `more` are the operands
        of an epilogue, each of C's shape, with any strides.

        `a` and `b` have shapes (m, k) and (k, n); the kernel writes into `c`, (m, n). Raises ArgumentValueError:
        `c` is not laid out as :meth:`writes_as_it_lies` says.
        """
        a, b, c = (x.view(np.uint8) if x.dtype == np.bool_ else x for x in (a, b, c))  # kernels' truth values are bytes
        return *self._operands(a, b, c), *functors.operands(more)

    def takes_as_it_lies(self, operand: Array, by_columns: bool = False) -> bool:
        """Whether :meth:`arguments` takes a matrix where it is rather than a copy; `by_columns` is of `columns`.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> turned = np.zeros((20, 16), np.float16).T
        >>> [find(name).takes_as_it_lies(turned) for name in ("tensor_core", "transposed")]
        [False, True]
        """
        if self.operands == "boxes":
            lying = operand.T if by_columns else operand
            return _in_rows(lying) and lying.strides[0] % 16 == lying.ctypes.data % 16 == 0
        if self.operands.startswith("abc m n k ld"):
            return _in_rows(operand) or (self.operands.endswith("turned") and _in_rows(operand.T))
        return operand.flags.c_contiguous and operand.flags.aligned

    def writes_as_it_lies(self, c: Array) -> bool:
        """Whether the kernel writes a matrix in place: row-major, with gaps between rows if it takes their distance.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
        >>> gapped = np.zeros((20, 24), np.float32)[:, :16]
        >>> [find(name).writes_as_it_lies(gapped) for name in ("tensor_core", "tiled")]
        [True, False]
        """
        spaced = self.operands == "boxes" or self.operands.startswith("abc m n k ld")
        return (c.flags.c_contiguous and c.flags.aligned) or (spaced and _in_rows(c))

    def _operands(self, a: Array, b: Array, c: Array) -> tuple[Any, ...]:
        """The arguments of a product without an epilogue."""
        (m, k), n = a.shape[-2:], b.shape[-1]
        several = c.shape[:-2] if self.operands.endswith("batch") else ()
        if c.shape != (*several, m, n) or not self.writes_as_it_lies(c):
            raise ArgumentValueError(
                f"`c` must be row-major of shape {(m, n)} (got {c.shape}, strides {c.strides}); make it with np.empty"
            )
        ldc = n if c.flags.c_contiguous else c.strides[-2] // c.itemsize
        if self.operands == "boxes":
            lying = (x.T if by_columns else x for x, by_columns in zip((a, b), self.columns, strict=True))
            return *map(_boxes, lying), c, *(np.int32(size) for size in (m, n, k, ldc)), *self._last(a, b, c, ())
        if self.operands.startswith("abc m n k ld"):
            takes_columns = self.operands.endswith("turned")
            turned = [takes_columns and not _in_rows(operand) and _in_rows(operand.T) for operand in (a, b)]
            a, b = (
                operand if columns or _in_rows(operand) else np.require(operand, requirements=["C", "A"])
                for operand, columns in zip((a, b), turned, strict=True)
            )
            of_lines = zip((a, b), turned, strict=True)
            leading = (one.strides[-1 if columns else -2] // one.itemsize for one, columns in of_lines)
            return a, b, c, *(np.int32(size) for size in (m, n, k, *leading, ldc)), *self._last(a, b, c, turned)
        # Python's Programs are specialised for arrays that may be written: a copy even where only that flag differs.
        wanted: Literal["W", "A"] = "W" if self.operands == "abc" else "A"
        a, b = (np.require(operand, requirements=["C", "A", wanted]) for operand in (a, b))
        if self.operands == "abc":
            return a, b, c
        sizes = (m, n, k) if self.operands == "abc m n k" else (m, k, n)
        arrays = (a, b, c) if self.operands == "abc m n k" else (c, a, b)
        return *arrays, *(np.int32(size) for size in sizes)

    def _last(self, a: Array, b: Array, c: Array, turned: Sequence[bool]) -> tuple[Any, ...]:
        """What stands behind the rows' distances."""
        if self.boxes_of_c:
            whole = _in_rows(c) and c.strides[0] % 16 == c.ctypes.data % 16 == 0
            return _boxes(c if whole else a), np.int32(whole)  # some map
        if self.operands.endswith("turned"):
            return (np.int32(turned[0] + 2 * turned[1]),)
        if self.operands.endswith("batch"):
            return tuple(np.int64(one.strides[0] // one.itemsize if one.ndim > 2 else 0) for one in (a, b, c))
        return self._work(c.shape[-2], c.shape[-1], a.shape[-1]) if self.operands.endswith("work") else ()

    def _work(self, m: int, n: int, k: int) -> tuple[Array, ...]:
        """Memory for the sums of blocks that share a tile, and the tiles' counters."""
        blocks = math.prod(self.launch_rule(m, n, k).grid)
        tiles = -(-m // self.tile[0]) * -(-n // self.tile[1])
        # Where blocks take steps of one tile after another, each may share that in which it begins and that in which it
        # ends.
        sums = 2 * blocks if self.resident else blocks if blocks > tiles else 0
        return np.empty(max(1, sums * math.prod(self.tile)), np.float32), np.zeros(tiles, np.uint32)

    def accepts(self, m: int, n: int, k: int, dtype: str) -> str | None:
        """Why the kernel cannot be launched for a product, or None when it can.

        A published specimen is launched for any shape that fits a grid, right or wrong: its `limits` say when it is
        right.

        Examples
        --------
        >>> from tilewright.kernels.catalogue import find
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

        if a.dtype == np.bool_:  # as NumPy multiplies truth values: whether any step has both
            counts: Array = canonical(a.astype(np.int64), b.astype(np.int64))
            found: Array = counts != 0
            return found
        if self.order == "rounded-product" and a.dtype != np.float64:
            return canonical(a, b, acc_dtype="float64", out_dtype=a.dtype, order="rounded-product")
        return canonical(a, b)

    def wrong_elements(self, c: Array, a: Array, b: Array) -> int:
        """How many elements of a product are not what this kernel must give: its reference's bits, or its bound."""
        from tilewright.problem.reference import mismatches

        return mismatches(c, self.reference(a, b)) if self.bound is None else self.bound.outside(c, a, b)


def _boxes(operand: Array) -> TensorMap:
    """A tensor map of a matrix; one whose rows do not begin at multiples of 16 bytes is copied, with gaps."""
    from tilewright.gpu.tensor_maps import TensorMap

    unit = 16 // operand.itemsize
    if not _in_rows(operand) or operand.strides[0] % 16:
        rows, columns = operand.shape
        spaced = np.zeros((rows, -(-columns // unit) * unit), operand.dtype)[:, :columns]
        spaced[...] = operand
        operand = spaced
    return TensorMap(operand, box=(64, 128 // operand.itemsize), swizzle=128)


def _in_rows(operand: Array) -> bool:
    """Whether the elements of a row are side by side, and rows one behind the other."""
    rows, columns = operand.strides[-2:]
    width = operand.shape[-1] * operand.itemsize
    whole = all(stride >= 0 and stride % operand.itemsize == 0 for stride in operand.strides)
    return columns == operand.itemsize and rows >= width and whole and operand.flags.aligned
