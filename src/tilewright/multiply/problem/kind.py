"""The kind of a product: the facts that kernels depend on, on any device."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.multiply.problem.algebra import Semiring
from tilewright.multiply.problem.expression import Expression


class Kind(NamedTuple):
    """Dtypes, algebra, finish and order of a product.

    >>> Kind("int8", "int8", "int32", "int32").order
    'canonical'
    """

    #: `a`, `b`, `out`, `accumulator`: dtypes of A, B, C and of the running sums.
    a: str
    b: str
    out: str
    accumulator: str
    algebra: Semiring | None = None  #: By default plus-times.
    #: An expression of the sum and further operands that gives C; by default the sum itself.
    finish: Expression | None = None
    reads_out: bool = False  #: Whether one of these operands is the old C, so that sums may not overwrite it.
    continues: bool = False  #: Whether sums continue those in `out`, which has the accumulator's dtype.
    order: str = "canonical"  #: Order of the sums: "canonical", or another allowed order.
