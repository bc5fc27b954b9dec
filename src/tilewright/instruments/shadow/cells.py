"""What shadow memory holds: the format of a cell, and where everything lies in an instrument's memory.

A cell stands for `cell_bytes` of memory and is one 64-bit value::

    shared   clock 40                | site 12 | strong 1 | who 11
    global   block 24 | clock 16     | site 12 | strong 1 | who 11

`W` tells the last write (0: none), `R` the reads since. `who` is a thread of the block (0 to 1023); 1024 + 32 * tile +
a warp, of several of its lanes; or 2047, several warps. The site of several is 4095 where theirs differ, their clock
the least of theirs. A tile is 2, 4, 8, 16 or 32 neighbouring lanes, the fewest that hold all of them, so there is one
in each half of it; tiles are numbered like the nodes of a binary tree above the lanes, that of all lanes 0.

`strong` accesses are atomic, volatile or stronger: two of them never race. `site` is the number of the accessing
instruction. All ones: in W of shared memory a gap between variables, in R of global memory reads by several blocks, all
ones but the strong bit where one of them was not strong.
"""

from __future__ import annotations

from typing import Final

THREAD_MAX: Final = 1024
SEVERAL_WARPS: Final = 2047
WHO_MASK: Final = 2047
STRONG_BIT: Final = 11
SITE_SHIFT: Final = 12
SITE_MAX: Final = 4095
CLOCK_SHIFT: Final = 24
BLOCK_SHIFT: Final = 40
CLOCK_MAX: Final = (1 << 16) - 2
BLOCK_MAX: Final = (1 << 24) - 2
GAP: Final = (1 << 64) - 1
#: R of global memory that several blocks read, as a signed number.
SEVERAL_BLOCKS: Final = ~(1 << STRONG_BIT)

WARPS_MAX: Final = 32
BARRIERS: Final = 16

#: Byte offsets in a block's memory. `LANES_AT`: where clocks of lanes are (i64), 0 where only whole warps synchronise:
#: 32 * 32 x i32 a warp, of each lane how far it knows each of the others. `CLOCKS`: of each warp, its clock and the
#: limit below which every cell is known to it (i64 each). `KNOWN`: how far it knows each other's clock (32 x i32 a
#: warp). `INBOX`: the same, left for it by a barrier. `WAITS`: one more than the barrier it waits at, and that
#: barrier's round (i32 each). `GONE`: the clock of each warp that has ended, plus one (i32). `SEEN`: the address of a
#: warp's last strong load, while nothing else has happened to it (i64). `WHOLE`: the clock of each warp below which all
#: its lanes are ordered (i64). `BARRIERS_AT`: of each barrier its round (i32, in 64 bytes) and what those that came to
#: it know (32 x i32). `VERSION`: how often cells of shared memory have changed in a way that a settled read may depend
#: on, and the limit of the warps that read meanwhile (i64 each). `SETTLED`: reads that found all of their cells saying
#: already that several warps read them: the instruction's row, its base, and version and limit then (i64 each).
LANES_AT: Final = 0
CLOCKS: Final = 64
KNOWN: Final = CLOCKS + 16 * WARPS_MAX
INBOX: Final = KNOWN + 4 * WARPS_MAX * WARPS_MAX
WAITS: Final = INBOX + 4 * WARPS_MAX * WARPS_MAX
GONE: Final = WAITS + 8 * WARPS_MAX
SEEN: Final = GONE + 4 * WARPS_MAX
WHOLE: Final = SEEN + 8 * WARPS_MAX
BARRIERS_AT: Final = WHOLE + 8 * WARPS_MAX
BARRIER_BYTES: Final = 64 + 4 * WARPS_MAX
VERSION: Final = BARRIERS_AT + BARRIERS * BARRIER_BYTES
SETTLED: Final = VERSION + 64
SETTLED_MAX: Final = 16
#: Of one warp's lanes.
LANES_BYTES: Final = 4 * WARPS_MAX * WARPS_MAX
#: Then W of shared memory, R of shared memory, and a byte for each byte of local memory, which begin where the
#: launch's memory says; then clocks of lanes.
SHARED_CELLS: Final = SETTLED + 32 * SETTLED_MAX

#: 64-bit words of a launch's memory.
_LAUNCH = (
    "lock",
    "states",  # host address of the state of the byte at GLOBAL_BASE
    "writes",  # host address of W of global memory
    "reads",  # and of R
    "stored",  # and of what was stored
    "memory",  # host address of the byte at GLOBAL_BASE
    "orders",  # whether the kernel has fences, so that atomics may order blocks
    "order",  # the function that is asked about it
    "table",  # host address of the records of what was found
    "lost",  # records that found no room there
    "shared_reads",  # byte offset of R of shared memory in a block's memory
    "local_states",  # and of the states of local memory
    "local_bytes",  # of a thread
    "warps",
    "threads",  # of a block
)
LAUNCH: Final = {name: 8 * index for index, name in enumerate(_LAUNCH)}
LAUNCH_WORDS: Final = len(_LAUNCH)

#: What unordered stores put into a cell of global memory: the value in the lower half, whether there were others, which
#: W they came after (a part of its hash), and that there is one.
MIXED_BIT: Final = 62
PHASE_BITS: Final = 30

#: State of a byte of global memory: bits, and why neither is set.
READABLE: Final = 1  # it has been written
WRITABLE: Final = 2
FREE: Final = 0
FREED: Final = 0x10
ROW_GAP: Final = 0x20

#: What can be wrong; each is a row of `findings_of`.
(
    SHARED_GAP, SHARED_UNWRITTEN, SHARED_RACE, SHARED_LANES, GLOBAL_OUTSIDE, GLOBAL_FREED, GLOBAL_CONSTANT,
    GLOBAL_ROW_GAP, GLOBAL_UNWRITTEN, GLOBAL_RACE, GLOBAL_BLOCKS, GLOBAL_LANES, LOCAL_OUTSIDE, LOCAL_UNWRITTEN,
) = range(1, 15)  # fmt: skip

#: Bits of `how`, an access's kind.
READS: Final = 1
WRITES: Final = 2
STRONG: Final = 4

#: A record: its tag, how often, the inverse of the first block and thread, the address, and the other access's cell.
RECORD_WORDS: Final = 5
RECORDS: Final = 4096
