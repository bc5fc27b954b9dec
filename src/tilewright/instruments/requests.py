"""The sectors that warps ask for, request by request, as the cache model reads them.

Each host thread writes into a chunk of the launch's memory and takes another when it is full, so that the requests of
a warp, which one host thread runs, stand in the order in which it made them. When no chunk is left, what follows is
thrown away and the record says so. The form of a request is :mod:`tilewright.machine.cache`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.simt.events import FIELDS, Facts

Words = npt.NDArray[np.uint64]

#: Words of a chunk; its first one tells how many are in use.
CHUNK_WORDS = 1 << 16
#: Most memory for one launch's requests; the host gives it as it is written to.
MOST_BYTES = 1 << 30
#: Words before the chunks: those taken, those there are, 1 when some request was thrown away, warps of a block,
#: sectors of local memory a warp. The first chunk takes what is thrown away.
_TAKEN, _CHUNKS, _LOST, _WARPS, _LOCAL, _HEAD = 0, 1, 2, 3, 4, 8
#: Sector numbers of local memory begin here, above all of global memory.
LOCAL_SECTORS = 1 << 40
#: Source: the form of a request: 8 bits for the number of words.
MOST_WORDS = 255

# `state` is a word of the host thread's counters: the address of its chunk, 0 before the first request.
TEXT = f"""
declare i64 @llvm.umin.i64(i64, i64)

define weak_odr ptr @tw.requests.chunk(ptr %launch, ptr %state) noinline cold {{
  %taken = atomicrmw add ptr %launch, i64 1 monotonic
  %chunks.p = getelementptr i64, ptr %launch, i64 {_CHUNKS}
  %chunks = load i64, ptr %chunks.p, align 8
  %there = icmp ult i64 %taken, %chunks
  %number.up = add i64 %taken, 1
  %number = select i1 %there, i64 %number.up, i64 0
  %words = mul i64 %number, {CHUNK_WORDS}
  %at = add i64 %words, {_HEAD}
  %chunk = getelementptr i64, ptr %launch, i64 %at
  store i64 1, ptr %chunk, align 8
  store ptr %chunk, ptr %state, align 8
  br i1 %there, label %leave, label %lose
lose:
  %lost = getelementptr i64, ptr %launch, i64 {_LOST}
  store atomic i64 1, ptr %lost monotonic, align 8
  br label %leave
leave:
  ret ptr %chunk
}}

; Where a request of up to so many words may be written.
define weak_odr ptr @tw.requests.room(ptr %launch, ptr %state, i64 %need) alwaysinline {{
start:
  %chunk = load ptr, ptr %state, align 8
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %take, label %look
look:
  %used = load i64, ptr %chunk, align 8
  %end = add i64 %used, %need
  %fits = icmp ule i64 %end, {CHUNK_WORDS}
  br i1 %fits, label %leave, label %take
take:
  %fresh = call ptr @tw.requests.chunk(ptr %launch, ptr %state)
  br label %leave
leave:
  %in = phi ptr [ %chunk, %look ], [ %fresh, %take ]
  %at = phi i64 [ %used, %look ], [ 1, %take ]
  %room = getelementptr i64, ptr %in, i64 %at
  ret ptr %room
}}

; The number of a warp in the grid.
define weak_odr i64 @tw.requests.warp(ptr %launch, ptr %slot, ptr %warp) alwaysinline {{
  %block.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %block = load i64, ptr %block.p, align 8
  %index.p = getelementptr i8, ptr %warp, i64 {FIELDS["warp.index"]}
  %index.narrow = load i32, ptr %index.p, align 4
  %index = zext i32 %index.narrow to i64
  %warps.p = getelementptr i64, ptr %launch, i64 {_WARPS}
  %warps = load i64, ptr %warps.p, align 8
  %first = mul i64 %block, %warps
  %number = add i64 %first, %index
  ret i64 %number
}}

; Make words of so many sectors that were written: one for each run of neighbours in the list that lie in one line.
define weak_odr i64 @tw.requests.lines(ptr %out, i64 %count) {{
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i.next, %each ]
  %at = phi i64 [ -1, %entry ], [ %at.now, %each ]
  %line.before = phi i64 [ -1, %entry ], [ %line, %each ]
  %before = phi i64 [ 0, %entry ], [ %word, %each ]
  %sector.p = getelementptr i64, ptr %out, i64 %i
  %sector = load i64, ptr %sector.p, align 8
  %line = lshr i64 %sector, 2
  %within = and i64 %sector, 3
  %bit = shl i64 1, %within
  %same = icmp eq i64 %line, %line.before
  %high = shl i64 %line, 4
  %known = select i1 %same, i64 %before, i64 %high
  %word = or i64 %known, %bit
  %at.up = add i64 %at, 1
  %at.now = select i1 %same, i64 %at, i64 %at.up
  %word.p = getelementptr i64, ptr %out, i64 %at.now
  store i64 %word, ptr %word.p, align 8
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %each, label %done
done:
  %words = add i64 %at.now, 1
  ret i64 %words
}}

; Write a request's header, before its words, and keep what was written. Local accesses of 32 bytes (.v8) at 32 far
; addresses make 256 words: the last is left out.
define weak_odr void @tw.requests.keep(ptr %launch, ptr %slot, ptr %warp, ptr %state, i32 %row, ptr %room, i64 %count) alwaysinline {{
  %number = call i64 @tw.requests.warp(ptr %launch, ptr %slot, ptr %warp)
  %high = shl i64 %number, 24
  %site = zext i32 %row to i64
  %middle = shl i64 %site, 8
  %few = call i64 @llvm.umin.i64(i64 %count, i64 {MOST_WORDS})
  %both = or i64 %high, %middle
  %header = or i64 %both, %few
  store i64 %header, ptr %room, align 8
  %chunk = load ptr, ptr %state, align 8
  %from = ptrtoint ptr %chunk to i64
  %to = ptrtoint ptr %room to i64
  %bytes = sub i64 %to, %from
  %words = lshr i64 %bytes, 3
  %after = add i64 %words, 1
  %used = add i64 %after, %few
  store i64 %used, ptr %chunk, align 8
  ret void
}}
"""  # noqa: E501


#: LLVM text that sets `%local` to the first sector of the warp's local memory, a multiple of 4.
LOCAL = f"""  %warp.number = call i64 @tw.requests.warp(ptr %launch, ptr %slot, ptr %warp)
  %local.each.p = getelementptr i64, ptr %launch, i64 {_LOCAL}
  %local.each = load i64, ptr %local.each.p, align 8
  %local.at = mul i64 %warp.number, %local.each
  %local = add i64 %local.at, {LOCAL_SECTORS}"""


def room(most: int, slots: int) -> str:
    """LLVM text that sets `%out` to where the words of a request, so many at most, may be written.

    The last counter of the instrument's first row holds the host thread's chunk; a row has `slots` counters.
    """
    return f"""  %row.wide = zext i32 %row to i64
  %rows.before = mul i64 %row.wide, {-slots}
  %state.at = add i64 %rows.before, {slots - 1}
  %state = getelementptr i64, ptr %counters, i64 %state.at
  %room = call ptr @tw.requests.room(ptr %launch, ptr %state, i64 {most + 1})
  %out = getelementptr i64, ptr %room, i64 1"""


def keep(count: str) -> str:
    """LLVM text that keeps the request whose words, so many, were written to `%out`."""
    return (
        "  call void @tw.requests.keep(ptr %launch, ptr %slot, ptr %warp, ptr %state, i32 %row, ptr %room, i64 "
        f"{count})"
    )


@dataclass(frozen=True, slots=True)
class Requests:
    """What a launch asked for.

    Attributes
    ----------
    buffers : tuple of array
        As :func:`tilewright.machine.cache.simulate` takes them; sites are rows of the instrument's result.
    complete : bool
        False when there was no room for all.
    """

    buffers: tuple[Words, ...]
    complete: bool


def area(facts: Facts, most_bytes: int = MOST_BYTES) -> Words:
    """Memory for a launch's requests."""
    chunks = max(1, most_bytes // (8 * CHUNK_WORDS))
    threads = facts.block[0] * facts.block[1] * facts.block[2]
    while True:
        try:
            memory = np.zeros(_HEAD + (chunks + 1) * CHUNK_WORDS, np.uint64)
            break
        except MemoryError:  # a host that gives no more address space than it has memory
            if chunks == 1:
                raise
            chunks //= 2
    memory[_CHUNKS] = chunks
    memory[_WARPS] = -(-threads // 32)
    memory[_LOCAL] = 4 * -(-facts.layout.local_bytes // 4)  # a word of all lanes is four sectors
    return memory


def requests(memory: Words, rows: int) -> Requests:
    """What was written during a launch whose instrument has so many rows."""
    taken = min(int(memory[_TAKEN]), int(memory[_CHUNKS]))
    chunks = memory[_HEAD + CHUNK_WORDS :].reshape(-1, CHUNK_WORDS)[:taken]
    buffers = tuple(chunk[1 : int(chunk[0])] for chunk in chunks)
    return Requests(buffers, not memory[_LOST] and rows <= 1 << 16)
