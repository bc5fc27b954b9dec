"""How many 32-byte sectors of local memory each warp instruction touches.

Local memory is laid out so that the same 32-bit word of neighbouring threads lies side by side: word w of lane l is at
byte 128 w + 4 l of the warp's part. Lanes at the same address of their own are coalesced; others are not.

Source: CUDA C++ Programming Guide, "Local Memory"; Nsight Compute, `l1tex__t_sectors_pipe_lsu_mem_local_op_ld`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.instruments import sectors
from tilewright.instruments.coalescing import CoalescingResult, CoalescingRow
from tilewright.instruments.counting import LANES, by_pattern, vector
from tilewright.simt.events import EventKind, Handler, Instrument, Site, parameters

#: Source: CUDA C++ Programming Guide, "Local Memory": consecutive 32-bit words belong to consecutive threads.
WORD_BYTES = 4
ROW_BYTES = WORD_BYTES * LANES


def place(address: int, lane: int) -> int:
    """Where a byte of a lane's local memory lies in that of its warp.

    Examples
    --------
    >>> place(0, 1), place(4, 0), place(6, 31)
    (4, 128, 254)
    """
    return address // WORD_BYTES * ROW_BYTES + WORD_BYTES * lane + address % WORD_BYTES


def _by_address(size: int) -> Handler:
    """The handler of accesses of one width, lane by lane.

    An access of several words is as many pieces; each lies in the sector of its word and the lane's group of eight.
    """
    words = max(1, size // WORD_BYTES)
    symbol, core = f"tw.local.access.{size}", f"tw.local.request.{words}"
    lanes = "<32 x i64>"
    stores = "".join(f"""
  %word.{w} = add {lanes} %word, splat (i64 {w})
  %row.{w} = shl {lanes} %word.{w}, splat (i64 2)
  %id.{w} = add {lanes} %row.{w}, {vector([lane // 8 for lane in range(LANES)])}
  %id.p.{w} = getelementptr {lanes}, ptr %ids, i64 {w}
  store {lanes} %id.{w}, ptr %id.p.{w}, align 64""" for w in range(words))  # fmt: skip
    shifts = ", ".join(f"i32 {WORD_BYTES * (lane % 8)}" for lane in range(LANES))
    text = f"""{sectors.core(core, words)}
define weak_odr void @{symbol}({parameters(EventKind.ACCESS)}) {{
entry:
  %ids = alloca [{words} x {lanes}], align 64
  %bytes.each = alloca <32 x i32>, align 64
  %idle = icmp eq i32 %mask, 0
  br i1 %idle, label %leave, label %start
start:
  %address = load {lanes}, ptr %addresses, align 8
  %word = lshr {lanes} %address, splat (i64 2){stores}
  %low = trunc {lanes} %address to <32 x i32>
  %within = and <32 x i32> %low, splat (i32 {WORD_BYTES - 1})
  %shift = add <32 x i32> %within, <{shifts}>
  %touched = shl <32 x i32> splat (i32 {(1 << min(size, WORD_BYTES)) - 1}), %shift
  store <32 x i32> %touched, ptr %bytes.each, align 64
  call void @{core}(ptr %counters, ptr %ids, ptr %bytes.each, i32 %mask)
  br label %leave
leave:
  ret void
}}
"""
    return Handler(symbol, text)


class Local(Instrument):
    """Count requests and 32-byte sectors of local memory, instruction by instruction, as `Coalescing` does.

    Examples
    --------
    >>> from tilewright.simt.events import EventKind, Site
    >>> load = Site(EventKind.ACCESS, 7, "k.py:3", "ld.local.f32", 1, "local", "load", 4)
    >>> Local().collect([load], np.array([[1, 32, 4, 128, 4]], np.uint64)).rows[0].sectors_per_request
    4.0
    """

    def __init__(self) -> None:
        self.name = "local"
        self.slots = sectors.SLOTS

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to local memory."""
        if site.kind is not EventKind.ACCESS or site.space != "local":
            return None
        size = site.bytes_per_lane
        slow = _by_address(size)
        if offsets is None:
            return slow
        # A move of all lanes by a word moves all sectors alike.
        moved = tuple(offset - min(offsets) + min(offsets) % WORD_BYTES for offset in offsets)

        def counts(base: int) -> list[int]:
            return sectors.counted(
                place(base + at + byte, lane) for lane, at in enumerate(moved) for byte in range(size)
            )

        return by_pattern(slow, moved, size, WORD_BYTES, counts)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> CoalescingResult:
        """Give the counters their names."""
        return CoalescingResult(
            tuple(CoalescingRow(site, *row) for site, row in zip(sites, counters.tolist(), strict=True))
        )
