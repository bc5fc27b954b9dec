"""What a product's kernels are made for, on any device."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.problem.algebra import Semiring
from tilewright.problem.expression import Expression


class Kind(NamedTuple):
    """The dtypes of a product and what is done to them.

    Attributes
    ----------
    a, b, out, accumulator : str
        Dtypes of A, B, C and of the running sums.
    algebra : Semiring, optional
        By default plus-times.
    finish : Expression, optional
        Of the sum and of further operands, whose value is C; by default the sum itself.
    reads_out : bool
        One of these operands is C, so that no sums may lie there.
    order : {"canonical", "fast"}
        Of the sums: what is allowed.

    Examples
    --------
    >>> Kind("int8", "int8", "int32", "int32").order
    'canonical'
    """

    a: str
    b: str
    out: str
    accumulator: str
    algebra: Semiring | None = None
    finish: Expression | None = None
    reads_out: bool = False
    order: str = "canonical"
