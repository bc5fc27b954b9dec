"""The record of a kernel: its source, operands, order of sums and launch.

A record compiles nothing until `program` is called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.kernels import functors
from tilewright.multiply.kernels.planes import Planes
from tilewright.multiply.problem.algebra import Semiring, semiring
from tilewright.multiply.problem.bounds import Bound
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Expression
from tilewright.simulate.machine import launch_limits

if TYPE_CHECKING:
    from tilewright.simulate.programs.program import Program
    from tilewright.simulate.tensor_maps.tensor_map import TensorMap

Array = npt.NDArray[Any]


class Compile(Protocol):
    """Makes the Program of a kernel."""

    def __call__(
        self,
        dtype: str,
        cc: tuple[int, int],
        *,
        finish: Expression | None = ...,
        algebra: Semiring | None = ...,
        batch: str = ...,
    ) -> Program:
        """Compile the kernel for a dtype and a compute capability, with the options that it `takes`."""


#: Dtypes of the published kernels.
CANONICAL = ("float32", "float64", "int32")
#: Most blocks that share a tile of C.
MOST_SPLIT = 8
#: Least compute capability that the compilers still support.
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

    name: str  #: Its stable, short name, which the command line takes.
    title: str  #: One line for reports.
    source: str  #: Row of the source systems, `S2`; `CPU` for Tilewright's own CPU engine.
    #: The backend that runs it: `cpu` for the host, `gpu` for a real or simulated GPU, else a device with its own
    #: kernels.
    backend: str
    dtypes: tuple[str, ...] = CANONICAL  #: NumPy names of the dtypes it takes, the source's own first.
    #: Its order of sums: canonical, each product rounded to the dtype and summed in float64, or that of tensor cores.
    order: Literal["fma", "rounded-product", "tensor-core"] = "fma"
    bound: Bound | None = None  #: Its error bound; None if its order determines the bits.
    cc: tuple[int, int] = OLDEST  #: Least compute capability.
    family: bool = False  #: Whether it is for no other compute capability.
    published: bool = False  #: Whether it is a specimen, kept as published with its defects: shown, not trusted.
    limits: str = ""  #: The only shapes that it takes, or for which it is right; empty if all.
    notes: str = ""  #: A hint on its counts.
    tile: tuple[int, int] = (0, 0)  #: Rows and columns of C a block computes; (0, 0) on the CPU.
    block: tuple[int, int] = (0, 0)  #: Threads of a block in x and y; (0, 0) on the CPU.
    #: Results of a thread: rows that share one read element of B, and columns that share one of A.
    results: tuple[int, int] = (1, 1)
    any_block: bool = False  #: Whether the code reads the block's extents, so that they may vary.
    rows_by_x: bool = False  #: Whether rows of C follow threadIdx.x, as in the published Python kernels, and not y.
    compiler: Compile | None = None  #: Makes the Program; None on the CPU.
    #: Order of the kernel's arguments: arrays; extents; `ld`, row strides in elements; `work`, memory for sums of
    #: blocks that share a tile, and a counter for each tile; `turned`, whether operands have contiguous columns;
    #: Of `boxes`, A and B are tensor maps of boxes of 64 rows by 128 bytes, and C
    #: has the only `ld`.
    operands: Literal[
        "abc", "abc m n k", "cab m k n", "abc m n k ld", "abc m n k ld work", "abc m n k ld turned", "boxes"
    ] = "abc"
    #: With `boxes`: whether A, and B, must be column-major; an operand in the other layout is copied.
    columns: tuple[bool, bool] = (False, False)
    boxes_of_c: bool = False  #: With `boxes`: whether C is written by boxes if its rows allow it.
    planes: Planes | None = None  #: With `boxes`: the planes of which the kernel takes A and B to be sums.
    #: Steps of k for each of up to `MOST_SPLIT` blocks that share a tile of C; 0 if one block takes all.
    split: int = 0
    #: Most blocks of a launch, if a block takes several tiles in turn or, with `split`, several runs of steps.
    resident: int = 0
    group: int = 0  #: Rows of tiles that these blocks take together: down a column of tiles, then along.
    cluster: int = 1  #: Blocks of a cluster, which have adjacent tiles of a column and copy for each other.
    shared_bytes: int = 0  #: Dynamic shared memory of a block.
    depth: int = 16  #: Steps of k that a block reads before it multiplies them.
    stages: int = 1  #: Such stages in flight at once.
    reads: int = 1  #: Cost of a warp's read of an operand, relative to a contiguous read.
    beside: int = 0  #: Instructions of a step of k besides reads and multiply-adds, if its loop is not unrolled.
    tensor: str = ""  #: The format in which tensor cores multiply, as in GPUs' records; "" for other kernels.
    ahead: bool = False  #: With `tensor`: whether warps read fragments to registers while they multiply others.
    passes: int = 1  #: Products of tensor cores for each product of C.
    alike: str = ""  #: The kernel with the same order of sums, if that order has no name.
    #: Options that it can be compiled with: an "epilogue", a traced expression of its sums, rounded once; an "algebra",
    #: operations in place of + and x; a "batch", many products along two axes.
    takes: tuple[Literal["epilogue", "algebra", "batch"], ...] = ()
    #: Names of the algebras that its instructions compute, in place of plus-times; the first is the default.
    algebras: tuple[str, ...] = ()
    form: Literal["", "naive", "tiled", "register_tiled"] = ""  #: For a kernel whose tile depends on the device.

    @property
    def chain(self) -> str:
        """A name that kernels with the same bits for any m and n share; "" if the bits depend on m and n.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
        >>> [find(name).chain for name in ("tiled", "transposed", "split_k", "stream_k")]
        ['canonical', 'tensor_core', 'split_k', '']
        """
        if self.order == "fma":
            return "canonical"
        return "" if self.split and self.resident else self.alike or self.name

    def program(
        self,
        dtype: str,
        cc: tuple[int, int] | None = None,
        *,
        finish: Expression | None = None,
        algebra: Semiring | None = None,
        batch: bool = False,
    ) -> Program:
        """Compile the kernel for a dtype; equal arguments give the same Program.

        The compute capability is by default 9.0, or that of the only family which has the kernel's instructions.
        `finish` is an expression of the sum, in the dtype `sums(dtype)`, and of operands that `arguments` takes as
        `more`; its result has C's dtype. `algebra` is on the dtype of the sums. A program of a `batch` takes
        `arguments` of four axes.

        Raises ArgumentValueError: it is not a kernel for GPUs, or needs a newer one, or does not take an option;
        ArgumentTypeError: the kernel does not take the dtype, or does not sum in that of the expressions;
        MissingExtraError: the `gpu` extra is not installed.
        """
        if self.compiler is None:
            raise ArgumentValueError(f"kernel {self.name!r} is one of {self.backend!r} and has no GPU program")
        if dtype not in self.dtypes:
            raise ArgumentTypeError(f"kernel {self.name!r} takes {', '.join(self.dtypes)} (got {dtype})")
        cc = cc or (self.cc if self.family else (9, 0))
        if refused := self.unfit(cc):
            raise ArgumentValueError(f"kernel {self.name!r} {refused}; choose another GPU")
        given = {"epilogue": finish, "algebra": None if self.algebras else algebra, "batch": batch or None}
        if lacks := [name for name, what in given.items() if what is not None and name not in self.takes]:
            raise ArgumentValueError(f"kernel {self.name!r} takes no {lacks[0]}; choose one whose record says so")
        if algebra is not None and not self.has(algebra):
            raise ArgumentValueError(f"kernel {self.name!r} has {', '.join(self.algebras)} only (got {algebra.name})")
        of = (None if finish is None else finish.parameters[0][1], None if algebra is None else algebra.dtype)
        if wrong := set(of) - {None, self.sums(dtype), *((of[1],) if self.algebras else ())}:
            raise ArgumentTypeError(f"kernel {self.name!r} sums {dtype} in {self.sums(dtype)} (got {wrong.pop()})")
        options: dict[str, Any] = {"finish": finish, "algebra": algebra}
        if batch:
            options["batch"] = element(element(dtype).product).cuda if "epilogue" in self.takes else "alone"
        return self.compiler(dtype, cc, **{name: what for name, what in options.items() if what is not None})

    def has(self, algebra: Semiring) -> bool:
        """Whether it can be compiled for an algebra, or computes it itself.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
        >>> from tilewright.multiply.problem.algebra import semiring
        >>> [find("tensor_core_bits").has(semiring(name, "bool")) for name in ("xor-and", "min-max")]
        [True, False]
        """
        if not self.algebras:
            return "algebra" in self.takes
        own = (semiring(name, dtype) for name in self.algebras for dtype in self.dtypes)
        return any(algebra in (one, one.in_words()) for one in own)

    def sums(self, dtype: str) -> str:
        """The dtype in which it sums products of a dtype.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
        >>> find("tensor_core").sums("float16"), find("tensor_core_s8").sums("int8")
        ('float32', 'int32')
        """
        return dtype if "algebra" in self.takes else element(dtype).accumulator

    def unfit(self, cc: tuple[int, int]) -> str:
        """Why it does not run on GPUs of a compute capability; "" if it does.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
        >>> find("tensor_core").unfit((7, 5)), find("tiled").unfit((7, 5))
        ('needs compute capability 8.0 or newer (got 7.5)', '')
        """
        need, have = (".".join(map(str, version)) for version in (self.cc, cc))
        if cc == self.cc or (cc > self.cc and not self.family):
            return ""
        return f"needs compute capability {need}{'' if self.family else ' or newer'} (got {have})"

    def in_blocks(self, edge: int) -> Record | None:
        """The kernel with square blocks of C of that edge; None if it has no such form.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
        >>> find("global_memory").in_blocks(8).launch_rule(32, 32, 32)
        LaunchShape(grid=(4, 4, 1), block=(8, 8, 1), shared_bytes=0)
        """
        if self.any_block and 1 <= edge * edge <= launch_limits().threads_per_block:
            return replace(self, tile=(edge, edge), block=(edge, edge))
        return self if self.tile == (edge, edge) else None

    def launch_rule(self, m: int, n: int, k: int, batch: int = 1) -> LaunchShape:
        """The grid and block for C of shape (m, n); `k` decides how many blocks share a tile, if they can.

        `batch` is the number of matrices, for a kernel that takes several.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
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
            grid = (min(batch * rows * columns * steps, self.resident), 1, 1)
        return LaunchShape(grid, (*self.block, 1), self.shared_bytes)

    def blank(self, m: int, n: int, dtype: str) -> Array:
        """Zeros of shape (m, n), in the dtype of the products that the kernel writes.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
        >>> find("tensor_core_fp8").blank(2, 3, "float8_e5m2").dtype.name
        'float32'
        """
        return np.zeros((m, n), element(element(dtype).product).numpy)

    def arguments(self, a: Array, b: Array, c: Array, more: Sequence[Array] = ()) -> tuple[Any, ...]:
        """The kernel's arguments; operands that are not row-major are copied, since the kernels take flat arrays.

        A kernel with `ld` takes any row strides, as long as rows are contiguous. `more` are the operands of an
        epilogue, each of C's shape, with any strides.

        `a` and `b` have shapes (m, k) and (k, n); the kernel writes into `c`, (m, n). For a batch all have two axes
        more, the same ones; operands may be broadcast along them. If it takes planes, they may be given as these, below
        or beside each other: (planes m, k) and (k, planes n). Raises ArgumentValueError: `c` is not laid out as
        :meth:`writes_in_place` says.
        """
        a, b, c = (x.view(np.uint8) if x.dtype == np.bool_ else x for x in (a, b, c))  # kernels take booleans as bytes
        several = "batch" in self.takes and c.ndim == 4
        rows, columns = a.shape[-2], b.shape[-1]
        if self.planes and rows > c.shape[-2]:  # planes already
            rows, columns = rows // self.planes.count, columns // self.planes.count
        if c.shape != ((*c.shape[:2],) if several else ()) + (rows, columns) or not self.writes_in_place(c):
            raise ArgumentValueError(
                f"`c` must be row-major of shape {(rows, columns)} (got {c.shape}, strides {c.strides}); make it with "
                "np.empty"
            )
        a, b = (self._placed(x, by_columns) for x, by_columns in zip((a, b), self.columns, strict=True))
        of_batch = functors.batch(a, b, c, self.operands == "boxes") if several else ()
        return *self._operands(a, b, c), *of_batch, *functors.operands(more)

    def takes_in_place(self, operand: Array, by_columns: bool = False) -> bool:
        """Whether :meth:`arguments` takes a matrix in place, without a copy; `by_columns` is one of `columns`.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
        >>> turned = np.zeros((20, 16), np.float16).T
        >>> [find(name).takes_in_place(turned) for name in ("tensor_core", "transposed")]
        [False, True]
        """
        if self.planes:
            return False
        if self.operands == "boxes":
            view = operand.mT if by_columns else operand
            starts = (*view.strides[:-1], view.ctypes.data)
            return _in_rows(view) and all(at >= 0 and at % 16 == 0 for at in starts)
        if self.operands.startswith("abc m n k ld"):
            return _in_rows(operand) or (self.operands.endswith("turned") and _in_rows(operand.mT))
        return _contiguous(operand)

    def writes_in_place(self, c: Array) -> bool:
        """Whether the kernel writes a matrix in place: row-major, with gaps between rows if it takes their distance.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
        >>> gapped = np.zeros((20, 24), np.float32)[:, :16]
        >>> [find(name).writes_in_place(gapped) for name in ("tensor_core", "tiled")]
        [True, False]
        """
        spaced = self.operands == "boxes" or self.operands.startswith("abc m n k ld")
        return _contiguous(c) or (spaced and _in_rows(c))

    def _placed(self, operand: Array, by_columns: bool) -> Array:
        """An operand that the kernel can read, copied if necessary; matrices that are one in memory are copied once."""
        if self.operands == "boxes" or self.takes_in_place(operand, by_columns):
            return operand
        own = operand[tuple(slice(0, 1) if step == 0 else slice(None) for step in operand.strides[:-2])]
        placed = np.require(own, requirements=["C", "A"])
        return placed if own.shape == operand.shape else np.broadcast_to(placed, operand.shape)

    def _operands(self, a: Array, b: Array, c: Array) -> tuple[Any, ...]:
        """The arguments of a product without a batch and an epilogue, for operands as the kernel reads them."""
        (m, n), k = c.shape[-2:], a.shape[-1]
        ldc = n if _contiguous(c) else c.strides[-2] // c.itemsize
        if self.operands == "boxes":
            views = (x.mT if by_columns else x for x, by_columns in zip((a, b), self.columns, strict=True))
            if self.planes:
                views = (self._split(x, rows) for x, rows in zip(views, (m, n), strict=True))
            return *map(_boxes, views), c, *(np.int32(size) for size in (m, n, k, ldc)), *self._last(a, b, c, ())
        if self.operands.startswith("abc m n k ld"):
            takes_columns = self.operands.endswith("turned")
            turned = [takes_columns and not _in_rows(operand) and _in_rows(operand.mT) for operand in (a, b)]
            of_lines = zip((a, b), turned, strict=True)
            leading = (one.strides[-1 if columns else -2] // one.itemsize for one, columns in of_lines)
            return a, b, c, *(np.int32(size) for size in (m, n, k, *leading, ldc)), *self._last(a, b, c, turned)
        if self.operands == "abc":  # Python's Programs are specialised for writable arrays: a read-only one is copied
            return *(np.require(operand, requirements=["C", "A", "W"]) for operand in (a, b)), c
        sizes = (m, n, k) if self.operands == "abc m n k" else (m, k, n)
        arrays = (a, b, c) if self.operands == "abc m n k" else (c, a, b)
        return *arrays, *(np.int32(size) for size in sizes)

    def _split(self, lines: Array, count: int) -> Array:
        """The planes below each other of a matrix of `count` lines along k; others are these planes already."""
        assert self.planes is not None, "the kernel takes planes"
        return self.planes.split(lines).reshape(-1, lines.shape[-1]) if len(lines) == count else lines

    def _last(self, a: Array, b: Array, c: Array, turned: Sequence[bool]) -> tuple[Any, ...]:
        """The arguments after the row strides."""
        if self.boxes_of_c:
            whole = _in_rows(c) and all(at >= 0 and at % 16 == 0 for at in (*c.strides[:-1], c.ctypes.data))
            return _boxes(c if whole else a), np.int32(whole)  # some map
        if self.operands.endswith("turned"):
            return (np.int32(turned[0] + 2 * turned[1]),)
        return self._work(c.shape[-2], c.shape[-1], a.shape[-1]) if self.operands.endswith("work") else ()

    def _work(self, m: int, n: int, k: int) -> tuple[Array, ...]:
        """Memory for the sums of blocks that share a tile, and for the tiles' counters."""
        blocks = math.prod(self.launch_rule(m, n, k).grid)
        tiles = -(-m // self.tile[0]) * -(-n // self.tile[1])
        # If blocks take runs of steps, each may share the tile in which its run begins and the one in which it ends.
        sums = 2 * blocks if self.resident else blocks if blocks > tiles else 0
        return np.empty(max(1, sums * math.prod(self.tile)), np.float32), np.zeros(tiles, np.uint32)

    def accepts(self, m: int, n: int, k: int, dtype: str) -> str | None:
        """Why the kernel cannot be launched for a product, or None if it can.

        A published specimen is launched for any shape that fits a grid, right or wrong; `limits` says when it is right.

        Examples
        --------
        >>> from tilewright.multiply.kernels.catalogue import find
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
        if self.planes and max(m, n) > self.planes.most_lines:
            return f"takes at most {self.planes.most_lines} rows and columns of C"
        for axis, blocks, most in zip("xyz", self.launch_rule(m, n, k).grid, launch_limits().grid_extents, strict=True):
            if blocks > most:
                return f"needs a grid of {blocks} blocks in {axis}, over the limit of {most}"
        return None

    def reference(self, a: Array, b: Array) -> Array:
        """The product that this kernel must give, bit for bit: the canonical one, or that of its own stated order.

        A kernel with a bound only approximates the canonical product; `wrong_elements` tests its bound.
        """
        from tilewright.multiply.problem.reference import canonical

        if a.dtype == np.bool_:  # as in NumPy: true if both are set for any step
            counts: Array = canonical(a.astype(np.int64), b.astype(np.int64))
            found: Array = counts != 0
            return found
        if self.order == "rounded-product" and a.dtype != np.float64:
            return canonical(a, b, acc_dtype="float64", out_dtype=a.dtype, order="rounded-product")
        return canonical(a, b)

    def wrong_elements(self, c: Array, a: Array, b: Array) -> int:
        """The number of elements of a product that differ from the reference's bits, or exceed the bound."""
        from tilewright.multiply.problem.reference import mismatches

        return mismatches(c, self.reference(a, b)) if self.bound is None else self.bound.outside(c, a, b)


def _boxes(operand: Array) -> TensorMap:
    """A tensor map of matrices; they are copied with padding if rows do not start at multiples of 16 bytes.

    An axis of a batch along which all matrices are one has a single element.
    """
    from tilewright.simulate.programs.array_arguments import strided
    from tilewright.simulate.tensor_maps.tensor_map import TensorMap

    unit, lead = 16 // operand.itemsize, operand.ndim - 2
    operand = operand[tuple(slice(0, 1) if step == 0 else slice(None) for step in operand.strides[:-2])]
    if not _in_rows(operand) or any(step < 0 or step % 16 for step in operand.strides[:-1]):
        spaced = np.zeros((*operand.shape[:-1], -(-operand.shape[-1] // unit) * unit), operand.dtype)
        spaced[..., : operand.shape[-1]] = operand
        operand = spaced[..., : operand.shape[-1]]
    steps = [step or operand.strides[-2] for step in operand.strides]  # a driver may refuse 0, even if nothing uses it
    operand = strided(operand, operand.shape, steps)
    return TensorMap(operand, box=(*(1,) * lead, 64, 128 // operand.itemsize), swizzle=128)


def _in_rows(operand: Array) -> bool:
    """Whether the elements of a row are contiguous, and rows of a matrix do not overlap."""
    rows, columns = operand.strides[-2:]
    width = operand.shape[-1] * operand.itemsize
    beside = columns == operand.itemsize or operand.shape[-1] == 1
    return beside and rows >= width and _whole(operand)


def _contiguous(matrices: Array) -> bool:
    """Whether each matrix is contiguous in rows."""
    (rows, columns), (down, right), size = matrices.shape[-2:], matrices.strides[-2:], matrices.itemsize
    return (columns == 1 or right == size) and (rows == 1 or down == columns * size) and _whole(matrices)


def _whole(array: Array) -> bool:
    """Whether strides are whole elements, and elements are aligned."""
    return array.flags.aligned and all(stride % array.itemsize == 0 for stride in array.strides)
