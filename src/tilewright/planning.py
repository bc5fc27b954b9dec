"""What a product will be, before there are operands: dtypes and shapes by NumPy's rules, kernel, threads and memory."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright.cpu.contexts import KernelKey, Tile
from tilewright.cpu.elements import COMPLEX, element
from tilewright.cpu.product import Path, Product, product
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.problem import dtypes
from tilewright.problem.algebra import WORD, Semiring
from tilewright.problem.expression import Expression
from tilewright.problem.kind import Kind
from tilewright.shown import Shown

Shape = tuple[int, ...]
#: What a dtype's products are made of.
Lowering = Literal["real", "complex", "bool", "words"]
#: What sums are for: "result" alone, so that their bits beyond its width do not matter, or all their bits are read.
Use = Literal["result", "epilogue", "semiring"]
Order = Literal["canonical", "fast"]
_NAMES = frozenset(record.name for record in dtypes.DTYPES)
#: k up to which sums of products of two bytes cannot reach 2^32. Source: 2^32 / 255^2.
_BYTE_SUMS = 66_051


@dataclass(frozen=True)
class Types:
    """The dtypes of a product.

    Attributes
    ----------
    result : numpy.dtype
        What sums are rounded or wrapped to.
    accumulator : numpy.dtype
        What they are kept in.
    a, b : numpy.dtype
        What the kernels read; operands of other dtypes are converted to it first.
    lowering : {"real", "complex", "bool", "words"}
    order : {"canonical", "fast"}
        "fast" where the caller allows another order of summation and dtypes are such that a kernel may have one.
    """

    result: np.dtype[Any]
    accumulator: np.dtype[Any]
    a: np.dtype[Any]
    b: np.dtype[Any]
    lowering: Lowering
    order: Order = "canonical"

    @functools.cached_property
    def kind(self) -> Kind:
        """Of the product behind it, its sums rounded to the result."""
        if self.lowering == "bool":
            return Kind("uint8", "uint8", "uint32", "uint32")
        if self.lowering == "complex":
            return Kind(*(self.accumulator.name,) * 4)
        return Kind(self.a.name, self.b.name, self.result.name, self.accumulator.name, order=self.order)

    @functools.cached_property
    def finishes_in_kernel(self) -> bool:
        """Whether the kernel's own last conversion is a single rounding."""
        return not (self.accumulator.itemsize == 8 and self.result.itemsize == 2 and self.result.kind in "fV")


def real_kind(types: Types, algebra: Semiring | None = None, finish: tuple[Expression, bool] | None = None) -> Kind:
    """The kind of a real product by an algebra, with an expression of its sums (and whether that reads C)."""
    kind = types.kind._replace(algebra=algebra)
    return kind if finish is None else kind._replace(out=finish[0].dtype, finish=finish[0], reads_out=finish[1])


def byte_kind(k: int) -> Kind:
    """Of or-and: how often both are set is counted, wide enough that no count wraps to 0."""
    total = "uint32" if k <= _BYTE_SUMS else "uint64"
    return Kind("uint8", "uint8", total, total)


def as_dtype(like: npt.DTypeLike | str, name: str) -> np.dtype[Any]:
    """A dtype in native byte order; names of ml_dtypes' work without importing it."""
    if isinstance(like, str) and (like == "bfloat16" or like.startswith("float8")):
        import ml_dtypes

        like = getattr(ml_dtypes, like, like)
    try:
        return np.dtype(like).newbyteorder("=")
    except TypeError as error:
        raise ArgumentTypeError(f"`{name}` must name a dtype (got {like!r})") from error


@functools.lru_cache(maxsize=1024)
def types(
    a: np.dtype[Any],
    b: np.dtype[Any],
    dtype: np.dtype[Any] | None = None,
    acc_dtype: np.dtype[Any] | None = None,
    use: Use = "result",
    order: Order = "canonical",
) -> Types:
    """The dtypes of a product, as `numpy.matmul` promotes and casts them.

    Without `dtype` the result has the operands' common dtype (float32 for float8, which has no arithmetic); with it
    the operands are taken for that dtype first, which casting "same_kind" must allow.

    Raises
    ------
    ArgumentTypeError
        No such product, or the casting rule forbids it.
    """
    result = _promoted(a, b) if dtype is None else dtype
    if result.name not in _NAMES and result.name not in COMPLEX and result.kind != "b":
        raise ArgumentTypeError(
            f"a product must be of booleans, integers, floats to 64 bits or complex numbers to 128 "
            f"(got {result} for {a} and {b}); convert the operands with .astype"
        )
    for name, operand in (("a", a), ("b", b)):
        if not same_kind(operand, result):
            raise ArgumentTypeError(
                f"`{name}` must be castable to the product's dtype {result} by the rule same_kind (got {operand}); "
                f"convert it with .astype"
            )
    if result.kind == "c" and use != "result":
        raise ArgumentTypeError(
            f"a product of complex numbers must have no algebra and no epilogue (got {result}); multiply the real and "
            "imaginary parts, or compute afterwards"
        )
    if result.kind == "b":
        if acc_dtype is not None:
            raise ArgumentTypeError(f"`acc_dtype` must not be given for booleans (got {acc_dtype}); they do not add up")
        if use == "epilogue":
            raise ArgumentTypeError(
                "an epilogue must follow a product of numbers (got booleans); convert the operands with "
                '.astype("uint8")'
            )
        byte = np.dtype(np.uint8)
        return Types(result, result, byte, byte, "bool" if use == "result" else "words")
    if result.kind == "c":
        total = _complex_total(result, acc_dtype)
        return Types(result, total, result, result, "complex")
    total = _total(result, result if acc_dtype is None and use == "semiring" and result.kind in "iu" else acc_dtype)
    left, right = (_readable(x, result, total, whole=use != "result") for x in (a, b))
    pairs = left.name == right.name == "bfloat16" and total.name == "float32" and use != "semiring"
    return Types(result, total, left, right, "real", order if pairs else "canonical")


def _promoted(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    try:
        found = np.result_type(a, b)
    except TypeError as error:
        raise ArgumentTypeError(
            f"`a` and `b` must have dtypes with a common one (got {a} and {b}); convert one with .astype"
        ) from error
    return np.dtype(np.float32) if found.name.startswith("float8") else found.newbyteorder("=")


def _is_float(given: np.dtype[Any]) -> bool:
    return given.kind == "f" or given.name == "bfloat16" or given.name.startswith("float8")


def same_kind(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """NumPy's rule for a cast, with ml_dtypes' floats taken for floats."""
    if _is_float(given) and (_is_float(wanted) or wanted.kind == "c"):
        return True
    if _is_float(wanted) and given.kind in "biu":
        return True
    return bool(np.can_cast(given, wanted, "same_kind"))


def _total(result: np.dtype[Any], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    record = dtypes.dtype(result)
    default = dtypes.dtype(record.accumulator)
    if wanted is None:
        return default.numpy
    if wanted.name not in _NAMES or not dtypes.dtype(wanted).holds(record):
        raise ArgumentTypeError(
            f"`acc_dtype` must hold every value of the product's dtype {result} (got {wanted}); give {default.name} "
            "or a wider one, or a narrower `dtype`"
        )
    if wanted.name in ("float16", "bfloat16"):
        raise ArgumentTypeError(f"`acc_dtype` must be float32 or float64 for {result} (got {wanted})")
    return wanted


def _complex_total(result: np.dtype[Any], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    if wanted is None:
        return result
    if wanted.name not in COMPLEX or wanted.itemsize < result.itemsize:
        raise ArgumentTypeError(f"`acc_dtype` must be complex and hold {result} (got {wanted})")
    return wanted


def _readable(
    given: np.dtype[Any], result: np.dtype[Any], total: np.dtype[Any], *, whole: bool = False
) -> np.dtype[Any]:
    """What the kernels read for an operand: itself where reading it is the cast that NumPy would make.

    For `whole` sums it must be that in every bit of the accumulator, not only in the result's.
    """
    native = np.dtype(np.uint8) if given.kind == "b" else given.newbyteorder("=")
    if native.name not in _NAMES:
        return result
    have, want = dtypes.dtype(native), dtypes.dtype(result)
    if have.is_float == want.is_float:
        if whole:
            return native if want.holds(have) else result
        # Narrower integers of either sign are the same modulo 2^bits; narrower floats are the same values.
        return native if want.holds(have) or (not want.is_float and have.bytes <= want.bytes) else result
    # An integer of at most the significand's bits is a value of the float type; a longer one is rounded to it first.
    exact = have.precision <= want.precision and have.largest <= want.largest
    return native if exact or total == result else result


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
            "epilogue": self.epilogue,
            "kernel": f"{self.path}: {kernel}",
            "threads": f"{self.threads}, a matrix of the result in {self.parts} part{'s' * (self.parts != 1)}",
            "buffers": f"{self.buffer_bytes:,} bytes",
            "work": f"{self.flops:,} operations",
        }
        return {name: line for name, line in lines.items() if line}

    @property
    def _operands(self) -> tuple[tuple[np.dtype[Any], Shape], ...]:
        return (self.a_dtype, self.a_shape), (self.b_dtype, self.b_shape)

    def __call__(self, a: npt.ArrayLike, b: npt.ArrayLike, /, out: Any = None) -> Any:
        """Multiply operands of the plan's shapes and dtypes, of any strides.

        Raises
        ------
        ArgumentValueError, ArgumentTypeError
            The operands are not what was planned for.
        """
        from tilewright import engine, operands

        for name, value, (dtype, shape) in zip("ab", (a, b), self._operands, strict=True):
            found = operands.array(value, name)
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


__all__ = ["Order", "Plan", "Types", "as_dtype", "byte_kind", "planned", "real_kind", "result_shape", "types"]
