"""Products in tensor memory: how many an instruction issues, and how large they are.

A register holds a product's shape, so that no text states it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.simulate.events import EventKind, Handler, Instrument, Site

_ROWS = 1 << 10  # `TW_ROWS_SHIFT`
_PRODUCT = Handler("tw_tensor_work_product", needs=(bitcode(Path(__file__).with_name("tensor_work.c")),))


@dataclass(frozen=True, slots=True)
class TensorWorkRow:
    """The products that one instruction issued; a pair of blocks issues one together."""

    site: Site
    times: int
    area: int  #: Rows of D times its columns, summed over the products.
    shape: tuple[int, int] | None  #: Rows and columns of D; None if the products differ in them.


@dataclass(frozen=True, slots=True)
class TensorWorkResult:
    """The counts of :class:`TensorWork`; `rows` has one entry an instruction that issued products, in order."""

    rows: tuple[TensorWorkRow, ...]


class TensorWork(Instrument):
    """Count products in tensor memory.

    >>> from tilewright.simulate.events import EventKind, Site
    >>> site = Site(EventKind.TENSOR_PRODUCT, 7, "k.cu:3", "tcgen05.mma.cta_group::1.kind::f16")
    >>> TensorWork().collect([site], np.array([[2, 32768, 262400, 34426880000]], np.uint64)).rows[0].shape
    (128, 128)
    """

    name = "tensor work"
    slots = 4

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Every product."""
        return _PRODUCT if site.kind is EventKind.TENSOR_PRODUCT else None

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> TensorWorkResult:
        """Turn the counters into rows."""
        return TensorWorkResult(
            tuple(_row(site, *row) for site, row in zip(sites, counters.tolist(), strict=True) if row[0])
        )


def _row(site: Site, times: int, area: int, shapes: int, squares: int) -> TensorWorkRow:
    is_one = times * squares == shapes**2  # only if all shapes are equal (Cauchy-Schwarz)
    return TensorWorkRow(site, times, area, divmod(shapes // times, _ROWS) if is_one else None)
