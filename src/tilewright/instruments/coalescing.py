"""How many 32-byte sectors of global memory each warp instruction touches.

Source: Nsight Compute documentation, "Memory Tables" and the metrics `l1tex__t_requests` and `l1tex__t_sectors`: a
request is one memory instruction of one warp, a sector an aligned piece of 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.instruments import sectors
from tilewright.instruments.counting import by_pattern
from tilewright.instruments.sectors import SECTOR_BYTES
from tilewright.simt.events import EventKind, Handler, Instrument, Site, parameters

_CORE = "tw.coalescing.request"
# Accesses are naturally aligned (the machine refuses others), so none spans two sectors.
_HANDLER = f"""{sectors.core(_CORE, 1)}
define weak_odr void @tw.coalescing.access({parameters(EventKind.ACCESS)}) {{
entry:
  %bytes.each = alloca <32 x i32>, align 64
  %ids = alloca <32 x i64>, align 64
  %idle = icmp eq i32 %mask, 0
  br i1 %idle, label %leave, label %start
start:
  %address = load <32 x i64>, ptr %addresses, align 8
  %sector = lshr <32 x i64> %address, splat (i64 5)
  store <32 x i64> %sector, ptr %ids, align 64
  %low = trunc <32 x i64> %address to <32 x i32>
  %offset = and <32 x i32> %low, splat (i32 31)
  %bytes.wide = zext i32 %bytes to i64
  %power = shl i64 1, %bytes.wide
  %run.wide = add i64 %power, -1
  %run = trunc i64 %run.wide to i32
  %run.one = insertelement <32 x i32> poison, i32 %run, i32 0
  %run.all = shufflevector <32 x i32> %run.one, <32 x i32> poison, <32 x i32> zeroinitializer
  %touched = shl <32 x i32> %run.all, %offset
  store <32 x i32> %touched, ptr %bytes.each, align 64
  call void @{_CORE}(ptr %counters, ptr %ids, ptr %bytes.each, i32 %mask)
  br label %leave
leave:
  ret void
}}
"""
_BY_ADDRESS = Handler("tw.coalescing.access", _HANDLER)


@dataclass(frozen=True, slots=True)
class CoalescingRow:
    """One memory instruction.

    Attributes
    ----------
    site : Site
    requests : int
        Warps that executed it with at least one active lane.
    lanes : int
        Active lanes, summed over the requests: what the threads asked for, element by element.
    sectors : int
        Distinct aligned 32-byte sectors, counted request by request.
    bytes_used : int
        Distinct bytes the lanes touched, counted request by request; at most 32 a sector.
    """

    site: Site
    requests: int
    lanes: int
    sectors: int
    bytes_used: int
    ideal_sectors: int

    @property
    def sectors_per_request(self) -> float:
        """Mean sectors a request; 0 when nothing ran."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Bytes used of the bytes moved, 0 to 1; 0 when nothing ran."""
        return self.bytes_used / (SECTOR_BYTES * self.sectors) if self.sectors else 0.0


@dataclass(frozen=True, slots=True)
class CoalescingResult:
    """What :class:`Coalescing` counted; `rows` has one entry a memory instruction, in the kernel's order."""

    rows: tuple[CoalescingRow, ...]

    def total(self, access: str, quantity: str) -> int:
        """Sum of one quantity (`requests`, `lanes`, `sectors`, `bytes_used`) over one kind of access."""
        return sum(int(getattr(row, quantity)) for row in self.rows if row.site.access == access)

    @property
    def global_load_requests(self) -> int:
        """Load instructions executed by warps."""
        return self.total("load", "requests")

    @property
    def global_load_sectors(self) -> int:
        """Sectors of all loads: the transactions of S7."""
        return self.total("load", "sectors")

    @property
    def global_store_requests(self) -> int:
        """Store instructions executed by warps."""
        return self.total("store", "requests")

    @property
    def global_store_sectors(self) -> int:
        """Sectors of all stores."""
        return self.total("store", "sectors")

    @property
    def global_atomic_requests(self) -> int:
        """Atomic and reduction instructions executed by warps."""
        return self.total("atomic", "requests")

    @property
    def global_atomic_sectors(self) -> int:
        """Sectors of all atomics and reductions."""
        return self.total("atomic", "sectors")


class Coalescing(Instrument):
    """Count requests and 32-byte sectors of global memory, instruction by instruction.

    A generic access has a site for each space, and counts where its addresses lie. A request without an active lane
    is none.

    Examples
    --------
    >>> from tilewright.simt.events import EventKind, Site
    >>> load = Site(EventKind.ACCESS, 7, "k.py:3", "ld.global.f32", 1, "global", "load", 4)
    >>> result = Coalescing().collect([load], np.array([[1, 32, 4, 128, 4]], np.uint64))
    >>> result.global_load_sectors, result.rows[0].efficiency
    (4, 1.0)
    """

    def __init__(self) -> None:
        self.name = "coalescing"
        self.slots = sectors.SLOTS

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to global memory."""
        if site.kind is not EventKind.ACCESS or site.space != "global":
            return None
        if offsets is None:
            return _BY_ADDRESS
        size = site.bytes_per_lane

        def counts(base: int) -> list[int]:
            return sectors.counted(base + offset + byte for offset in offsets for byte in range(size))

        return by_pattern(_BY_ADDRESS, offsets, size, SECTOR_BYTES, counts)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> CoalescingResult:
        """Give the counters their names."""
        return CoalescingResult(
            tuple(CoalescingRow(site, *row) for site, row in zip(sites, counters.tolist(), strict=True))
        )
