"""Error bounds of products in other orders than the canonical one: the results that a kernel may give.

Tensor cores add groups of products to a running sum: all terms are aligned to the largest, truncated below some bit,
added exactly and rounded towards zero to float32. The truncation error of a group of g products is less than g + 1
units of that bit, and a unit is at most one unit in the last place of the sum of magnitudes.

A subnormal is aligned like its format's smallest normal number, and counts as that in |A| and |B|: with 8-bit floats
and 13 fraction bits, the truncation can exceed a subnormal product.

Source: arXiv 2511.10909 and arXiv 2512.07004 (groups of 4 to 16 products, 23 to 25 fraction bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.problem import narrow
from tilewright.multiply.problem.dtypes import Dtype, dtype

Array = npt.NDArray[Any]

#: Units of a bound: float32's relative spacing, and its smallest number.
UNIT, SMALLEST = 2.0**-23, 2.0**-149


@dataclass(frozen=True, slots=True)
class Bound:
    """A float32 sum is within `(a_step k + more) 2^-23 |A| |B|` of the exact product; then it is rounded once."""

    a_step: float
    more: float

    @classmethod
    def of_cut_tiles(cls, tile: int, group: int, fraction: int) -> Bound:
        """The bound of tiles of `tile` steps of k, each summed from 0 with `fraction` bits and added up in float32.

        Each group of products truncates its terms, including the sum so far, and the result: `group + 2` units of the
        last of `fraction` bits, relative to the tile's magnitudes.

        >>> Bound.of_cut_tiles(tile=64, group=16, fraction=13)
        Bound(a_step=0.015625, more=73728.0)
        """
        return cls(1 / tile, tile / group * (group + 2) * 2.0**-fraction / UNIT)

    def within(self, other: Bound | None) -> bool:
        """Whether another bound allows every result that this one allows; False if there is no other.

        >>> [Bound(1 / 32, 64).within(Bound(*other)) for other in ((1, 64), (1, 16), (1 / 64, 64))]
        [True, False, False]
        """
        return other is not None and self.a_step <= other.a_step and self.more <= other.more

    def interval(self, a: Array, b: Array, out: Dtype | None = None) -> tuple[Array, Array]:
        """The least and the largest allowed value of each element, in C's dtype; by default that of products.

        >>> a = np.full((1, 1024), 0.1, np.float32)
        >>> low, high = Bound(1, 16).interval(a, a.T)
        >>> bool(low[0, 0] < 10.24 < high[0, 0]), round(float(high[0, 0] - low[0, 0]), 4)
        (True, 0.0025)
        """
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        least = 2.0 ** dtype(a.dtype).emin
        with np.errstate(invalid="ignore", over="ignore"):
            exact = wide_a @ wide_b
            sizes = [np.where(x == 0, 0, np.maximum(np.abs(x), least)) for x in (wide_a, wide_b)]
            magnitude = sizes[0] @ sizes[1]
            steps = self.a_step * a.shape[1] + self.more
            reach = steps * (UNIT * np.where(np.isfinite(magnitude), magnitude, 0) + SMALLEST)
            out = out or dtype(dtype(a.dtype).product)
            return narrow.convert(exact - reach, out), narrow.convert(exact + reach, out)

    def outside(self, c: Array, a: Array, b: Array) -> int:
        """The number of elements outside of the bound; an element that must be NaN allows only NaN."""
        low, high = self.interval(a, b, dtype(c.dtype))
        if c.shape != low.shape:
            return low.size
        found, low, high = (x.astype(np.float64) for x in (c, low, high))
        right = ((low <= found) & (found <= high)) | (np.isnan(found) & np.isnan(low))
        return int(np.count_nonzero(~right))

    def __str__(self) -> str:
        """The bound as text.

        >>> str(Bound(1 / 32, 64))
        '(k/32 + 64) 2^-23 |A| |B|'
        """
        steps = "k" if self.a_step == 1 else f"k/{1 / self.a_step:g}"
        return f"({steps} + {self.more:g}) 2^-23 |A| |B|"
