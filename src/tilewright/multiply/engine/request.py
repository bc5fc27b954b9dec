"""The request for a product, and its execution: rules, then one device, into one array."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends.inventory import opened
from tilewright.multiply.engine import lowering
from tilewright.multiply.engine.fusing import Arguments, Epilogue, Fused, check_scale, factor, fused
from tilewright.multiply.engine.known_layouts import thread_count
from tilewright.multiply.engine.promotion import (
    Casting,
    Order,
    Types,
    Use,
    as_dtype,
    castable,
    check_casting,
    check_order,
    types,
)
from tilewright.multiply.engine.shapes import placed, repeats, result_shape
from tilewright.multiply.problem import narrow
from tilewright.multiply.problem.algebra import Algebra, Semiring, checked, semiring
from tilewright.multiply.problem.dtypes import name_of
from tilewright.simulate.machine import host_memory

Array = npt.NDArray[Any]
_Shape = tuple[int, ...]
NAMES = (str, type, np.dtype)  # hashable values that name dtypes
_PLAIN = "plus-times", "same_kind"


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of :func:`tilewright.matmul` besides arrays and axes, as given."""

    dtype: Any = None
    acc_dtype: Any = None
    alpha: complex = 1
    beta: complex = 0
    epilogue: Epilogue | None = None
    epilogue_args: Arguments = ()
    algebra: str | Algebra = "plus-times"
    threads: int | None = None
    order: Order = "canonical"
    device: str | None = None
    casting: Casting = "same_kind"

    def check(self) -> None:
        """Raise for arguments that are wrong for any operands."""
        check_order(self.order)
        check_casting(self.casting)
        check_scale(self.alpha, "alpha")
        check_scale(self.beta, "beta")

    def check_beta(self, out: object | None) -> None:
        """Raise if `beta` scales an `out` that was not given."""
        if out is None and self.beta != 0:
            raise ArgumentValueError(f"`beta` must be 0 without `out`, which it scales (got {self.beta})")

    def options(self) -> dict[str, Any]:
        """The arguments by name."""
        return {x.name: getattr(self, x.name) for x in fields(self)}

    @property
    def is_plain(self) -> bool:
        """Whether only arguments of NumPy's matmul are given."""
        named = self.dtype is None or isinstance(self.dtype, NAMES)
        plain = self.acc_dtype is None and self.epilogue is None and len(self.epilogue_args) == 0
        return named and plain and self.scale == (1, 0) and self.device is None and self._rules == _PLAIN

    @property
    def _rules(self) -> tuple[str | Algebra, Casting]:
        return self.algebra, self.casting

    @property
    def scale(self) -> tuple[complex, complex]:
        """The scale factors of the sums and of `out`."""
        return self.alpha, self.beta

    @property
    def wanted(self) -> np.dtype[Any] | None:
        """The result's dtype if the caller named one; else an epilogue may decide it."""
        return None if self.dtype is None else as_dtype(self.dtype, "dtype")

    @property
    def total(self) -> np.dtype[Any] | None:
        """The sums' dtype if the caller named one."""
        return None if self.acc_dtype is None else as_dtype(self.acc_dtype, "acc_dtype")

    @property
    def use(self) -> Use:
        """Whether all bits of the sums matter, or only the result's."""
        if checked(self.algebra) != "plus-times":
            return "semiring"
        return "result" if self.epilogue is None else "epilogue"

    def types(self, a: np.dtype[Any], b: np.dtype[Any], casting: Casting | None = None) -> Types:
        """The dtypes of the product of operands with these."""
        return types(a, b, self.wanted, self.total, self.use, self.order, casting or self.casting)

    def semiring(self, found: Types) -> Semiring | None:
        """The operations in place of + and x; None for these two."""
        if self.algebra == "plus-times":
            return None
        made = semiring(self.algebra, name_of(found.accumulator))
        return made.in_words() if found.lowering == "words" else made

    def fused(self, found: Types, out: Array | None, shape: _Shape) -> Fused | None:
        """The expression applied to the sums; complex and boolean products have none."""
        if found.lowering == "real":
            within = shape if out is None or self.beta == 0 else np.broadcast_shapes(shape, out.shape)
            return fused(found, self.wanted, self.epilogue, self.epilogue_args, self.scale, out, within)
        wide = self.algebra != "plus-times" and self.scale != (1, 0)
        if self.epilogue is not None or len(self.epilogue_args) or wide:
            raise ArgumentTypeError(
                "`alpha`, `beta` and `epilogue` must be left out for an algebra of booleans; convert the operands with "
                '.astype("uint8")'
            )
        return None


def multiply(a: Array, b: Array, out: Array | None, asked: Request) -> Array:
    """The product of arrays, in `out` or in a new array."""
    shape = result_shape(a.shape, b.shape)
    found = asked.types(a.dtype, b.dtype)
    algebra, threads, device = asked.semiring(found), thread_count(asked.threads), opened(asked.device)
    if out is not None:
        _check_shape(out, shape)
    asked.check_beta(out)
    made = asked.fused(found, out, shape)
    result = found.result if made is None else made.result
    if out is not None:
        check_output(out.dtype, result, asked.casting)
        if made is not None and asked.beta != 0:
            shape = out.shape  # an `out` with further axes has a product for each of their entries
    run = functools.partial(lowering.compute, threads=threads, device=device)
    if found.lowering != "real" and asked.scale != (1, 0):
        target = _scaled(a, b, out, asked, found, run)
    else:
        others = () if made is None else made.operands[: -1 if made.reads_out else None]
        direct = out is not None and out.dtype == result and _apart(out, shape, (a, b, *others))
        target = out if direct and out is not None else host_memory.empty(shape, result, a.ndim, b.ndim)
        fit = functools.partial(placed, a.ndim, b.ndim)
        more = [] if made is None else made.laid(shape, fit)
        run(a, b, fit(target), found, algebra=algebra, fused=made, more=more)
    if out is None or target is out:
        return target
    out[...] = narrow.rounded(target, out.dtype)
    return out


def _check_shape(out: Array, shape: _Shape) -> None:
    depth = out.ndim - len(shape)
    if depth < 0 or out.shape[depth:] != shape:
        raise ArgumentValueError(
            f"`out.shape` must be {shape}, perhaps after further axes (got {out.shape}, a non-broadcastable output); "
            f"make it with numpy.empty({shape})"
        )


def check_output(out: np.dtype[Any], result: np.dtype[Any], casting: Casting) -> None:
    """Raise if the product may not be cast to `out`'s dtype."""
    if not castable(result, out, casting):
        raise ArgumentTypeError(
            f"`out.dtype` must take the product's dtype {result} by the rule {casting} (got {out}); give "
            "another `out` or `dtype`"
        )


def _apart(out: Array, shape: _Shape, others: tuple[Array, ...]) -> bool:
    """Whether `out` can be written while the operands are read, every element once."""
    if out.shape != shape or repeats(shape, out.strides, out.itemsize):
        return False
    return not any(np.may_share_memory(out, x) for x in others)


def _scaled(a: Array, b: Array, out: Array | None, asked: Request, found: Types, run: Callable[..., None]) -> Array:
    """Compute alpha sum + beta out for complex numbers and booleans."""
    sums = host_memory.empty(result_shape(a.shape, b.shape), found.accumulator, a.ndim, b.ndim)
    read = (found.accumulator,) * 2 if found.lowering == "complex" else (found.a, found.b)
    wide = Types(found.accumulator, found.accumulator, *read, found.lowering)
    run(a, b, placed(a.ndim, b.ndim, sums), wide)
    return scaled(sums, out, asked, found)


def scaled(sums: Array, out: Array | None, asked: Request, found: Types) -> Array:
    """Scaled complex or boolean sums plus scaled `out`: in the accumulator's dtype, then rounded once."""
    factors = [factor(getattr(asked, name), name, found.accumulator) for name in ("alpha", "beta")]
    with np.errstate(all="ignore"):  # like the kernels: IEEE's values, no warnings
        if asked.alpha != 1:
            sums = (sums * factors[0]).astype(sums.dtype, copy=False)
        if out is not None and asked.beta != 0:
            # Not in place: an `out` with further axes has a product for each of their entries.
            sums = np.add(sums, np.multiply(out.astype(found.accumulator), factors[1]))
    return sums.astype(found.result, copy=False)
