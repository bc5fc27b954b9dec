"""How many 32-byte sectors of global memory each warp instruction touches.

Source: Nsight Compute documentation, "Memory Tables" and the metrics `l1tex__t_requests` and `l1tex__t_sectors`: a
request is one memory instruction of one warp, a sector an aligned piece of 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.simt.events import EventKind, Handler, Instrument, Site, parameters

#: Source: CUDA C++ Best Practices Guide, 13.2.1 "Coalesced Access to Global Memory": 32-byte transactions.
SECTOR_BYTES = 32

# A lane's bytes are a 64-bit mask over its sector and the next, so an access that spans two sectors needs no case of
# its own: its upper half is set. Leaders are taken lane by lane; all lanes on the leader's sector are served with it.
_HANDLER = """
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.vector.reduce.or.v32i32(<32 x i32>)

define internal void @tw.coalescing.add(ptr %counters, i64 %slot, i32 %amount) alwaysinline {
  %at = getelementptr i64, ptr %counters, i64 %slot
  %old = load i64, ptr %at, align 8
  %wide = zext i32 %amount to i64
  %new = add i64 %old, %wide
  store i64 %new, ptr %at, align 8
  ret void
}

define void @tw.coalescing.access(PARAMETERS) {
entry:
  %idle = icmp eq i32 %mask, 0
  br i1 %idle, label %leave, label %start

start:
  %address = load <32 x i64>, ptr %addresses, align 8
  %sector = lshr <32 x i64> %address, splat (i64 5)
  %after = add <32 x i64> %sector, splat (i64 1)
  %offset = and <32 x i64> %address, splat (i64 31)
  %bytes.wide = zext i32 %bytes to i64
  %power = shl i64 1, %bytes.wide
  %run = add i64 %power, -1
  %run.one = insertelement <32 x i64> poison, i64 %run, i32 0
  %run.all = shufflevector <32 x i64> %run.one, <32 x i64> poison, <32 x i32> zeroinitializer
  %touched = shl <32 x i64> %run.all, %offset
  %low = trunc <32 x i64> %touched to <32 x i32>
  %shifted = lshr <32 x i64> %touched, splat (i64 32)
  %high = trunc <32 x i64> %shifted to <32 x i32>
  %spans = icmp ne <32 x i32> %high, zeroinitializer
  %spans.bits = bitcast <32 x i1> %spans to i32
  %mask.high = and i32 %mask, %spans.bits
  br label %serve

serve:
  %first = phi i32 [ %mask, %start ], [ %first.left, %served ]
  %second = phi i32 [ %mask.high, %start ], [ %second.left, %served ]
  %sectors = phi i32 [ 0, %start ], [ %sectors.next, %served ]
  %used = phi i32 [ 0, %start ], [ %used.next, %served ]
  %any.first = icmp ne i32 %first, 0
  %candidates = select i1 %any.first, i32 %first, i32 %second
  %leader = call i32 @llvm.cttz.i32(i32 %candidates, i1 true)
  %id.first = extractelement <32 x i64> %sector, i32 %leader
  %id.second = extractelement <32 x i64> %after, i32 %leader
  %id = select i1 %any.first, i64 %id.first, i64 %id.second
  %id.one = insertelement <32 x i64> poison, i64 %id, i32 0
  %id.all = shufflevector <32 x i64> %id.one, <32 x i64> poison, <32 x i32> zeroinitializer
  %same = icmp eq <32 x i64> %sector, %id.all
  %same.bits = bitcast <32 x i1> %same to i32
  %taken.bits = and i32 %same.bits, %first
  %taken = bitcast i32 %taken.bits to <32 x i1>
  %low.taken = select <32 x i1> %taken, <32 x i32> %low, <32 x i32> zeroinitializer
  %bytes.low = call i32 @llvm.vector.reduce.or.v32i32(<32 x i32> %low.taken)
  %first.left = xor i32 %first, %taken.bits
  %any.second = icmp ne i32 %second, 0
  br i1 %any.second, label %spanning, label %served

spanning:
  %same.after = icmp eq <32 x i64> %after, %id.all
  %same.after.bits = bitcast <32 x i1> %same.after to i32
  %taken.after.bits = and i32 %same.after.bits, %second
  %taken.after = bitcast i32 %taken.after.bits to <32 x i1>
  %high.taken = select <32 x i1> %taken.after, <32 x i32> %high, <32 x i32> zeroinitializer
  %bytes.high = call i32 @llvm.vector.reduce.or.v32i32(<32 x i32> %high.taken)
  %second.less = xor i32 %second, %taken.after.bits
  br label %served

served:
  %second.left = phi i32 [ 0, %serve ], [ %second.less, %spanning ]
  %bytes.more = phi i32 [ 0, %serve ], [ %bytes.high, %spanning ]
  %bytes.all = or i32 %bytes.low, %bytes.more
  %bytes.count = call i32 @llvm.ctpop.i32(i32 %bytes.all)
  %used.next = add i32 %used, %bytes.count
  %sectors.next = add i32 %sectors, 1
  %left = or i32 %first.left, %second.left
  %more = icmp ne i32 %left, 0
  br i1 %more, label %serve, label %count

count:
  %active = call i32 @llvm.ctpop.i32(i32 %mask)
  call void @tw.coalescing.add(ptr %counters, i64 0, i32 1)
  call void @tw.coalescing.add(ptr %counters, i64 1, i32 %active)
  call void @tw.coalescing.add(ptr %counters, i64 2, i32 %sectors.next)
  call void @tw.coalescing.add(ptr %counters, i64 3, i32 %used.next)
  %used.up = add i32 %used.next, 31
  %ideal = lshr i32 %used.up, 5
  call void @tw.coalescing.add(ptr %counters, i64 4, i32 %ideal)
  br label %leave

leave:
  ret void
}
""".replace("PARAMETERS", parameters(EventKind.ACCESS))


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

    Generic accesses count as global ones. A request without an active lane is none.

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
        self.slots = 5

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to global memory, and generic ones."""
        wanted = site.kind is EventKind.ACCESS and site.space in ("global", "generic")
        return Handler("tw.coalescing.access", _HANDLER) if wanted else None

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> CoalescingResult:
        """Give the counters their names."""
        return CoalescingResult(
            tuple(CoalescingRow(site, *row) for site, row in zip(sites, counters.tolist(), strict=True))
        )
