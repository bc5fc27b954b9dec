"""The numbers and layouts of shadow memory from `cells.h`, which describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tilewright.ground.native.header import header

_CELLS: Final = header(Path(__file__).with_name("cells.h"))


def _numbers(*names: str) -> tuple[int, ...]:
    return tuple(_CELLS.numbers[f"TW_{name}"] for name in names)


THREAD_MAX, SEVERAL_WARPS, WHO_MASK = _numbers("THREAD_MAX", "SEVERAL_WARPS", "WHO_MASK")
STRONG_BIT, SITE_SHIFT, SITE_MAX, CLOCK_SHIFT = _numbers("STRONG_BIT", "SITE_SHIFT", "SITE_MAX", "CLOCK_SHIFT")
GAP: Final = (1 << 64) - 1
WARPS_MAX, RUN = _numbers("WARPS_MAX", "CELL_RUN")
BLOCK_SHIFT, SEVERAL_RANKS = _numbers("BLOCK_SHIFT", "SEVERAL_RANKS")

#: Byte offsets in a block's memory and in a launch's, and the sizes of both.
BLOCK: Final = _CELLS.structs["tw_shadow_block"].offsets
BLOCK_BYTES: Final = _CELLS.structs["tw_shadow_block"].bytes
LAUNCH: Final = _CELLS.structs["tw_shadow_launch"].offsets
LAUNCH_BYTES: Final = _CELLS.structs["tw_shadow_launch"].bytes
#: Bytes of the clocks of one warp's lanes.
LANES_BYTES: Final = WARPS_MAX * _CELLS.structs["tw_clocks"].bytes

#: Bytes of one warp's clocks of other warps; bytes that a block keeps for its cluster before the rows of such clocks;
#: and the number of rows for each block of the cluster, without mbarriers and with them.
CLOCKS_BYTES: Final = _CELLS.structs["tw_clocks"].bytes
FAR_BYTES: Final = _CELLS.structs["tw_far"].bytes
NOW_ROW, ROWS_END = _numbers("NOW_ROW", "ROWS_END")

#: Bytes of what counts one warp's copies in flight.
FLIGHTS_BYTES: Final = _CELLS.structs["tw_flights"].bytes
#: Bytes of what counts the operands of one warp's products in flight.
READINGS_BYTES: Final = _CELLS.structs["tw_readings"].bytes

#: Bytes of the reads of one cell of global memory by several blocks.
READERS_BYTES: Final = 8 * _CELLS.numbers["TW_READERS_MAX"]
#: Bytes of the lists of a block's accesses by several warps.
SEVERAL_BYTES: Final = _CELLS.structs["tw_several"].bytes

#: Bytes of the record of a layout, and bytes of shared memory that one such record covers.
LAYOUT_BYTES: Final = 2
LAYOUT_OF_BYTES: Final = _CELLS.numbers["TW_LAYOUT_OF_BYTES"]

#: State of a byte of global memory.
READABLE, WRITABLE, FREE, FREED, ROW_GAP = _numbers("READABLE", "WRITABLE", "FREE", "FREED", "ROW_GAP")

#: Kinds of findings.
SHARED_GAP, SHARED_UNWRITTEN, SHARED_RACE, SHARED_LANES = _numbers(
    "SHARED_GAP", "SHARED_UNWRITTEN", "SHARED_RACE", "SHARED_LANES"
)
GLOBAL_OUTSIDE, GLOBAL_FREED, GLOBAL_CONSTANT, GLOBAL_ROW_GAP, GLOBAL_UNWRITTEN = _numbers(
    "GLOBAL_OUTSIDE", "GLOBAL_FREED", "GLOBAL_CONSTANT", "GLOBAL_ROW_GAP", "GLOBAL_UNWRITTEN"
)
GLOBAL_RACE, GLOBAL_BLOCKS, GLOBAL_LANES = _numbers("GLOBAL_RACE", "GLOBAL_BLOCKS", "GLOBAL_LANES")
SHARED_PARTLY, GLOBAL_PARTLY, LOCAL_PARTLY = _numbers("SHARED_PARTLY", "GLOBAL_PARTLY", "LOCAL_PARTLY")
LOCAL_OUTSIDE, LOCAL_UNWRITTEN, SHARED_IN_FLIGHT = _numbers("LOCAL_OUTSIDE", "LOCAL_UNWRITTEN", "SHARED_IN_FLIGHT")

#: Kinds of findings at mbarriers.
SHARED_OBJECT, SHARED_ARRIVED, MBARRIER_UNSET, MBARRIER_UNKNOWN, MBARRIER_LEFT_BYTES = _numbers(
    "SHARED_OBJECT", "SHARED_ARRIVED", "MBARRIER_UNSET", "MBARRIER_UNKNOWN", "MBARRIER_LEFT_BYTES"
)
SHARED_SOURCE, NOT_FENCED, DESCRIPTOR = _numbers("SHARED_SOURCE", "NOT_FENCED", "DESCRIPTOR")
SHARED_BLOCKS, AWAY_EARLY, AWAY_LATE = _numbers("SHARED_BLOCKS", "AWAY_EARLY", "AWAY_LATE")
GLOBAL_IN_FLIGHT, GLOBAL_READ_ONLY, AWAY_SENT = _numbers("GLOBAL_IN_FLIGHT", "GLOBAL_READ_ONLY", "AWAY_SENT")
HEAP_TWICE, HEAP_FOREIGN = _numbers("HEAP_TWICE", "HEAP_FOREIGN")
LAID_SWIZZLED, LAID_BASE, LAID_ROWS, LAID_TWICE = _numbers("LAID_SWIZZLED", "LAID_BASE", "LAID_ROWS", "LAID_TWICE")
MBARRIER_AGAIN, MBARRIER_STALE, MBARRIER_PARITY = _numbers("MBARRIER_AGAIN", "MBARRIER_STALE", "MBARRIER_PARITY")
MBARRIER_BUSY, MBARRIER_REMADE = _numbers("MBARRIER_BUSY", "MBARRIER_REMADE")

#: Operations on an mbarrier, and their variants.
MAKES, ENDS, COUNTS, ARRIVES, TESTS = _numbers("MAKES", "ENDS", "COUNTS", "ARRIVES", "TESTS")
FROM_GLOBAL, TO_GLOBAL, IS_TENSOR, COMBINES, FROM_REGISTERS = _numbers(
    "FROM_GLOBAL", "TO_GLOBAL", "IS_TENSOR", "COMBINES", "FROM_REGISTERS"
)
RELAXED, OF_PARITY, EXPECTS, OF_COPIES = _numbers("RELAXED", "OF_PARITY", "EXPECTS", "OF_COPIES")
#: Bytes of a block's mbarriers, and of the clocks that its warps know through them.
WATCHED_MAX: Final = _CELLS.numbers["TW_WATCHED_MAX"]
WATCHED_BYTES: Final = WATCHED_MAX * _CELLS.structs["tw_watched"].bytes
WATCHED: Final = _CELLS.structs["tw_watched"].offsets
WATCHED_ONE_BYTES: Final = _CELLS.structs["tw_watched"].bytes
#: Bytes of an entry of each list behind a block's memory.
BEHIND_BYTES: Final = {
    name: _CELLS.structs[f"tw_{one}"].bytes
    for name, one in {
        "flights": "flight",
        "sources": "source",
        "readings": "reading",
        "bulks": "bulk",
        "outgoing": "outgoing",
    }.items()
}
BULKS_BYTES: Final = _CELLS.structs["tw_bulks"].bytes
AHEAD_BYTES: Final = _CELLS.numbers["TW_NEAR_ROWS"] * _CELLS.structs["tw_some"].bytes

#: Bits of `how`: what an access does.
READS, WRITES, STRONG, NARROW = _numbers("READS", "WRITES", "IS_STRONG", "IS_NARROW")
READ_ONLY, VOLATILE, DATA = _numbers("IS_READ_ONLY", "IS_VOLATILE", "IS_DATA")

#: Requests to `orders.Orders`; bits of an access that releases or acquires, and of one of shared memory; and the answer
#: for two accesses that are not ordered.
ASK, ACCESS, FENCE, BARRIER_ARRIVED, BARRIER_LEFT = _numbers(
    "ASK", "ACCESS", "FENCE", "BARRIER_ARRIVED", "BARRIER_LEFT"
)
CLUSTER_ARRIVED, CLUSTER_LEFT, ENDED = _numbers("CLUSTER_ARRIVED", "CLUSTER_LEFT", "ENDED")
RELEASES, ACQUIRES, SHARED, NOT_ORDERED = _numbers("RELEASES", "ACQUIRES", "IN_SHARED", "NOT_ORDERED")
