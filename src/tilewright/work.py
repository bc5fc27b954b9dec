"""A product as it was asked for, of arrays whose shapes and dtypes are known: done by one device, into one array."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright import lowering, operands
from tilewright.cpu.product import multiply_into
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.fusing import Arguments, Epilogue, Fused, Kept, factor, fused
from tilewright.known_layouts import repeats
from tilewright.machine import host_memory
from tilewright.problem.algebra import Algebra, Semiring
from tilewright.promotion import Casting, Types, castable

Array = npt.NDArray[Any]
_Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """A product as it was asked for.

    Attributes
    ----------
    shape : tuple of int
        Of the result.
    found : Types
        The dtypes of the operands as they are read, of the sums and of the result.
    wanted : numpy.dtype, optional
        The result's dtype where the caller named one; an epilogue may give another otherwise.
    scale : (complex, complex)
        `alpha` and `beta`.
    epilogue, arguments
        The function of the sums, and what it is called with besides.
    algebra : Semiring, optional
        What takes the places of + and x; None for these.
    threads : int
        The most that may be used.
    multiply : callable
        The product of a device.
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        What the product may be cast to on its way to `out`.
    """

    shape: _Shape
    found: Types
    wanted: np.dtype[Any] | None
    scale: tuple[complex, complex]
    epilogue: Epilogue | None
    arguments: Arguments
    algebra: Semiring | None
    threads: int
    multiply: lowering.MultiplyInto = multiply_into
    casting: Casting = "same_kind"

    def options(self, algebra: str | Algebra, acc_dtype: np.dtype[Any] | None, made: Fused | None) -> dict[str, Any]:
        """The arguments of :func:`matmul` that ask for it."""
        epilogue = self.epilogue if made is None or self.epilogue is None else Kept(self.epilogue, made.expression)
        given = {"dtype": self.wanted, "acc_dtype": acc_dtype, "algebra": algebra}
        return given | {"epilogue": epilogue, "epilogue_args": self.arguments}


def fused_work(work: Work, out: Array | None) -> Fused | None:
    """The expression that sums go through; complex and boolean products have none."""
    if work.found.lowering == "real":
        shape = work.shape if out is None or work.scale[1] == 0 else out.shape
        return fused(work.found, work.wanted, work.epilogue, work.arguments, work.scale, out, shape)
    if work.epilogue is not None or len(work.arguments) or (work.algebra is not None and work.scale != (1, 0)):
        raise ArgumentTypeError(
            "`alpha`, `beta` and `epilogue` must be left out for an algebra of booleans; convert the operands with "
            '.astype("uint8")'
        )
    return None


def multiply(a: Array, b: Array, out: Array | None, work: Work) -> Array:
    """The product of arrays, in `out` or in a new array."""
    found, shape = work.found, work.shape
    if out is not None:
        _check_shape(out, shape)
    elif work.scale[1] != 0:
        raise ArgumentValueError(f"`beta` must be 0 without `out`, which it scales (got {work.scale[1]})")
    made = fused_work(work, out)
    result = found.result if made is None else made.result
    if out is not None:
        _check_output(out, result, work.casting)
        if made is not None and work.scale[1] != 0:
            shape = out.shape  # an `out` with further axes has a product for each of their entries
    if found.lowering != "real" and work.scale != (1, 0):
        target = _scaled(a, b, out, work)
    else:
        others = () if made is None else made.operands[: -1 if made.reads_out else None]
        direct = out is not None and out.dtype == result and _apart(out, shape, (a, b, *others))
        target = out if direct and out is not None else host_memory.empty(shape, result, a.ndim, b.ndim)
        fit = functools.partial(placed, a.ndim, b.ndim)
        left, right = a if a.ndim > 1 else a[None, :], b if b.ndim > 1 else b[:, None]
        more = [] if made is None else made.laid(shape, fit)
        lowering.compute(left, right, fit(target), found, work.threads, work.algebra, made, more, work.multiply)
    if out is None or target is out:
        return target
    out[...] = operands.rounded(target, out.dtype)
    return out


def placed(a_ndim: int, b_ndim: int, x: Array) -> Array:
    """An array of the result's shape with the axes that it lacks for 1-D operands."""
    if a_ndim == 1:
        x = x[..., None] if b_ndim == 1 else x[..., None, :]
    return x[..., None] if b_ndim == 1 else x


def _check_shape(out: Array, shape: _Shape) -> None:
    depth = out.ndim - len(shape)
    if depth < 0 or out.shape[depth:] != shape:
        raise ArgumentValueError(
            f"`out.shape` must be {shape}, perhaps after further axes (got {out.shape}, a non-broadcastable output); "
            f"make it with numpy.empty({shape})"
        )


def _check_output(out: Array, result: np.dtype[Any], casting: Casting) -> None:
    if not castable(result, out.dtype, casting):
        raise ArgumentTypeError(
            f"`out.dtype` must take the product's dtype {result} by the rule {casting} (got {out.dtype}); give "
            "another `out` or `dtype`"
        )


def _apart(out: Array, shape: _Shape, others: tuple[Array, ...]) -> bool:
    """Whether `out` can be written while the operands are read, every element once."""
    if out.shape != shape or repeats(shape, out.strides, out.itemsize):
        return False
    return not any(np.may_share_memory(out, x) for x in others)


def _scaled(a: Array, b: Array, out: Array | None, work: Work) -> Array:
    """Alpha sum + beta out of complex numbers and booleans: in the accumulator's dtype, then rounded once."""
    found, scale = work.found, work.scale
    factors = [factor(value, name, found.accumulator) for value, name in zip(scale, ("alpha", "beta"), strict=True)]
    sums = host_memory.empty(work.shape, found.accumulator, a.ndim, b.ndim)
    read = (found.accumulator,) * 2 if found.lowering == "complex" else (found.a, found.b)
    wide = Types(found.accumulator, found.accumulator, *read, found.lowering)
    left, right = a if a.ndim > 1 else a[None, :], b if b.ndim > 1 else b[:, None]
    lowering.compute(left, right, placed(a.ndim, b.ndim, sums), wide, work.threads, multiply=work.multiply)
    with np.errstate(all="ignore"):  # as the kernels: IEEE's values, no warnings
        if scale[0] != 1:
            sums = (sums * factors[0]).astype(sums.dtype, copy=False)
        if out is not None and scale[1] != 0:
            # Not in place: an `out` with further axes has a product for each of their entries.
            sums = np.add(sums, np.multiply(out.astype(found.accumulator), factors[1]))
    return sums.astype(found.result, copy=False)
