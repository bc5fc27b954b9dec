"""What a product will be, before there are operands: shapes by NumPy's rules, kernel, threads and memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.cpu.contexts import KernelKey, Tile
from tilewright.cpu.elements import element
from tilewright.cpu.product import Path, Product, product
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.libraries import is_tensor
from tilewright.problem.algebra import WORD, Semiring
from tilewright.problem.expression import Expression, brief
from tilewright.problem.kind import Kind
from tilewright.promotion import Lowering, Order, Types, byte_kind, real_kind
from tilewright.shown import Shown

Shape = tuple[int, ...]

#: Of an operand or result that is planned: each call into machine code is laid out beforehand, about one a million.
_MOST_ELEMENTS = 2**40


def checked_shape(shape: Any, name: str) -> Shape:
    """A shape as it was given, of an operand that an address space has room for.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        It is no shape, or one that no array can have.
    """
    try:
        found = tuple(operator.index(x) for x in shape)
    except TypeError as error:
        came = shape if isinstance(shape, int | str | tuple) else type(shape).__name__
        raise ArgumentTypeError(
            f"`{name}` must be a shape, a tuple of whole numbers (got {came}); pass x.shape of an array"
        ) from error
    if any(x < 0 for x in found):
        raise ArgumentValueError(f"`{name}` must have extents of 0 or more (got {found})")
    if math.prod(found) > _MOST_ELEMENTS:
        raise ArgumentValueError(
            f"`{name}` must have at most {_MOST_ELEMENTS:,} elements (got {found}); plan a part of the product"
        )
    return found


def result_shape(a: Shape, b: Shape) -> Shape:
    """The shape of a product.

    Raises
    ------
    ArgumentValueError
        An operand is a scalar, or extents do not fit.

    Examples
    --------
    >>> result_shape((5, 1, 2, 3), (4, 3, 7))
    (5, 4, 2, 7)
    """
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ArgumentValueError(f"`{name}` must have at least 1 dimension (got a scalar); use * to scale")
    inner = b[0] if len(b) == 1 else b[-2]
    if a[-1] != inner:
        raise ArgumentValueError(
            f"`b.shape[{0 if len(b) == 1 else -2}]` must equal `a.shape[-1]` (got {inner} and {a[-1]}); "
            f"shapes were {a} and {b}"
        )
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError as error:
        raise ArgumentValueError(
            f"the axes of `a` and `b` before the last two must broadcast (got {a[:-2]} and {b[:-2]}, of {a} and {b})"
        ) from error
    return (*batch, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


@dataclass(frozen=True, slots=True)
class Plan(Shown):
    """A product laid out before there are operands; call it with them.

    Attributes
    ----------
    a_shape, b_shape, shape : tuple of int
    a_dtype, b_dtype, dtype, acc_dtype : numpy.dtype
        Of the operands, the result and the running sums.
    lowering : {"real", "complex", "bool", "words"}
        Complex products are computed as real ones of twice the extents n and k; booleans are counted as bytes, and an
        algebra's are words of 32.
    algebra : str
        What takes the places of addition and multiplication.
    order : {"canonical", "fast"}
        Of the sums, as they will be made: "fast" only where it was asked for and this host has a kernel for it.
    path : {"packed", "tile registers", "skinny", "small"}
        How operands are read: blocks packed for vectors or for tile registers; B in place for few rows (or columns) of
        the result; all in place by a kernel for exact extents, once 10,000 matrices have been seen (32, where that
        kernel is on disk).
    kernel : KernelKey
        What the kernel is made for; the packed one, where the path is "small".
    tile : Tile
        The packed kernel's register tile and cache blocks, in elements.
    parts : int
        Rectangles that one matrix of the result is cut into.
    threads : int
        How many threads work at them.
    buffer_bytes : int
        Packing buffers of all threads, for row-major operands.
    flops : int
        Multiplications and additions of real numbers, or the algebra's in their places.
    epilogue : str
        The expression that the sums go through, or "".
    options : mapping
        What a call passes on to :func:`tilewright.matmul`.
    """

    a_shape: Shape
    b_shape: Shape
    shape: Shape
    a_dtype: np.dtype[Any]
    b_dtype: np.dtype[Any]
    dtype: np.dtype[Any]
    acc_dtype: np.dtype[Any]
    lowering: Lowering
    algebra: str
    order: Order
    path: Path
    kernel: KernelKey
    tile: Tile
    parts: int
    threads: int
    buffer_bytes: int
    flops: int
    epilogue: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return "\n".join(f"{name:<9}{line}" for name, line in self.facts.items())

    @property
    def facts(self) -> Mapping[str, str]:
        """What the plan says, by its label."""
        factors = " @ ".join(f"{dtype} {shape}" for dtype, shape in self._operands)
        kernel, tile = f"{self.kernel.family}, vectors of {self.kernel.vector_bytes} bytes", self.tile
        if self.path in ("packed", "tile registers"):
            kernel += f", tiles of {tile.mr} x {tile.nr}, blocks of {tile.kc} along k and {tile.nc} along n"
        lines = {
            "product": f"{factors} -> {self.dtype} {self.shape}, {self.algebra}",
            "sums": f"{self.acc_dtype}, {self.order} order",
            "epilogue": brief(self.epilogue),
            "kernel": f"{self.path}: {kernel}",
            "threads": f"{self.threads}, a matrix of the result in {self.parts} part{'s' * (self.parts != 1)}",
            "buffers": f"{self.buffer_bytes:,} bytes",
            "work": f"{self.flops:,} operations",
        }
        return {name: line for name, line in lines.items() if line}

    @property
    def _operands(self) -> tuple[tuple[np.dtype[Any], Shape], ...]:
        return (self.a_dtype, self.a_shape), (self.b_dtype, self.b_shape)

    def __call__(self, a: Any, b: Any, /, out: Any = None) -> Any:
        """Multiply operands of the plan's shapes and dtypes, of any strides.

        Raises
        ------
        ArgumentValueError, ArgumentTypeError
            The operands are not what was planned for.
        """
        from tilewright import engine, operands

        for name, value, (dtype, shape) in zip("ab", (a, b), self._operands, strict=True):
            found = operands.array(value.detach() if is_tensor(value) else value, name)
            if found.shape != shape:
                raise ArgumentValueError(f"`{name}.shape` must be the plan's {shape} (got {found.shape}); plan anew")
            if found.dtype != dtype:
                raise ArgumentTypeError(f"`{name}.dtype` must be the plan's {dtype} (got {found.dtype}); plan anew")
        return engine.matmul(a, b, out, **self.options)


def row_major(shape: Shape, itemsize: int) -> Shape:
    """Byte strides of a row-major array."""
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def planned(
    a: Shape,
    b: Shape,
    found: Types,
    threads: int,
    algebra: Semiring | None = None,
    finish: tuple[Expression, bool] | None = None,
    more: Sequence[npt.NDArray[Any]] = (),
) -> Product:
    """The engine's product for row-major operands of these shapes; `more` are the finish's, of the result's."""
    result_shape(a, b)
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    kind = byte_kind(left[-1]) if found.lowering == "bool" else real_kind(found, algebra, finish)
    if found.lowering == "words":
        kind = Kind("bool", WORD, WORD, WORD, algebra)
        right = (*right[:-1], -(-right[-1] // 32))
    out = (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    sizes = [element(name).bytes for name in (kind.a, kind.b, kind.out)]
    shapes = (left, right, out)
    spread = [x for shape, size in zip(shapes, sizes, strict=True) for x in (shape, row_major(shape, size))]
    return product(*spread, kind, threads, tuple(x.strides for x in more))
