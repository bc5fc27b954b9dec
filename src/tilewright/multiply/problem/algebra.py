"""Semirings as data: the operations in place of addition and multiplication in a product.

The product is the fold ``acc = add(acc, multiply(a[i, k], b[k, j]))``, k ascending, from the algebra's zero, in the
accumulator's dtype. The order is fixed, so the result is unique even if `add` is not associative or commutative.

Integers wrap, as in NumPy, even if a semiring uses the largest integer as infinity: keep weights of min-plus well below
it.

Source: Fletcher, A more general algorithm for computing closed semiring costs between vertices of a directed graph,
CACM 23(6), 1980; Davis, SuiteSparse:GraphBLAS, ACM TOMS 45(4), 2019, for the named ones.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.problem import functions
from tilewright.multiply.problem.expression import Expression, brief, constant_text, in_words
from tilewright.multiply.problem.functions import trace
from tilewright.multiply.problem.primitives import letter

#: Operations on booleans -> the same on words of booleans.
_LOGIC = {
    **{name: name for name in ("parameter", "copy", "invert", "bitwise_and", "bitwise_or", "bitwise_xor")},
    "minimum": "bitwise_and",
    "maximum": "bitwise_or",
}
#: A word's dtype, and the word of all true.
WORD, _ALL = "uint32", 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Algebra:
    """Two operations and the start value of the sums.

    Attributes
    ----------
    add, multiply : callable
        Functions of two values, traced, so written with operators and `tilewright`'s functions. The first argument of
        `add` is the sum so far, that of `multiply` the element of A.
    zero : number
        The identity of `add`. An infinity means an integer dtype's largest or smallest value.
    name : str, optional
        The algebra's name in plans.

    Examples
    --------
    Shortest paths of at most two edges, with a named and a user-defined algebra:

    >>> import tilewright as tw
    >>> d = np.array([[0, 3, np.inf], [np.inf, 0, 4], [1, np.inf, 0]])
    >>> tw.matmul(d, d, algebra="min-plus")
    array([[0., 3., 7.],
           [5., 0., 4.],
           [1., 4., 0.]])
    >>> mine = tw.Algebra(add=tw.minimum, multiply=lambda x, y: x + y, zero=np.inf)
    >>> bool((tw.matmul(d, d, algebra=mine) == tw.matmul(d, d, algebra="min-plus")).all())
    True
    """

    add: Callable[[Any, Any], Any]
    multiply: Callable[[Any, Any], Any]
    zero: float | int | bool
    name: str = ""

    def traced(self, dtype: str) -> Semiring:
        """The algebra on one dtype.

        Raises ArgumentTypeError, ArgumentValueError: its operations cannot be traced, or leave the dtype.
        """
        add, multiply = (
            _of_dtype(function, names, dtype)
            for function, names in ((self.add, ("sum", "product")), (self.multiply, ("a", "b")))
        )
        return Semiring(self.name or "of its own", dtype, add, multiply, constant_text(self._zero_of(dtype), dtype))

    def _zero_of(self, dtype: str) -> float | int | bool:
        zero = self.zero.item() if isinstance(self.zero, np.generic) else self.zero
        if not isinstance(zero, bool | int | float):
            raise ArgumentTypeError(f"`zero` must be a real number (got {type(zero).__name__})")
        kind = letter(dtype)
        if kind == "f":
            return float(zero)
        if kind == "b":
            return zero > 0
        info = np.iinfo(dtype)
        if isinstance(zero, float) and math.isnan(zero):
            raise ArgumentValueError(f"`zero` must be a value of the accumulator's dtype {dtype} (got {zero})")
        if isinstance(zero, float) and math.isinf(zero):
            return int(info.max if zero > 0 else info.min)
        if zero != int(zero) or not info.min <= zero <= info.max:
            raise ArgumentValueError(f"`zero` must be a value of the accumulator's dtype {dtype} (got {zero})")
        return int(zero)


def _of_dtype(function: Callable[..., Any], names: tuple[str, str], dtype: str) -> Expression:
    found = trace(function, dict.fromkeys(names, dtype))
    if found.dtype != dtype:
        raise ArgumentTypeError(
            f"an algebra's operations must stay in the accumulator's dtype {dtype} (got {found.dtype} from "
            f'`{brief(str(found))}`); convert with tw.astype, or multiply in a dtype that they stay in, dtype="float64"'
        )
    return found


@dataclass(frozen=True, slots=True)
class Semiring:
    """An algebra on one dtype; kernels are compiled for it."""

    name: str
    dtype: str  #: Dtype of the accumulator.
    add: Expression
    multiply: Expression
    zero: str  #: As a constant's text.
    swapped: bool = False  #: Whether A and B are swapped: `multiply` takes B's element first.

    @property
    def cost(self) -> int:
        """Operations of a step."""
        return self.add.cost + self.multiply.cost

    def in_words(self) -> Semiring:
        """An algebra on booleans as one on words of 32.

        Raises ArgumentTypeError: it has operations other than logic.
        """
        steps = self.add.instructions + self.multiply.instructions
        other = [step.op for step in steps if step.op not in _LOGIC]
        if self.dtype != "bool" or other:
            raise ArgumentTypeError(
                f"an algebra of booleans must be written with &, |, ^, ~, minimum and maximum (got {other[0]}); "
                'convert the operands with .astype("uint8")'
            )
        add, multiply = (in_words(f, WORD, _LOGIC) for f in (self.add, self.multiply))
        return Semiring(self.name, WORD, add, multiply, str(_ALL if self.zero == "True" else 0), self.swapped)

    def flipped(self) -> Semiring:
        """The algebra of the transposed product."""
        return replace(self, swapped=not self.swapped)


_TABLE = (
    ("min-plus", functions.minimum, operator.add, math.inf),
    ("max-plus", functions.maximum, operator.add, -math.inf),
    ("max-min", functions.maximum, functions.minimum, -math.inf),
    ("min-max", functions.minimum, functions.maximum, math.inf),
    ("max-times", functions.maximum, operator.mul, -math.inf),
    ("or-and", operator.or_, operator.and_, 0),
    ("xor-and", operator.xor, operator.and_, 0),
    ("log-sum-exp", functions.logaddexp, operator.add, -math.inf),
)
#: The named algebras. "plus-times" is not here: kernels have fused steps for it.
ALGEBRAS: dict[str, Algebra] = {name: Algebra(add, multiply, zero, name) for name, add, multiply, zero in _TABLE}


@functools.lru_cache(maxsize=256)
def _named(name: str, dtype: str) -> Semiring:
    return ALGEBRAS[name].traced(dtype)


def semiring(algebra: str | Algebra, dtype: str) -> Semiring:
    """An algebra on a dtype; a user's own is traced each time, since its functions may have changed.

    >>> semiring("or-and", "bool").in_words().cost, semiring("min-plus", "int16").zero
    (2, '32767')
    """
    return _named(algebra, dtype) if isinstance(algebra, str) else algebra.traced(dtype)


def checked(algebra: str | Algebra) -> str | Algebra:
    """A caller's algebra, checked.

    Raises ArgumentTypeError, ArgumentValueError: it is not an algebra or the name of one.
    """
    if isinstance(algebra, Algebra):
        return algebra
    if not isinstance(algebra, str):
        raise ArgumentTypeError(f"`algebra` must be a name or a tw.Algebra (got {type(algebra).__name__})")
    if algebra != "plus-times" and algebra not in ALGEBRAS:
        raise ArgumentValueError.of_name("`algebra`", algebra, ("plus-times", *ALGEBRAS), "or make a tw.Algebra")
    return algebra
