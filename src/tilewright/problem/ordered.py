"""Sums of products in ascending k, compiled: the loops behind the fast reference (`ordered.c`).

Neighbouring columns of C go side by side in a vector; each element still sees its own k from 0 upwards, so the order is
the canonical one whatever the host's vectors are. A host without fused multiply-add gets `fma` from its mathematics
library, with the same bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tilewright.native.compiler import Compiler
from tilewright.native.functions import functions
from tilewright.native.once import once

#: Columns of C summed side by side. B and C are padded to a multiple of it, and B is laid out in panels so wide: rows
#: a power of two apart would share few cache sets.
COLUMNS = 32
#: (dtype of operands and products, dtype of sums): what the loops are written for.
DTYPES = (
    ("float32", "float32"),
    ("float32", "float64"),
    ("float64", "float64"),
    ("int32", "int32"),
    ("int64", "int64"),
)


class Kernel(Protocol):
    """`kernel(a, b, c, m, n, k)` on contiguous arrays given by address.

    a is (m, k), b is (n / COLUMNS, k, COLUMNS): panels of neighbouring columns; c is (m, n).
    """

    def __call__(self, a: int, b: int, c: int, m: int, n: int, k: int, /) -> None:
        """Fill c."""


@once
def _baseline() -> Compiler:
    """A compiler that uses no instruction beyond the baseline."""
    return Compiler("")


def kernel(product: str, total: str, *, fused: bool, native: bool = True) -> Kernel:
    """The compiled function of one pair of dtypes.

    Products are rounded to the operands' dtype `product` unless `fused`: one rounding a step, of floats of one dtype.
    `native` allows instructions beyond the baseline.
    """
    loops = functions("tw_ordered_", Path(__file__).with_name("ordered.c"), target=None if native else _baseline())
    found: Kernel = getattr(loops, f"{'fused' if fused else 'separate'}_{product}_{total}")
    return found
