"""Scale factors and the caller's epilogue, as one traced expression that turns sums into C.

``C = astype(epilogue(alpha * sum + beta * out, *operands), dtype)``. The sum has the accumulator's dtype; each
operation rounds to the dtype that NumPy's promotion gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.engine import operands
from tilewright.multiply.engine.promotion import Types
from tilewright.multiply.problem import dtypes
from tilewright.multiply.problem.expression import Expression, as_numpy, check_arity, identity
from tilewright.multiply.problem.fingerprint import fingerprint
from tilewright.multiply.problem.functions import trace
from tilewright.multiply.problem.narrow import rounded
from tilewright.multiply.problem.tracing import Value

Array = npt.NDArray[Any]
Epilogue = Callable[..., Any]
Arguments = Sequence[Any] | Mapping[str, Any]
_NAMES = dtypes.NAMES | {"bool"}


@dataclass(frozen=True, slots=True)
class Fused:
    """An expression of the sum, with the arrays that it reads."""

    expression: Expression  #: Its first parameter is the sum, the others the operands.
    operands: tuple[Array, ...] = ()  #: Each broadcasts to the result's shape.
    reads_out: bool = False  #: Whether the last operand is `out`.

    @property
    def signature(self) -> tuple[Expression, bool]:
        """The part that a kernel's code depends on."""
        return self.expression, self.reads_out

    @property
    def result(self) -> np.dtype[Any]:
        """The dtype of C."""
        return as_numpy(self.expression.dtype)

    def laid(self, shape: tuple[int, ...], placed: Callable[[Array], Array]) -> list[Array]:
        """The operands as views of C's shape, with the axes that `placed` adds for 1-D factors."""
        return [placed(np.broadcast_to(x, shape)) for x in self.operands]


def fused(
    found: Types,
    wanted: np.dtype[Any] | None,
    epilogue: Epilogue | None,
    arguments: Arguments,
    scale: tuple[complex, complex],
    out: Array | None,
    shape: tuple[int, ...],
) -> Fused | None:
    """The expression of a real product; None if the kernel's own conversion of the sums gives C.

    `epilogue` and `arguments` are as for :func:`tilewright.matmul`, `scale` is (alpha, beta), `wanted` the result's
    dtype where the caller gave it, and `shape` the result's.

    Raises ArgumentTypeError, ArgumentValueError: an argument is no array, or does not broadcast, or the function cannot
    be traced.
    """
    total = found.accumulator
    if not isinstance(arguments, Sequence | Mapping) or isinstance(arguments, str):
        raise ArgumentTypeError(
            f"`epilogue_args` must be a sequence or a mapping of operands (got {type(arguments).__name__}); write "
            "epilogue_args=(x,) for one"
        )
    if epilogue is None:
        if len(arguments):
            raise ArgumentTypeError("`epilogue_args` must be left out without `epilogue`, which takes them")
        if scale == (1, 0):
            return None if found.finishes_in_kernel else Fused(identity(total.name, found.result.name))
    elif not callable(epilogue):
        raise ArgumentTypeError(f"`epilogue` must be a function of the sum (got {type(epilogue).__name__})")
    named = dict(arguments) if isinstance(arguments, Mapping) else None
    labelled = named if named is not None else dict(enumerate(arguments))
    arrays = [_operand(x, f"epilogue_args[{i!r}]", total, shape) for i, x in labelled.items()]
    factors = [factor(value, name, total) for value, name in zip(scale, ("alpha", "beta"), strict=True)]
    scaled: dict[str, Array] = {} if scale[0] == 1 else {"alpha": np.asarray(factors[0])}
    reads_out = False
    if scale[1] != 0 and out is not None:
        reads_out = out.dtype.isnative and dtypes.name_of(out.dtype) in _NAMES
        scaled |= {"beta": np.asarray(factors[1]), "out": out if reads_out else rounded(out, total)}
    names = ["sum", *(f"x{i}" for i in range(len(arrays))), *scaled]
    values = (*arrays, *scaled.values())
    kinds = [dtypes.name_of(x) for x in (total, *(value.dtype for value in values))]
    recipe = _Recipe(
        tuple(zip(names, kinds, strict=True)),
        len(arrays),
        tuple(named) if named is not None else None,
        (scale[0] != 1, scale[1] != 0),
        found,
        wanted,
    )
    return Fused(_expression(epilogue, recipe), values, reads_out)


@dataclass(frozen=True, slots=True)
class Kept:
    """An epilogue with the expression that a plan traced, so that calls of the plan need not trace it again."""

    function: Epilogue
    expression: Expression

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Call the function, as tracing for operands of other dtypes does."""
        return self.function(*values, **named)


class _Recipe(NamedTuple):
    """The inputs of tracing besides the epilogue."""

    parameters: tuple[tuple[str, str], ...]  # names and dtypes: the sum, the epilogue's operands, the scale factors
    operands: int
    keywords: tuple[str, ...] | None  # the epilogue's keyword names, if its operands were given by name
    scaled: tuple[bool, bool]  # by alpha; and by beta, times `out`
    types: Types
    wanted: np.dtype[Any] | None

    def traced(self, epilogue: Epilogue | None) -> Expression:
        """The expression of an epilogue, or of the scale factors alone."""
        return trace(functools.partial(self._body, epilogue), dict(self.parameters))

    def _body(self, epilogue: Epilogue | None, total: Value, *values: Value) -> Any:
        """The function to trace."""
        arguments, rest = values[: self.operands], list(values[self.operands :])
        name = self.types.accumulator.name
        result: Any = total
        if self.scaled[0]:
            result = result * rest.pop(0)
        if self.scaled[1]:
            beta, out = rest
            result = result + out.cast(name) * beta
        if epilogue is not None:
            named = dict(zip(self.keywords, arguments, strict=True)) if self.keywords is not None else {}
            placed = (result,) if self.keywords is not None else (result, *arguments)
            check_arity(epilogue, placed, named)
            result = epilogue(*placed, **named)
            if isinstance(result, bool | int | float | np.generic):
                result = total.like(result)
            if not isinstance(result, Value):
                return result  # refused by `trace`
        kept = result.dtype in (name, total.dtype) or epilogue is None
        target = self.wanted.name if self.wanted is not None else self.types.result.name if kept else result.dtype
        return result.cast(target)


@dataclass(frozen=True, slots=True)
class _Same:
    """A function that equals another where their fingerprints do."""

    key: Hashable
    function: Epilogue | None = field(compare=False)


def _expression(epilogue: Epilogue | None, recipe: _Recipe) -> Expression:
    if isinstance(epilogue, Kept) and epilogue.expression.parameters == recipe.parameters:
        return epilogue.expression
    key = None if epilogue is None else fingerprint(epilogue)
    if epilogue is not None and key is None:
        return recipe.traced(epilogue)
    return _traced_once(_Same(key, epilogue), recipe)


@functools.lru_cache(maxsize=256)
def _traced_once(same: _Same, recipe: _Recipe) -> Expression:
    """The expression of all functions with one fingerprint."""
    return recipe.traced(same.function)


def _operand(value: Any, name: str, total: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """An epilogue's operand as an array that broadcasts to C; Python's numbers take a dtype as in NumPy 2."""
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return np.asarray(value, np.result_type(total, value))
    array = operands.array(value, name)
    if dtypes.is_float8(dtypes.name_of(array.dtype)):
        array = array.astype(np.float32)
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if dtypes.name_of(array.dtype) not in _NAMES:
        raise ArgumentTypeError(
            f"`{name}` must be of booleans, integers or floats to 64 bits (got {array.dtype}); convert it with .astype"
        )
    try:
        np.broadcast_to(array, shape)
    except ValueError as error:
        raise ArgumentValueError(
            f"`{name}` must broadcast to the result's shape {shape} (got {array.shape}); a column has shape (m, 1)"
        ) from error
    return array


def check_scale(value: Any, name: str) -> None:
    """Raise if a scale factor is not a number."""
    if not np.isscalar(value) or isinstance(value, str | bytes):
        raise ArgumentTypeError(
            f"`{name}` must be a number (got {type(value).__name__}); scale by arrays in an epilogue"
        )


def factor(value: complex, name: str, total: np.dtype[Any]) -> Any:
    """A scale factor in the accumulator's dtype; integers wrap."""
    if total.kind == "b":
        if value in (0, 1):
            return value
        raise ArgumentTypeError(f"`{name}` must be left out for booleans (got {value!r})")
    if total.kind in "iu":
        if not isinstance(value, int | np.integer):
            raise ArgumentTypeError(f"`{name}` must be an integer for a product of integers (got {value!r})")
        return np.array(int(value) % (1 << 64), np.uint64).astype(total)[()]
    if isinstance(value, complex) and total.kind != "c":
        raise ArgumentTypeError(f"`{name}` must be real for a real product (got {value!r})")
    try:
        return total.type(value)
    except OverflowError as error:
        raise ArgumentValueError(f"`{name}` must be a value of {total} (got a number too large for it)") from error
