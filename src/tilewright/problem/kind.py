"""What a product's kernels are made for, on any device."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.problem.algebra import Semiring
from tilewright.problem.expression import Expression


class Kind(NamedTuple):
    """The dtypes of a product and what is done to them.

    >>> Kind("int8", "int8", "int32", "int32").order
    'canonical'
    """

    #: `a`, `b`, `out`, `accumulator`: dtypes of A, B, C and of the running sums.
    a: str
    b: str
    out: str
    accumulator: str
    algebra: Semiring | None = None  #: By default plus-times.
    #: Of the sum and of further operands, whose value is C; by default the sum itself.
    finish: Expression | None = None
    reads_out: bool = False  #: One of these operands is C, so that no sums may be there.
    continues: bool = False  #: Sums go on from those that are in `out`, which has the accumulator's dtype.
    order: str = "canonical"  #: Of the sums: "canonical", or what "fast" allows.
