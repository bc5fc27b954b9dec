"""How many wavefronts each shared-memory instruction takes, and how many it would take without bank conflicts.

The model: 32 banks of 4 bytes. Lanes on the same word are served together. Accesses of up to 4 bytes go by whole
warps, of 8 bytes by half warps, of 16 bytes by quarter warps; a group with an active lane takes as many wavefronts
as the busiest bank has distinct words. Without conflicts every such group takes one, which is the ideal: 1, 2 and 4
wavefronts for a full warp of 4-, 8- and 16-byte lanes.

Source: CUDA C++ Programming Guide, compute capability 5.x and later, "Shared Memory"; Nsight Compute, source metrics
`memory_l1_wavefronts_shared`, `memory_l1_wavefronts_shared_ideal` and `derived__memory_l1_wavefronts_shared_excessive`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.instruments.counting import LANES, added, by_pattern
from tilewright.simt.events import EventKind, Handler, Instrument, Site, parameters

#: Source: CUDA C++ Programming Guide, compute capability 5.x and later, "Shared Memory".
BANKS = 32
#: Source: as above; successive 32-bit words lie in successive banks.
BANK_BYTES = 4

# Accesses are naturally aligned (the machine refuses others), so the words of an 8- or 16-byte lane lie in as many
# neighbouring banks and move as one unit. A group of L lanes then has L units-wide banks, and all groups fit one table
# of 32 slots, slot = group's first lane + unit mod L. In each round every pending lane writes its unit to its slot and
# reads it back: whoever reads its own unit is served. A group's rounds are its wavefronts.
_HANDLER = """
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.umax.i32(i32, i32)
declare void @llvm.masked.scatter.v32i32.v32p0(<32 x i32>, <32 x ptr>, <32 x i1>)
declare <32 x i32> @llvm.masked.gather.v32i32.v32p0(<32 x ptr>, <32 x i1>, <32 x i32>)

; How many groups (of 8, 16 or 32 lanes for 16, 8 or 4 bytes) have a lane in the mask.
define weak_odr i32 @tw.banks.groups(i32 %mask, i32 %bytes) alwaysinline {
  %m1 = lshr i32 %mask, 1
  %o1 = or i32 %mask, %m1
  %m2 = lshr i32 %o1, 2
  %o2 = or i32 %o1, %m2
  %m4 = lshr i32 %o2, 4
  %quarters = or i32 %o2, %m4
  %m8 = lshr i32 %quarters, 8
  %halves = or i32 %quarters, %m8
  %quarters.flags = and i32 %quarters, 16843009
  %halves.flags = and i32 %halves, 65537
  %some = icmp ne i32 %mask, 0
  %whole.flag = zext i1 %some to i32
  %is8 = icmp eq i32 %bytes, 8
  %is16 = icmp eq i32 %bytes, 16
  %flags8 = select i1 %is8, i32 %halves.flags, i32 %whole.flag
  %flags = select i1 %is16, i32 %quarters.flags, i32 %flags8
  %count = call i32 @llvm.ctpop.i32(i32 %flags)
  ret i32 %count
}

define weak_odr void @tw.banks.access(PARAMETERS) {
entry:
  %table = alloca [32 x i32], align 64
  %idle = icmp eq i32 %mask, 0
  br i1 %idle, label %leave, label %start

start:
  %unit.bytes = call i32 @llvm.umax.i32(i32 %bytes, i32 4)
  %shift = call i32 @llvm.cttz.i32(i32 %unit.bytes, i1 true)
  %shift.wide = zext i32 %shift to i64
  %shift.one = insertelement <32 x i64> poison, i64 %shift.wide, i32 0
  %shift.all = shufflevector <32 x i64> %shift.one, <32 x i64> poison, <32 x i32> zeroinitializer
  %address = load <32 x i64>, ptr %addresses, align 8
  %unit.wide = lshr <32 x i64> %address, %shift.all
  %unit = trunc <32 x i64> %unit.wide to <32 x i32>
  %group = lshr i32 128, %shift
  %within = add i32 %group, -1
  %within.one = insertelement <32 x i32> poison, i32 %within, i32 0
  %within.all = shufflevector <32 x i32> %within.one, <32 x i32> poison, <32 x i32> zeroinitializer
  %outside = xor <32 x i32> %within.all, splat (i32 -1)
  %base = and <32 x i32> LANES, %outside
  %bank = and <32 x i32> %unit, %within.all
  %index = or <32 x i32> %base, %bank
  %spot = getelementptr i32, ptr %table, <32 x i32> %index
  %ideal = call i32 @tw.banks.groups(i32 %mask, i32 %bytes)
  br label %round

round:
  %pending = phi i32 [ %mask, %start ], [ %pending.left, %round ]
  %wavefronts = phi i32 [ 0, %start ], [ %wavefronts.next, %round ]
  %groups = call i32 @tw.banks.groups(i32 %pending, i32 %bytes)
  %wavefronts.next = add i32 %wavefronts, %groups
  %lanes = bitcast i32 %pending to <32 x i1>
  call void @llvm.masked.scatter.v32i32.v32p0(<32 x i32> %unit, <32 x ptr> align 4 %spot, <32 x i1> %lanes)
  %read = call <32 x i32> @llvm.masked.gather.v32i32.v32p0(<32 x ptr> align 4 %spot, <32 x i1> %lanes, <32 x i32> %unit)
  %served = icmp eq <32 x i32> %read, %unit
  %served.bits = bitcast <32 x i1> %served to i32
  %others = xor i32 %served.bits, -1
  %pending.left = and i32 %pending, %others
  %more = icmp ne i32 %pending.left, 0
  br i1 %more, label %round, label %count

count:
  %active = call i32 @llvm.ctpop.i32(i32 %mask)
  %lanes.active = zext i32 %active to i64
  %wavefronts.wide = zext i32 %wavefronts.next to i64
  %ideal.wide = zext i32 %ideal to i64
SUMS
  br label %leave

leave:
  ret void
}
"""
for _name, _text in (
    ("LANES", "<" + ", ".join(f"i32 {lane}" for lane in range(LANES)) + ">"),
    ("PARAMETERS", parameters(EventKind.ACCESS)),
    ("SUMS", added([1, "%lanes.active", "%wavefronts.wide", "%ideal.wide"])),
):
    _HANDLER = _HANDLER.replace(_name, _text)
_BY_ADDRESS = Handler("tw.banks.access", _HANDLER)


def counts(addresses: Sequence[int], size: int) -> list[int]:
    """What a request of all lanes adds to the counters: requests, lanes, wavefronts and ideal wavefronts.

    Examples
    --------
    >>> counts([8 * lane for lane in range(32)], 4)
    [1, 32, 2, 1]
    """
    unit = max(size, BANK_BYTES)
    group = LANES * BANK_BYTES // unit
    wavefronts = 0
    for first in range(0, LANES, group):
        units = {address // unit for address in addresses[first : first + group]}
        wavefronts += max(Counter(number % group for number in units).values())
    return [1, LANES, wavefronts, LANES // group]


@dataclass(frozen=True, slots=True)
class BanksRow:
    """One shared-memory instruction.

    Attributes
    ----------
    site : Site
    requests : int
        Warps that executed it with at least one active lane.
    lanes : int
        Active lanes, summed over the requests.
    wavefronts : int
        What the model above counts.
    ideal_wavefronts : int
        The same without conflicts: one for each group of lanes with an active lane.
    """

    site: Site
    requests: int
    lanes: int
    wavefronts: int
    ideal_wavefronts: int

    @property
    def excess_wavefronts(self) -> int:
        """Wavefronts that bank conflicts add."""
        return self.wavefronts - self.ideal_wavefronts


@dataclass(frozen=True, slots=True)
class BanksResult:
    """What :class:`Banks` counted; `rows` has one entry a shared-memory instruction, in the kernel's order."""

    rows: tuple[BanksRow, ...]

    def total(self, access: str, quantity: str) -> int:
        """Sum of one quantity (`requests`, `wavefronts`, `ideal_wavefronts` ...) over one kind of access."""
        return sum(int(getattr(row, quantity)) for row in self.rows if row.site.access == access)

    @property
    def shared_load_requests(self) -> int:
        """Load instructions executed by warps."""
        return self.total("load", "requests")

    @property
    def shared_load_wavefronts(self) -> int:
        """Wavefronts of all loads."""
        return self.total("load", "wavefronts")

    @property
    def shared_store_requests(self) -> int:
        """Store instructions executed by warps."""
        return self.total("store", "requests")

    @property
    def shared_store_wavefronts(self) -> int:
        """Wavefronts of all stores."""
        return self.total("store", "wavefronts")

    @property
    def shared_atomic_requests(self) -> int:
        """Atomic and reduction instructions executed by warps."""
        return self.total("atomic", "requests")

    @property
    def shared_atomic_wavefronts(self) -> int:
        """Wavefronts of all atomics, counted as if they were stores; lanes on one word are not serialised."""
        return self.total("atomic", "wavefronts")

    @property
    def shared_load_conflicts(self) -> int:
        """Excess wavefronts of loads."""
        return self.total("load", "excess_wavefronts")

    @property
    def shared_store_conflicts(self) -> int:
        """Excess wavefronts of stores."""
        return self.total("store", "excess_wavefronts")

    @property
    def shared_bank_conflicts(self) -> int:
        """Excess wavefronts of loads and stores together."""
        return self.shared_load_conflicts + self.shared_store_conflicts


class Banks(Instrument):
    """Count shared-memory wavefronts and bank conflicts, instruction by instruction.

    A request without an active lane is none. Generic accesses are not counted here.

    Examples
    --------
    >>> from tilewright.simt.events import EventKind, Site
    >>> load = Site(EventKind.ACCESS, 7, "k.py:3", "ld.shared.f32", 1, "shared", "load", 4)
    >>> result = Banks().collect([load], np.array([[1, 32, 2, 1]], np.uint64))
    >>> result.shared_load_wavefronts, result.shared_bank_conflicts
    (2, 1)
    """

    def __init__(self) -> None:
        self.name = "banks"
        self.slots = 4

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to shared memory."""
        if site.kind is not EventKind.ACCESS or site.space != "shared":
            return None
        if offsets is None:
            return _BY_ADDRESS
        # Conflicts stay the same when all addresses move by a lane's width, or by a word: so do not ask where they are.
        size = site.bytes_per_lane
        moved = tuple(offset - offsets[0] + offsets[0] % BANK_BYTES for offset in offsets)
        modulus = BANK_BYTES if size < BANK_BYTES else 1
        return by_pattern(_BY_ADDRESS, moved, size, modulus, lambda base: counts([base + at for at in moved], size))

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> BanksResult:
        """Give the counters their names."""
        return BanksResult(tuple(BanksRow(site, *row) for site, row in zip(sites, counters.tolist(), strict=True)))
