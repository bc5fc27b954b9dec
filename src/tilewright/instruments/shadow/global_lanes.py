"""The exact judgement of one lane's access of global memory, as LLVM text."""

from __future__ import annotations

from tilewright.instruments.shadow import cells
from tilewright.instruments.shadow.conflicts import LANE, facts, report
from tilewright.instruments.shadow.records import HASH
from tilewright.simt.events import GLOBAL_BASE, VALUES_STRIDE_BYTES


def global_text(cell_bytes: int) -> str:
    """`tw.memory.global(LANE)`: the same in global memory: state of its bytes, then races, cell by cell."""
    return f"""
define internal void @tw.memory.global({LANE}) noinline {{
entry:
{facts()}
  %states.p = getelementptr i8, ptr %launch, i64 {cells.LAUNCH["states"]}
  %states = load ptr, ptr %states.p
  %writes.p = getelementptr i8, ptr %launch, i64 {cells.LAUNCH["writes"]}
  %all.w = load ptr, ptr %writes.p
  %reads.p = getelementptr i8, ptr %launch, i64 {cells.LAUNCH["reads"]}
  %all.r = load ptr, ptr %reads.p
  %offset = sub i64 %address, {GLOBAL_BASE}
  %bytes64 = zext i32 %bytes to i64
  %end.byte = add i64 %offset, %bytes64
  %need.r = select i1 %reads, i8 {cells.READABLE}, i8 0
  %need.w = select i1 %writes, i8 {cells.WRITABLE}, i8 0
  %gain = select i1 %writes, i8 {cells.READABLE}, i8 0
  br label %byte
byte:  ; the first byte that may not be accessed decides; an access that is not allowed has no effect here
  %b = phi i64 [ %offset, %entry ], [ %b1, %good ]
  %s.p = getelementptr i8, ptr %states, i64 %b
  %s = load i8, ptr %s.p
  %need = or i8 %need.r, %need.w
  %has = and i8 %s, %need
  %ok = icmp eq i8 %has, %need
  br i1 %ok, label %good, label %hardly
hardly:  ; padding: an element of which some byte was written counts as written
  %only = icmp eq i8 %s, {cells.WRITABLE}
  br i1 %only, label %rest, label %bad
rest:
  %element64 = zext i32 %element to i64
  %since = sub i64 %b, %offset
  %index = udiv i64 %since, %element64
  %skip = mul i64 %index, %element64
  %from = add i64 %offset, %skip
  %to = add i64 %from, %element64
  br label %each.rest
each.rest:
  %k = phi i64 [ %from, %rest ], [ %k1, %each.rest ]
  %some = phi i8 [ 0, %rest ], [ %some1, %each.rest ]
  %k.p = getelementptr i8, ptr %states, i64 %k
  %k.s = load i8, ptr %k.p
  %some1 = or i8 %some, %k.s
  %k1 = add i64 %k, 1
  %k.more = icmp ult i64 %k1, %to
  br i1 %k.more, label %each.rest, label %padding
padding:
  %some.bit = and i8 %some1, {cells.READABLE}
  %partly = icmp ne i8 %some.bit, 0
  br i1 %partly, label %good, label %bad
good:
  %s1 = or i8 %s, %gain
  store i8 %s1, ptr %s.p
  %b1 = add i64 %b, 1
  %more.bytes = icmp ult i64 %b1, %end.byte
  br i1 %more.bytes, label %byte, label %races
bad:
  %freed = icmp eq i8 %s, {cells.FREED}
  %gap = icmp eq i8 %s, {cells.ROW_GAP}
  %writable.bit = and i8 %s, {cells.WRITABLE}
  %readable.bit = and i8 %s, {cells.READABLE}
  %can.write = icmp ne i8 %writable.bit, 0
  %can.read = icmp ne i8 %readable.bit, 0
  %kind0 = select i1 %freed, i64 {cells.GLOBAL_FREED}, i64 {cells.GLOBAL_OUTSIDE}
  %kind1 = select i1 %gap, i64 {cells.GLOBAL_ROW_GAP}, i64 %kind0
  %kind2 = select i1 %can.write, i64 {cells.GLOBAL_UNWRITTEN}, i64 %kind1
  %kind = select i1 %can.read, i64 {cells.GLOBAL_CONSTANT}, i64 %kind2
{report("bad", "%kind")}
  %unset = icmp eq i64 %kind, {cells.GLOBAL_UNWRITTEN}  ; another block may have yet to write it: a race
  br i1 %unset, label %races, label %leave
races:  ; beyond what a cell can say, nothing is said
  %clock.fits = icmp ule i64 %clock, {cells.CLOCK_MAX}
  %block.fits = icmp ule i64 %number, {cells.BLOCK_MAX}
  %fits = and i1 %clock.fits, %block.fits
  br i1 %fits, label %cells, label %leave
cells:
  %b64 = shl i64 %number, {cells.BLOCK_SHIFT}
  %mine.clock = shl i64 %clock, {cells.CLOCK_SHIFT}
  %mine.high = or i64 %b64, %mine.clock
  %mine = or i64 %mine.high, %low
  %first = udiv i64 %offset, {cell_bytes}
  %end.up = add i64 %end.byte, {cell_bytes - 1}
  %end = udiv i64 %end.up, {cell_bytes}
  br label %each
each:
  %c = phi i64 [ %first, %cells ], [ %c1, %next ]
  %w.p = getelementptr i64, ptr %all.w, i64 %c
  %r.p = getelementptr i64, ptr %all.r, i64 %c
  br i1 %writes, label %value.first, label %note
value.first:
  %has.value = icmp ne ptr %values, null
  br i1 %has.value, label %store, label %put
store:
  %w.now = load atomic i64, ptr %w.p seq_cst, align 8
  %now.hit = call i32 @tw.memory.global.races(ptr %launch, ptr %block, i64 %w.now, i64 %number, i32 %w, i32 %thread,
                                              i64 %clock, i1 false)
  %now.beside = icmp ne i32 %now.hit, 0
  %now.unlike = xor i64 %w.now, %mine
  %now.other = and i64 %now.unlike, {~(cells.SITE_MAX << cells.SITE_SHIFT | 1 << cells.STRONG_BIT)}
  %now.own = icmp eq i64 %now.other, 0
  %now.joins = or i1 %now.beside, %now.own
  %c.byte = mul i64 %c, {cell_bytes}
  %c.since = sub i64 %c.byte, %offset
  %c.k = trunc i64 %c.since to i32
  %c.index = udiv i32 %c.k, %element
  %c.within = urem i32 %c.k, %element
  %c.row = mul i32 %c.index, {VALUES_STRIDE_BYTES}
  %c.lane = mul i32 %lane, %element
  %c.at0 = add i32 %c.row, %c.lane
  %c.at = add i32 %c.at0, %c.within
  %c.value.p = getelementptr i8, ptr %values, i32 %c.at
  %c.bits = load i{8 * cell_bytes}, ptr %c.value.p, align 1
  %c.value = zext i{8 * cell_bytes} %c.bits to i64
  call void @tw.memory.stored(ptr %launch, i64 %c, i64 %w.now, i1 %now.joins, i64 %c.value)
  br label %put
put:  ; put down the write, then look who has read: of two that meet, one sees the other
  br i1 %strong, label %weigh, label %exchange
weigh:  ; a strong write does not cover a weak one up: others may race with that one only
  %w.before = load atomic i64, ptr %w.p seq_cst, align 8
  %w.bit = and i64 %w.before, {1 << cells.STRONG_BIT}
  %w.weak = icmp eq i64 %w.bit, 0
  %w.some = icmp ne i64 %w.before, 0
  %w.stays = and i1 %w.weak, %w.some
  br i1 %w.stays, label %looked, label %replace
replace:
  %w.next = call i64 @tw.memory.over(ptr %launch, ptr %block, i64 %w.before, i64 %mine, i64 %number, i32 %w,
                                     i32 %thread, i64 %clock)
  %w.unchanged = icmp eq i64 %w.next, %w.before
  br i1 %w.unchanged, label %looked, label %set
set:
  %w.set = cmpxchg ptr %w.p, i64 %w.before, i64 %w.next seq_cst seq_cst
  %w.done = extractvalue {{ i64, i1 }} %w.set, 1
  br i1 %w.done, label %looked, label %weigh
exchange:
  %w.out = atomicrmw xchg ptr %w.p, i64 %mine seq_cst
  br label %looked
looked:
  %w.old = phi i64 [ %w.before, %weigh ], [ %w.before, %replace ], [ %w.before, %set ], [ %w.out, %exchange ]
  %r.seen = load atomic i64, ptr %r.p seq_cst, align 8
  br label %judge
note:
  %r.old = load atomic i64, ptr %r.p monotonic, align 8
  %r.new = call i64 @tw.memory.joined(ptr %launch, ptr %block, i64 %r.old, i64 %mine, i32 %w, i32 %thread, i64 %clock)
  %unchanged = icmp eq i64 %r.new, %r.old
  br i1 %unchanged, label %noted, label %swap
swap:
  %swapped = cmpxchg ptr %r.p, i64 %r.old, i64 %r.new seq_cst seq_cst
  %done = extractvalue {{ i64, i1 }} %swapped, 1
  br i1 %done, label %noted, label %note
noted:
  %w.seen = load atomic i64, ptr %w.p seq_cst, align 8
  br label %judge
judge:
  %v = phi i64 [ %w.old, %looked ], [ %w.seen, %noted ]
  %r = phi i64 [ %r.seen, %looked ], [ 0, %noted ]
  %hit = call i32 @tw.memory.global.races(ptr %launch, ptr %block, i64 %v, i64 %number, i32 %w, i32 %thread,
                                          i64 %clock, i1 %strong)
  %race = icmp ne i32 %hit, 0
  br i1 %race, label %value, label %readers
value:
  %v.strong0 = lshr i64 %v, {cells.STRONG_BIT}
  %v.strong = trunc i64 %v.strong0 to i1
  %said = xor i1 %v.strong, true  ; what an atomic left is not known
  %known = select i1 %writes, i1 %said, i1 false
  %stores = icmp ne ptr %values, null
  %compared = and i1 %known, %stores
  br i1 %compared, label %compare, label %tell
compare:  ; all that meet here have said what they store before
  %stored.p = call ptr @tw.memory.stored.place(ptr %launch, i64 %c)
  %stored = load atomic i64, ptr %stored.p seq_cst, align 8
  %mixed0 = lshr i64 %stored, {cells.MIXED_BIT}
  %mixed = trunc i64 %mixed0 to i1
  br i1 %mixed, label %tell, label %readers
tell:
  %hit64 = zext i32 %hit to i64
{report("war", "%hit64", "true", "%v")}
  br label %readers
readers:
  %r.hit = call i32 @tw.memory.global.races(ptr %launch, ptr %block, i64 %r, i64 %number, i32 %w, i32 %thread,
                                            i64 %clock, i1 %strong)
  %r.race = icmp ne i32 %r.hit, 0
  br i1 %r.race, label %r.tell, label %next
r.tell:
  %r.hit64 = zext i32 %r.hit to i64
{report("rar", "%r.hit64", "false", "%r")}
  br label %next
next:
  %c1 = add i64 %c, 1
  %more = icmp ult i64 %c1, %end
  br i1 %more, label %each, label %leave
leave:
  ret void
}}
"""


#: Races of global memory by kind, R after one more read, and what was stored.
GLOBAL_RACES = f"""
define internal ptr @tw.memory.stored.place(ptr %launch, i64 %c) alwaysinline {{
  %all.p = getelementptr i8, ptr %launch, i64 {cells.LAUNCH["stored"]}
  %all = load ptr, ptr %all.p
  %place = getelementptr i64, ptr %all, i64 %c
  ret ptr %place
}}

; tw.memory.stored(launch, cell number, W, whether W is not ordered before us, value): remember whether unordered stores
; store the same. Those that come after one W begin anew together, whichever of them is first.
define internal void @tw.memory.stored(ptr %launch, i64 %c, i64 %w.now, i1 %joins, i64 %value) noinline {{
entry:
  %p = call ptr @tw.memory.stored.place(ptr %launch, i64 %c)
  %hash = mul i64 %w.now, {HASH - (1 << 64)}
  %high = lshr i64 %hash, {64 - cells.PHASE_BITS}
  %phase = shl i64 %high, 32
  %begun = or i64 %phase, {1 << 63}
  %fresh = or i64 %begun, %value
  br label %again
again:
  %old = load atomic i64, ptr %p seq_cst, align 8
  %none = icmp eq i64 %old, 0
  %old.value = and i64 %old, {(1 << 32) - 1}
  %old.phase = and i64 %old, {((1 << cells.PHASE_BITS) - 1) << 32}
  %same.phase = icmp eq i64 %old.phase, %phase
  %together = or i1 %joins, %same.phase
  %differs = icmp ne i64 %old.value, %value
  %mixed = or i64 %old, {1 << cells.MIXED_BIT}
  %joined = select i1 %differs, i64 %mixed, i64 %old
  %next = select i1 %together, i64 %joined, i64 %fresh
  %new = select i1 %none, i64 %fresh, i64 %next
  %unchanged = icmp eq i64 %new, %old
  br i1 %unchanged, label %done, label %swap
swap:
  %swapped = cmpxchg ptr %p, i64 %old, i64 %new seq_cst seq_cst
  %ok = extractvalue {{ i64, i1 }} %swapped, 1
  br i1 %ok, label %done, label %again
done:
  ret void
}}

; tw.memory.global.races(launch, block, cell, number, warp, thread, clock, strong): 0, or the kind of race.
define internal i32 @tw.memory.global.races(ptr %launch, ptr %block, i64 %cell, i64 %number, i32 %w, i32 %thread,
                                            i64 %clock, i1 %strong) {{
entry:
  %none = icmp eq i64 %cell, 0
  br i1 %none, label %no, label %look
look:
  %s0 = lshr i64 %cell, {cells.STRONG_BIT}
  %s1 = trunc i64 %s0 to i1
  %both = and i1 %s1, %strong
  br i1 %both, label %no, label %place
place:
  %its.block = lshr i64 %cell, {cells.BLOCK_SHIFT}
  %its.shifted = lshr i64 %cell, {cells.CLOCK_SHIFT}
  %its = and i64 %its.shifted, 65535
  %here = icmp eq i64 %its.block, %number
  br i1 %here, label %mates, label %far
mates:
  %hit = call i1 @tw.memory.races(ptr %block, i64 %cell, i64 %its, i32 %w, i32 %thread, i64 %clock, i1 %strong)
  br i1 %hit, label %near, label %no
near:
  %ours = call i1 @tw.memory.ours(i64 %cell, i32 %w)
  %kind = select i1 %ours, i32 {cells.GLOBAL_LANES}, i32 {cells.GLOBAL_RACE}
  br label %ask
far:
  br label %ask
ask:
  %what = phi i32 [ %kind, %near ], [ {cells.GLOBAL_BLOCKS}, %far ]
  %ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %number, i64 %its.block, i32 %w, i64 %cell, i64 %its)
  br i1 %ordered, label %no, label %yes
yes:
  ret i32 %what
no:
  ret i32 0
}}

; tw.memory.over(launch, block, W, mine, number, warp, thread, clock): W after one more strong write: of two without an
; order, a weak access may race with either.
define internal i64 @tw.memory.over(ptr %launch, ptr %block, i64 %cell, i64 %mine, i64 %number, i32 %w, i32 %thread,
                                    i64 %clock) {{
entry:
  %hit = call i32 @tw.memory.global.races(ptr %launch, ptr %block, i64 %cell, i64 %number, i32 %w, i32 %thread,
                                          i64 %clock, i1 false)
  %alone = icmp eq i32 %hit, 0
  br i1 %alone, label %set, label %beside
set:
  ret i64 %mine
beside:
  %far = icmp eq i32 %hit, {cells.GLOBAL_BLOCKS}
  %ours = icmp eq i32 %hit, {cells.GLOBAL_LANES}
  %both = call i64 @tw.memory.both(i64 %cell, i64 %mine, i32 %w, i1 %ours)
  %blocks = or i64 %both, {cells.SEVERAL_BLOCKS & ~(cells.SITE_MAX << cells.SITE_SHIFT)}
  %now = select i1 %far, i64 %blocks, i64 %both
  ret i64 %now
}}

; tw.memory.joined(launch, block, cell, mine, warp, thread, clock): R of global memory after one more read.
define internal i64 @tw.memory.joined(ptr %launch, ptr %block, i64 %cell, i64 %mine, i32 %w, i32 %thread,
                                       i64 %clock) {{
entry:
  %none = icmp eq i64 %cell, 0
  br i1 %none, label %set, label %look
set:
  ret i64 %mine
look:
  %mine.strong = and i64 %mine, {1 << cells.STRONG_BIT}
  %cell.strong = and i64 %cell, {1 << cells.STRONG_BIT}
  %covers = icmp ugt i64 %mine.strong, %cell.strong  ; a strong read does not cover a weak one up
  br i1 %covers, label %stays, label %join
stays:
  ret i64 %cell
join:
  %its.block = lshr i64 %cell, {cells.BLOCK_SHIFT}
  %my.block = lshr i64 %mine, {cells.BLOCK_SHIFT}
  %here = icmp eq i64 %its.block, %my.block
  %its.shifted = lshr i64 %cell, {cells.CLOCK_SHIFT}
  %its = and i64 %its.shifted, 65535
  br i1 %here, label %mates, label %far
far:
  %far.ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %my.block, i64 %its.block, i32 %w, i64 %cell, i64 %its)
  br i1 %far.ordered, label %set, label %many
many:
  %either = and i64 %cell, %mine
  %blocks.strong = and i64 %either, {1 << cells.STRONG_BIT}
  %blocks = or i64 %blocks.strong, {cells.SEVERAL_BLOCKS}
  ret i64 %blocks
mates:
  %keep = call i1 @tw.memory.races(ptr %block, i64 %cell, i64 %its, i32 %w, i32 %thread, i64 %clock, i1 false)
  br i1 %keep, label %asked, label %again
asked:
  %ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %my.block, i64 %my.block, i32 %w, i64 %cell, i64 %its)
  br i1 %ordered, label %set, label %both
again:  ; by the same thread at the same clock nothing changes, so that most reads write nothing
  %like = xor i64 %cell, %mine
  %rest = and i64 %like, {~(4095 << cells.SITE_SHIFT)}
  %equal = icmp eq i64 %rest, 0
  %kept = select i1 %equal, i64 %cell, i64 %mine
  ret i64 %kept
both:
  %ours = call i1 @tw.memory.ours(i64 %cell, i32 %w)
  %now = call i64 @tw.memory.both(i64 %cell, i64 %mine, i32 %w, i1 %ours)
  ret i64 %now
}}
"""
