"""The cache model in LLVM: least-recently-used order over ten million sectors is no work for Python.

`machine/cache.py` states the model and lays out the records that this code works on. A buffer's requests are first
counted by warp, then put in order of warps; then `tw.cache.run` goes round the multiprocessors.
"""

from __future__ import annotations

import ctypes
import functools
from types import SimpleNamespace
from typing import Any

#: A cache keeps its lines in nodes. The first `sets` of them stand for the sets: `next` is the line used last, `prev`
#: the one used longest ago, `state` how many of the set's ways are taken. In a line's `state`, bits 0 to 3 are its
#: valid sectors and bits 4 to 7 the dirty ones. `chain` links the nodes of one hash bucket, 0 ends it.
_LINES = """
%node = type { i64, i32, i32, i32, i32, i32, i32 }    ; line, prev, next, state, chain, set
%cache = type { ptr, ptr, i64, i64, i64, i64 }        ; nodes, buckets, sets, ways, shift, sectors written back

declare i32 @llvm.ctpop.i32(i32)
declare i64 @llvm.cttz.i64(i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @bucket(ptr %cache, i64 %line) alwaysinline {
  %buckets.at = getelementptr %cache, ptr %cache, i32 0, i32 1
  %buckets = load ptr, ptr %buckets.at
  %shift.at = getelementptr %cache, ptr %cache, i32 0, i32 4
  %shift = load i64, ptr %shift.at
  %mixed = mul i64 %line, -7046029254386353131        ; 2^64 over the golden ratio: Knuth, TAOCP 3, 6.4
  %number = lshr i64 %mixed, %shift
  %bucket = getelementptr i32, ptr %buckets, i64 %number
  ret ptr %bucket
}

; The node of a line, or 0.
define internal i32 @find(ptr %cache, i64 %line) alwaysinline {
entry:
  %nodes = load ptr, ptr %cache
  %bucket = call ptr @bucket(ptr %cache, i64 %line)
  %first = load i32, ptr %bucket
  br label %look
look:
  %n = phi i32 [ %first, %entry ], [ %after, %other ]
  %none = icmp eq i32 %n, 0
  br i1 %none, label %leave, label %compare
compare:
  %node = getelementptr %node, ptr %nodes, i32 %n
  %tag = load i64, ptr %node
  %same = icmp eq i64 %tag, %line
  br i1 %same, label %leave, label %other
other:
  %chain = getelementptr %node, ptr %node, i32 0, i32 4
  %after = load i32, ptr %chain
  br label %look
leave:
  ret i32 %n
}

define internal void @unlink(ptr %nodes, ptr %node) alwaysinline {
  %prev.at = getelementptr %node, ptr %node, i32 0, i32 1
  %prev = load i32, ptr %prev.at
  %next.at = getelementptr %node, ptr %node, i32 0, i32 2
  %next = load i32, ptr %next.at
  %prev.next = getelementptr %node, ptr %nodes, i32 %prev, i32 2
  store i32 %next, ptr %prev.next
  %next.prev = getelementptr %node, ptr %nodes, i32 %next, i32 1
  store i32 %prev, ptr %next.prev
  ret void
}

define internal void @put_first(ptr %nodes, i32 %n, ptr %node, i32 %set) alwaysinline {
  %first.at = getelementptr %node, ptr %nodes, i32 %set, i32 2
  %first = load i32, ptr %first.at
  %prev = getelementptr %node, ptr %node, i32 0, i32 1
  store i32 %set, ptr %prev
  %next = getelementptr %node, ptr %node, i32 0, i32 2
  store i32 %first, ptr %next
  store i32 %n, ptr %first.at
  %first.prev = getelementptr %node, ptr %nodes, i32 %first, i32 1
  store i32 %n, ptr %first.prev
  ret void
}

; Take the line used longest ago out of a full set; its dirty sectors are written back.
define internal i32 @evict(ptr %cache, ptr %nodes, i32 %set) {
entry:
  %last.at = getelementptr %node, ptr %nodes, i32 %set, i32 1
  %n = load i32, ptr %last.at
  %node = getelementptr %node, ptr %nodes, i32 %n
  %state.at = getelementptr %node, ptr %node, i32 0, i32 3
  %state = load i32, ptr %state.at
  %dirty = lshr i32 %state, 4
  %count = call i32 @llvm.ctpop.i32(i32 %dirty)
  %more = zext i32 %count to i64
  %written.at = getelementptr %cache, ptr %cache, i32 0, i32 5
  %written = load i64, ptr %written.at
  %written.now = add i64 %written, %more
  store i64 %written.now, ptr %written.at
  call void @unlink(ptr %nodes, ptr %node)
  %line = load i64, ptr %node
  %bucket = call ptr @bucket(ptr %cache, i64 %line)
  br label %walk
walk:
  %link = phi ptr [ %bucket, %entry ], [ %link.next, %further ]
  %m = load i32, ptr %link
  %found = icmp eq i32 %m, %n
  br i1 %found, label %cut, label %further
further:
  %link.next = getelementptr %node, ptr %nodes, i32 %m, i32 4
  br label %walk
cut:
  %chain = getelementptr %node, ptr %node, i32 0, i32 4
  %rest = load i32, ptr %chain
  store i32 %rest, ptr %link
  ret i32 %n
}

; A node for a line that is not there, as the first of its set and of its bucket.
define internal void @allocate(ptr %cache, i64 %line, i32 %bits) {
entry:
  %nodes = load ptr, ptr %cache
  %sets.at = getelementptr %cache, ptr %cache, i32 0, i32 2
  %sets = load i64, ptr %sets.at
  %ways.at = getelementptr %cache, ptr %cache, i32 0, i32 3
  %ways = load i64, ptr %ways.at
  %set.wide = urem i64 %line, %sets
  %set = trunc i64 %set.wide to i32
  %taken.at = getelementptr %node, ptr %nodes, i32 %set, i32 3
  %taken = load i32, ptr %taken.at
  %taken.wide = zext i32 %taken to i64
  %room = icmp ult i64 %taken.wide, %ways
  br i1 %room, label %fresh, label %full
fresh:
  %taken.now = add i32 %taken, 1
  store i32 %taken.now, ptr %taken.at
  %before = mul i64 %set.wide, %ways
  %start = add i64 %before, %sets
  %new.wide = add i64 %start, %taken.wide
  %new = trunc i64 %new.wide to i32
  br label %fill
full:
  %old = call i32 @evict(ptr %cache, ptr %nodes, i32 %set)
  br label %fill
fill:
  %n = phi i32 [ %new, %fresh ], [ %old, %full ]
  %node = getelementptr %node, ptr %nodes, i32 %n
  store i64 %line, ptr %node
  %state = getelementptr %node, ptr %node, i32 0, i32 3
  store i32 %bits, ptr %state
  %set.at = getelementptr %node, ptr %node, i32 0, i32 5
  store i32 %set, ptr %set.at
  %bucket = call ptr @bucket(ptr %cache, i64 %line)
  %rest = load i32, ptr %bucket
  %chain = getelementptr %node, ptr %node, i32 0, i32 4
  store i32 %rest, ptr %chain
  store i32 %n, ptr %bucket
  call void @put_first(ptr %nodes, i32 %n, ptr %node, i32 %set)
  ret void
}

; Use a sector of a line: `bits` is its valid bit, and its dirty bit where it is written. Whether it was there.
define internal i1 @use(ptr %cache, i64 %line, i32 %bits) {
entry:
  %nodes = load ptr, ptr %cache
  %n = call i32 @find(ptr %cache, i64 %line)
  %absent = icmp eq i32 %n, 0
  br i1 %absent, label %miss, label %present
present:
  %node = getelementptr %node, ptr %nodes, i32 %n
  %state.at = getelementptr %node, ptr %node, i32 0, i32 3
  %state = load i32, ptr %state.at
  %state.now = or i32 %state, %bits
  store i32 %state.now, ptr %state.at
  %valid = and i32 %bits, 15
  %were = and i32 %state, %valid
  %hit = icmp ne i32 %were, 0
  %prev.at = getelementptr %node, ptr %node, i32 0, i32 1
  %prev = load i32, ptr %prev.at
  %set.at = getelementptr %node, ptr %node, i32 0, i32 5
  %set = load i32, ptr %set.at
  %first = icmp eq i32 %prev, %set
  br i1 %first, label %leave, label %move
move:
  call void @unlink(ptr %nodes, ptr %node)
  call void @put_first(ptr %nodes, i32 %n, ptr %node, i32 %set)
  br label %leave
leave:
  ret i1 %hit
miss:
  call void @allocate(ptr %cache, i64 %line, i32 %bits)
  ret i1 false
}

; Forget a sector, where it is there.
define internal void @forget(ptr %cache, i64 %line, i32 %bits) {
entry:
  %nodes = load ptr, ptr %cache
  %n = call i32 @find(ptr %cache, i64 %line)
  %absent = icmp eq i32 %n, 0
  br i1 %absent, label %leave, label %present
present:
  %state.at = getelementptr %node, ptr %nodes, i32 %n, i32 3
  %state = load i32, ptr %state.at
  %others = xor i32 %bits, -1
  %state.now = and i32 %state, %others
  store i32 %state.now, ptr %state.at
  br label %leave
leave:
  ret void
}
"""

#: Which sectors the launch has touched: a directory of regions of 65,536 sectors (open addressing), and a bit a sector.
_TOUCHED = """
%slot = type { i64, i64 }                             ; region + 1 (0: free), its number among the bits

define internal ptr @region(ptr %directory, i64 %mask, i64 %sector) alwaysinline {
entry:
  %region = lshr i64 %sector, 16
  %key = add i64 %region, 1
  %mixed = mul i64 %key, -7046029254386353131
  %high = lshr i64 %mixed, 32
  br label %look
look:
  %i = phi i64 [ %high, %entry ], [ %i.next, %other ]
  %place = and i64 %i, %mask
  %slot = getelementptr %slot, ptr %directory, i64 %place
  %there = load i64, ptr %slot
  %same = icmp eq i64 %there, %key
  %free = icmp eq i64 %there, 0
  %stop = or i1 %same, %free
  %i.next = add i64 %i, 1
  br i1 %stop, label %leave, label %other
other:
  br label %look
leave:
  ret ptr %slot
}

; Mark a sector; whether it was marked.
define internal i1 @touch(ptr %directory, i64 %mask, ptr %touched, i64 %sector) {
  %slot = call ptr @region(ptr %directory, i64 %mask, i64 %sector)
  %number.at = getelementptr %slot, ptr %slot, i32 0, i32 1
  %number = load i64, ptr %number.at
  %region.bits = shl i64 %number, 16
  %low = and i64 %sector, 65535
  %bit.number = or i64 %region.bits, %low
  %word.number = lshr i64 %bit.number, 6
  %word.at = getelementptr i64, ptr %touched, i64 %word.number
  %word = load i64, ptr %word.at
  %in.word = and i64 %sector, 63
  %bit = shl i64 1, %in.word
  %was = and i64 %word, %bit
  %word.now = or i64 %word, %bit
  store i64 %word.now, ptr %word.at
  %before = icmp ne i64 %was, 0
  ret i1 %before
}
"""

#: First pass: how many words each warp has, and the directory. Returns 0, or 1 where the directory is full, or 2 where
#: a request is none. Second pass: every request to its warp's place.
_ORDER = """
define i64 @tw.cache.count(ptr %words, i64 %n, ptr %sizes, i64 %warps, i64 %sites, ptr %directory, i64 %mask,
                           ptr %regions) {
entry:
  %half = lshr i64 %mask, 1
  br label %request.test
request.test:
  %i = phi i64 [ 0, %entry ], [ %end, %request.end ]
  %last = phi i64 [ -1, %entry ], [ %last.now, %request.end ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %request, label %done
request:
  %header.at = getelementptr i64, ptr %words, i64 %i
  %header = load i64, ptr %header.at
  %count = and i64 %header, 255
  %site.shifted = lshr i64 %header, 8
  %site = and i64 %site.shifted, 65535
  %warp = lshr i64 %header, 24
  %begin = add i64 %i, 1
  %end = add i64 %begin, %count
  %some = icmp ne i64 %count, 0
  %inside = icmp ule i64 %end, %n
  %warp.right = icmp ult i64 %warp, %warps
  %site.right = icmp ult i64 %site, %sites
  %right.1 = and i1 %some, %inside
  %right.2 = and i1 %warp.right, %site.right
  %right = and i1 %right.1, %right.2
  br i1 %right, label %sized, label %wrong
sized:
  %size.at = getelementptr i64, ptr %sizes, i64 %warp
  %size = load i64, ptr %size.at
  %size.more = add i64 %size, %count
  %size.now = add i64 %size.more, 1
  store i64 %size.now, ptr %size.at
  br label %sector
sector:
  %s = phi i64 [ %begin, %sized ], [ %s.next, %sector.end ]
  %known = phi i64 [ %last, %sized ], [ %region, %sector.end ]
  %sector.at = getelementptr i64, ptr %words, i64 %s
  %number = load i64, ptr %sector.at
  %region = lshr i64 %number, 16
  %same = icmp eq i64 %region, %known
  br i1 %same, label %sector.end, label %other
other:
  %slot = call ptr @region(ptr %directory, i64 %mask, i64 %number)
  %key = load i64, ptr %slot
  %new = icmp eq i64 %key, 0
  br i1 %new, label %enter, label %sector.end
enter:
  %taken = load i64, ptr %regions
  %full = icmp uge i64 %taken, %half
  br i1 %full, label %crowded, label %write
write:
  %key.new = add i64 %region, 1
  store i64 %key.new, ptr %slot
  %index.at = getelementptr %slot, ptr %slot, i32 0, i32 1
  store i64 %taken, ptr %index.at
  %taken.now = add i64 %taken, 1
  store i64 %taken.now, ptr %regions
  br label %sector.end
sector.end:
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %end
  br i1 %s.more, label %sector, label %request.end
request.end:
  %last.now = phi i64 [ %region, %sector.end ]
  br label %request.test
done:
  ret i64 0
crowded:
  ret i64 1
wrong:
  ret i64 2
}

define void @tw.cache.place(ptr %words, i64 %n, ptr %places, ptr %sorted) {
entry:
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %i.next, %request ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %request, label %done
request:
  %header.at = getelementptr i64, ptr %words, i64 %i
  %header = load i64, ptr %header.at
  %count = and i64 %header, 255
  %warp = lshr i64 %header, 24
  %length = add i64 %count, 1
  %place.at = getelementptr i64, ptr %places, i64 %warp
  %place = load i64, ptr %place.at
  %place.next = add i64 %place, %length
  store i64 %place.next, ptr %place.at
  %to = getelementptr i64, ptr %sorted, i64 %place
  %bytes = shl i64 %length, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %header.at, i64 %bytes, i1 false)
  %i.next = add i64 %i, %length
  br label %test
done:
  ret void
}
"""

#: The launch: blocks on multiprocessors, and what becomes of each sector.
_RUN = """
%job = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, ptr, i64, ptr, i64, i64, i64, i64 }
; words, kinds, counts, first levels, second level, shadow, directory, its mask, touched, multiprocessors, how many,
; starts of warps, blocks, next block, warps a block, blocks a multiprocessor
%sm = type { i64, [64 x i64], [64 x i64], [64 x i64] }
; live warps (a bit each), where each stands, where it ends; live warps of each block

; Put the next block that asks for anything into a place of a multiprocessor.
define internal void @enter(ptr %job, ptr %sm, i64 %place) {
entry:
  %starts.at = getelementptr %job, ptr %job, i32 0, i32 11
  %starts = load ptr, ptr %starts.at
  %blocks.at = getelementptr %job, ptr %job, i32 0, i32 12
  %blocks = load i64, ptr %blocks.at
  %next.at = getelementptr %job, ptr %job, i32 0, i32 13
  %warps.at = getelementptr %job, ptr %job, i32 0, i32 14
  %warps = load i64, ptr %warps.at
  %slot.first = mul i64 %place, %warps
  %left.at = getelementptr %sm, ptr %sm, i32 0, i32 3, i64 %place
  br label %take
take:
  %block = load i64, ptr %next.at
  %any = icmp ult i64 %block, %blocks
  br i1 %any, label %begin, label %leave
begin:
  %block.next = add i64 %block, 1
  store i64 %block.next, ptr %next.at
  %warp.first = mul i64 %block, %warps
  br label %warp
warp:
  %w = phi i64 [ 0, %begin ], [ %w.next, %warp ]
  %live = phi i64 [ 0, %begin ], [ %live.now, %warp ]
  %number = add i64 %warp.first, %w
  %start.at = getelementptr i64, ptr %starts, i64 %number
  %start = load i64, ptr %start.at
  %end.at = getelementptr i64, ptr %start.at, i64 1
  %end = load i64, ptr %end.at
  %slot = add i64 %slot.first, %w
  %cursor = getelementptr %sm, ptr %sm, i32 0, i32 1, i64 %slot
  store i64 %start, ptr %cursor
  %stop = getelementptr %sm, ptr %sm, i32 0, i32 2, i64 %slot
  store i64 %end, ptr %stop
  %asks = icmp ult i64 %start, %end
  %asks.wide = zext i1 %asks to i64
  %live.now = add i64 %live, %asks.wide
  %bit = shl i64 %asks.wide, %slot
  %mask = load i64, ptr %sm
  %mask.now = or i64 %mask, %bit
  store i64 %mask.now, ptr %sm
  %w.next = add i64 %w, 1
  %w.more = icmp ult i64 %w.next, %warps
  br i1 %w.more, label %warp, label %entered
entered:
  store i64 %live.now, ptr %left.at
  %idle = icmp eq i64 %live.now, 0
  br i1 %idle, label %take, label %leave
leave:
  ret void
}

; What becomes of a sector at the second level: the number of its outcome (see OUTCOMES).
define internal i64 @second_level(ptr %job, i64 %sector, i64 %line, i32 %valid, i64 %kind) {
entry:
  %l2.at = getelementptr %job, ptr %job, i32 0, i32 4
  %l2 = load ptr, ptr %l2.at
  %shadow.at = getelementptr %job, ptr %job, i32 0, i32 5
  %shadow = load ptr, ptr %shadow.at
  %writes = icmp uge i64 %kind, 2
  %dirty = shl i32 %valid, 4
  %dirty.if = select i1 %writes, i32 %dirty, i32 0
  %bits = or i32 %valid, %dirty.if
  %hit = call i1 @use(ptr %l2, i64 %line, i32 %bits)
  %hit.shadow = call i1 @use(ptr %shadow, i64 %line, i32 %valid)
  br i1 %hit, label %found, label %missed
found:
  ret i64 3
missed:
  %directory.at = getelementptr %job, ptr %job, i32 0, i32 6
  %directory = load ptr, ptr %directory.at
  %mask.at = getelementptr %job, ptr %job, i32 0, i32 7
  %mask = load i64, ptr %mask.at
  %touched.at = getelementptr %job, ptr %job, i32 0, i32 8
  %touched = load ptr, ptr %touched.at
  %before = call i1 @touch(ptr %directory, i64 %mask, ptr %touched, i64 %sector)
  %lost = select i1 %hit.shadow, i64 6, i64 5
  %read = select i1 %before, i64 %lost, i64 4
  %store = icmp eq i64 %kind, 2
  %outcome = select i1 %store, i64 7, i64 %read
  ret i64 %outcome
}

; One request of one warp; returns its sectors.
define internal i64 @request(ptr %job, ptr %sm, ptr %l1, i64 %slot) {
entry:
  %words = load ptr, ptr %job
  %kinds.at = getelementptr %job, ptr %job, i32 0, i32 1
  %kinds = load ptr, ptr %kinds.at
  %counts.at = getelementptr %job, ptr %job, i32 0, i32 2
  %counts = load ptr, ptr %counts.at
  %cursor.at = getelementptr %sm, ptr %sm, i32 0, i32 1, i64 %slot
  %cursor = load i64, ptr %cursor.at
  %header.at = getelementptr i64, ptr %words, i64 %cursor
  %header = load i64, ptr %header.at
  %count = and i64 %header, 255
  %site.shifted = lshr i64 %header, 8
  %site = and i64 %site.shifted, 65535
  %kind.at = getelementptr i8, ptr %kinds, i64 %site
  %kind.byte = load i8, ptr %kind.at
  %kind = zext i8 %kind.byte to i64
  %row = getelementptr [8 x i64], ptr %counts, i64 %site
  %requests = load i64, ptr %row
  %requests.now = add i64 %requests, 1
  store i64 %requests.now, ptr %row
  %sectors.at = getelementptr i64, ptr %row, i64 1
  %sectors = load i64, ptr %sectors.at
  %sectors.now = add i64 %sectors, %count
  store i64 %sectors.now, ptr %sectors.at
  %begin = add i64 %cursor, 1
  %end = add i64 %begin, %count
  store i64 %end, ptr %cursor.at
  br label %each
each:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %counted ]
  %sector.at = getelementptr i64, ptr %words, i64 %i
  %sector = load i64, ptr %sector.at
  %line = lshr i64 %sector, 2
  %which = trunc i64 %sector to i32
  %which.low = and i32 %which, 3
  %valid = shl i32 1, %which.low
  switch i64 %kind, label %below [ i64 0, label %first.level
                                   i64 3, label %atomic ]
first.level:
  %hit = call i1 @use(ptr %l1, i64 %line, i32 %valid)
  br i1 %hit, label %counted, label %below
atomic:
  call void @forget(ptr %l1, i64 %line, i32 %valid)
  br label %below
below:
  %deeper = call i64 @second_level(ptr %job, i64 %sector, i64 %line, i32 %valid, i64 %kind)
  br label %counted
counted:
  %outcome = phi i64 [ 2, %first.level ], [ %deeper, %below ]
  %outcome.at = getelementptr i64, ptr %row, i64 %outcome
  %outcomes = load i64, ptr %outcome.at
  %outcomes.now = add i64 %outcomes, 1
  store i64 %outcomes.now, ptr %outcome.at
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %end
  br i1 %more, label %each, label %done
done:
  ret i64 %count
}

; A warp has ended: so may its block have, whose place the next one takes.
define internal void @ended(ptr %job, ptr %sm, i64 %slot) {
entry:
  %bit = shl i64 1, %slot
  %others = xor i64 %bit, -1
  %mask = load i64, ptr %sm
  %mask.now = and i64 %mask, %others
  store i64 %mask.now, ptr %sm
  %warps.at = getelementptr %job, ptr %job, i32 0, i32 14
  %warps = load i64, ptr %warps.at
  %place = udiv i64 %slot, %warps
  %left.at = getelementptr %sm, ptr %sm, i32 0, i32 3, i64 %place
  %left = load i64, ptr %left.at
  %left.now = add i64 %left, -1
  store i64 %left.now, ptr %left.at
  %over = icmp eq i64 %left.now, 0
  br i1 %over, label %next, label %leave
next:
  call void @enter(ptr %job, ptr %sm, i64 %place)
  br label %leave
leave:
  ret void
}

; The first blocks: one to each multiprocessor in turn, until all places are taken.
define void @tw.cache.start(ptr %job) {
entry:
  %sms.at = getelementptr %job, ptr %job, i32 0, i32 9
  %sms = load ptr, ptr %sms.at
  %many.at = getelementptr %job, ptr %job, i32 0, i32 10
  %many = load i64, ptr %many.at
  %resident.at = getelementptr %job, ptr %job, i32 0, i32 15
  %resident = load i64, ptr %resident.at
  br label %place
place:
  %p = phi i64 [ 0, %entry ], [ %p.next, %place.end ]
  br label %sm
sm:
  %m = phi i64 [ 0, %place ], [ %m.next, %sm ]
  %at = getelementptr %sm, ptr %sms, i64 %m
  call void @enter(ptr %job, ptr %at, i64 %p)
  %m.next = add i64 %m, 1
  %m.more = icmp ult i64 %m.next, %many
  br i1 %m.more, label %sm, label %place.end
place.end:
  %p.next = add i64 %p, 1
  %p.more = icmp ult i64 %p.next, %resident
  br i1 %p.more, label %place, label %done
done:
  ret void
}

; Rounds, until `budget` sectors have been used; whether there is more to do. In a round each multiprocessor has its
; turn, and in a turn each of the warps that were live at its beginning makes one request.
define i64 @tw.cache.run(ptr %job, i64 %budget) {
entry:
  %l1s.at = getelementptr %job, ptr %job, i32 0, i32 3
  %l1s = load ptr, ptr %l1s.at
  %sms.at = getelementptr %job, ptr %job, i32 0, i32 9
  %sms = load ptr, ptr %sms.at
  %many.at = getelementptr %job, ptr %job, i32 0, i32 10
  %many = load i64, ptr %many.at
  br label %round
round:
  %used = phi i64 [ 0, %entry ], [ %used.turn, %round.end ]
  br label %turn
turn:
  %m = phi i64 [ 0, %round ], [ %m.next, %turn.end ]
  %used.before = phi i64 [ %used, %round ], [ %used.turn, %turn.end ]
  %sm = getelementptr %sm, ptr %sms, i64 %m
  %l1 = getelementptr %cache, ptr %l1s, i64 %m
  %live = load i64, ptr %sm
  br label %warp.test
warp.test:
  %left = phi i64 [ %live, %turn ], [ %left.now, %warp.end ]
  %used.turn = phi i64 [ %used.before, %turn ], [ %used.more, %warp.end ]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %turn.end, label %warp
warp:
  %slot = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %lower = add i64 %left, -1
  %left.now = and i64 %left, %lower
  %sectors = call i64 @request(ptr %job, ptr %sm, ptr %l1, i64 %slot)
  %used.more = add i64 %used.turn, %sectors
  %cursor.at = getelementptr %sm, ptr %sm, i32 0, i32 1, i64 %slot
  %cursor = load i64, ptr %cursor.at
  %stop.at = getelementptr %sm, ptr %sm, i32 0, i32 2, i64 %slot
  %stop = load i64, ptr %stop.at
  %over = icmp uge i64 %cursor, %stop
  br i1 %over, label %out, label %warp.end
out:
  call void @ended(ptr %job, ptr %sm, i64 %slot)
  br label %warp.end
warp.end:
  br label %warp.test
turn.end:
  %m.next = add i64 %m, 1
  %m.more = icmp ult i64 %m.next, %many
  br i1 %m.more, label %turn, label %round.end
round.end:
  %idle = icmp eq i64 %used.turn, %used
  %spent = icmp uge i64 %used.turn, %budget
  %stop.now = or i1 %idle, %spent
  br i1 %stop.now, label %done, label %round
done:
  %more = xor i1 %idle, true
  %more.wide = zext i1 %more to i64
  ret i64 %more.wide
}
"""

_SIGNATURES = {
    "tw.cache.count": (ctypes.c_int64, "pipiipip"),
    "tw.cache.place": (None, "pipp"),
    "tw.cache.start": (None, "p"),
    "tw.cache.run": (ctypes.c_int64, "pi"),
}
_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64}


@functools.cache
def compiled() -> Any:
    """The functions `count`, `place`, `start` and `run`, as ctypes calls them."""
    from tilewright.native.compiler import compiler

    code = compiler().compile(_LINES + _TOUCHED + _ORDER + _RUN, level=3, passes=2)
    library = compiler().link(code, tuple(_SIGNATURES))
    functions = {}
    for symbol, (result, arguments) in _SIGNATURES.items():
        prototype = ctypes.CFUNCTYPE(result, *(_TYPES[kind] for kind in arguments))
        functions[symbol.rpartition(".")[2]] = prototype(library.addresses[symbol])
    return SimpleNamespace(**functions, library=library)  # whoever holds the functions keeps their code loaded
