"""How many 32-byte sectors of global and local memory each warp instruction touches, and which.

Source: Nsight Compute documentation, "Memory Tables" and the metrics `l1tex__t_requests` and `l1tex__t_sectors`: a
request is one memory instruction of one warp, a sector an aligned piece of 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.observe.instruments import requests, sectors
from tilewright.observe.instruments.requests import SECTOR_BYTES, Requests
from tilewright.simulate.events import EventKind, Facts, Handler, Instrument, Site, Storage

#: State spaces that the machine keeps in global memory, and a GPU reads through its constant cache.
#: Source: CUDA C++ Programming Guide, "Constant Memory"; Nsight Compute, memory tables (IDC).
_ELSEWHERE = frozenset(("const", "param"))


@dataclass(frozen=True, slots=True)
class CoalescingRow:
    """One memory instruction."""

    site: Site
    requests: int  #: Warps that executed it with at least one active lane.
    lanes: int  #: Active lanes, summed over the requests: the number of elements that the threads access.
    sectors: int  #: Distinct aligned 32-byte sectors, counted request by request.
    bytes_used: int  #: Distinct bytes the lanes touched, counted request by request; at most 32 a sector.
    ideal_sectors: int

    @property
    def sectors_per_request(self) -> float:
        """Mean sectors a request; 0 when nothing ran."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Bytes used divided by bytes moved, 0 to 1; 0 when nothing ran."""
        return self.bytes_used / (SECTOR_BYTES * self.sectors) if self.sectors else 0.0


@dataclass(frozen=True, slots=True)
class CoalescingResult:
    """The counts of :class:`Coalescing`; `rows` has one entry a memory instruction, in the kernel's order.

    `requests` is None unless they were recorded; their sites are indices of `rows`.
    """

    rows: tuple[CoalescingRow, ...]
    requests: Requests | None = None

    def total(self, access: str, quantity: str, space: str = "global") -> int:
        """Sum of one quantity (`requests`, `lanes`, `sectors`, `bytes_used`) over one kind of access.

        `access` is `load`, `store` or `atomic`; reductions count as atomics. Sectors are the transactions of S7.
        """
        chosen = (row for row in self.rows if (row.site.access, row.site.space) == (access, space))
        return sum(int(getattr(row, quantity)) for row in chosen)


class Coalescing(Instrument):
    """Count requests and 32-byte sectors, instruction by instruction.

    A generic access has a site for each space, and counts in the space of its addresses. Requests without an active
    lane are not counted, nor are accesses to constants and parameters, which have a cache of their own.

    Parameters
    ----------
    spaces : sequence of str
        State spaces: `global`, `local`.
    record : bool
        Whether to record every request's sectors. An instrument that records serves one launch at a time.
    most_bytes : int
        Most memory for the recorded requests.

    Examples
    --------
    >>> from tilewright.simulate.events import EventKind, Site
    >>> load = Site(EventKind.ACCESS, 7, "k.py:3", "ld.global.f32", 1, "global", "load", 4)
    >>> result = Coalescing().collect([load], np.array([[1, 32, 4, 128, 4]], np.uint64))
    >>> result.total("load", "sectors"), result.rows[0].efficiency
    (4, 1.0)
    """

    __slots__ = ("_memory",)  # not in `vars`, which is part of the key of cached machine code

    def __init__(
        self, spaces: Sequence[str] = ("global",), *, record: bool = False, most_bytes: int = requests.MOST_BYTES
    ) -> None:
        self.name = "coalescing"
        self.spaces = tuple(spaces)
        self.record = record
        self.most_bytes = most_bytes
        self.slots = sectors.SLOTS + record
        self._memory: npt.NDArray[np.uint64] | None = None

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to the spaces."""
        if site.kind is not EventKind.ACCESS or site.space not in self.spaces:
            return None
        if not _ELSEWHERE.isdisjoint(part.partition("::")[0] for part in site.opcode.split(".")):
            return None
        return sectors.handler(sectors.SPACES[site.space], site.bytes_per_lane, offsets, record=self.record)

    def strided(self, site: Site, offsets: tuple[int, ...], rows: tuple[int, ...]) -> Handler | None:
        """Accesses to global memory that are recorded."""
        if not self.record or site.space != "global" or self.handler(site) is None:
            return None
        return sectors.in_rows(site.bytes_per_lane, offsets, rows)

    def begin(self, facts: Facts) -> Storage:
        """Memory for the requests."""
        if self.record:
            self._memory = requests.area(facts, self.most_bytes)
        return Storage(launch=self._memory)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> CoalescingResult:
        """Turn the counters into rows."""
        counted = counters[:, : sectors.SLOTS].tolist()
        rows = tuple(CoalescingRow(site, *row) for site, row in zip(sites, counted, strict=True))
        memory, self._memory = self._memory, None
        return CoalescingResult(rows, None if memory is None else requests.requests(memory, len(rows)))
