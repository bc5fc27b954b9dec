"""What a launch asks of tensor memory: its products, and the columns that one of its blocks has at once.

A register holds the shape of a product, and often the number of columns, so neither is known from the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.native.bitcode import bitcode
from tilewright.simt.events import EventKind, Facts, Handler, Instrument, Site, Storage

_PARTS = (bitcode(Path(__file__).with_name("tensor_work.c")),)
_PRODUCT = Handler("tw_tensor_work_product", needs=_PARTS)
_ALLOCATED = Handler("tw_tensor_work_allocated", needs=_PARTS)


@dataclass(frozen=True, slots=True)
class TensorWorkRow:
    """The products that one instruction issued; a pair of blocks issues one together."""

    site: Site
    times: int
    #: `rows`, `columns`, `area`: of D, and rows times columns, each summed over the products.
    rows: int
    columns: int
    area: int


@dataclass(frozen=True, slots=True)
class TensorWorkResult:
    """What :class:`TensorWork` counted."""

    rows: tuple[TensorWorkRow, ...]
    columns: int  #: The most that one block had at once.


class TensorWork(Instrument):
    """Count products in tensor memory, and the columns that a block takes.

    Examples
    --------
    >>> TensorWork().name
    'tensor work'
    """

    __slots__ = ("_most",)  # not in `vars`, which is part of the key of cached machine code

    def __init__(self) -> None:
        self.name = "tensor work"
        self.slots = 4
        self._most = np.zeros(1, np.uint64)

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Products and allocations."""
        if site.kind is EventKind.TENSOR_PRODUCT:
            return _PRODUCT
        return _ALLOCATED if site.kind is EventKind.TENSOR_MEMORY and ".alloc." in site.opcode else None

    def begin(self, facts: Facts) -> Storage:
        """Memory for the most columns."""
        self._most = np.zeros(1, np.uint64)
        return Storage(launch=self._most)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> TensorWorkResult:
        """Turn the counters into rows; sites that issued nothing have none."""
        rows = (TensorWorkRow(site, *row) for site, row in zip(sites, counters.tolist(), strict=True))
        return TensorWorkResult(tuple(row for row in rows if row.times), int(self._most[0]))
