"""The lines of caches in LLVM: found by hashing, kept in the order of use, replaced when their set is full."""

from __future__ import annotations

#: Lines of a region: lines are numbered region by region as they are first asked for, see `cache_requests`.
REGION_BITS = 14

#: Equal caches, such as the first levels of all multiprocessors, keep their lines in one array of nodes, which they
#: take as they need them, and find them by one table of buckets: small launches then touch little memory. The first
#: nodes stand for the sets, cache by cache: `next` is the line used last, `prev` the one used longest ago, and the last
#: word how many of the set's ways are taken. In a line's last word, bits 0 to 3 are its valid sectors, 4 to 7 the dirty
#: ones, and above them is the number of its set's node. `chain` links the nodes of one bucket, 0 ends it. A tag is a
#: line's number, and above it that of the cache.
LINES = f"""
%node = type {{ i64, i32, i32, i32, i32 }}              ; tag, prev, next, chain, set and state
%cache = type {{ ptr, ptr, i64, i64, i64, i64, i64, i64, i64 }}
; nodes, buckets, sets, their mask (-1: none), ways, shift, nodes taken, sectors written back, sectors that became dirty

declare i32 @llvm.ctpop.i32(i32)
declare i64 @llvm.cttz.i64(i64, i1)

define internal ptr @bucket(ptr %cache, i64 %tag) alwaysinline {{
  %buckets.at = getelementptr %cache, ptr %cache, i32 0, i32 1
  %buckets = load ptr, ptr %buckets.at
  %shift.at = getelementptr %cache, ptr %cache, i32 0, i32 5
  %shift = load i64, ptr %shift.at
  %mixed = mul i64 %tag, -7046029254386353131         ; 2^64 over the golden ratio: Knuth, TAOCP 3, 6.4
  %number = lshr i64 %mixed, %shift
  %bucket = getelementptr i32, ptr %buckets, i64 %number
  ret ptr %bucket
}}

; The node of a line, or 0.
define internal i32 @find(ptr %nodes, ptr %bucket, i64 %tag) alwaysinline {{
entry:
  %first = load i32, ptr %bucket
  br label %look
look:
  %n = phi i32 [ %first, %entry ], [ %after, %other ]
  %none = icmp eq i32 %n, 0
  br i1 %none, label %leave, label %compare
compare:
  %node = getelementptr %node, ptr %nodes, i32 %n
  %there = load i64, ptr %node
  %same = icmp eq i64 %there, %tag
  br i1 %same, label %leave, label %other
other:
  %chain = getelementptr %node, ptr %node, i32 0, i32 3
  %after = load i32, ptr %chain
  br label %look
leave:
  ret i32 %n
}}

define internal void @unlink(ptr %nodes, ptr %node) alwaysinline {{
  %prev.at = getelementptr %node, ptr %node, i32 0, i32 1
  %prev = load i32, ptr %prev.at
  %next.at = getelementptr %node, ptr %node, i32 0, i32 2
  %next = load i32, ptr %next.at
  %prev.next = getelementptr %node, ptr %nodes, i32 %prev, i32 2
  store i32 %next, ptr %prev.next
  %next.prev = getelementptr %node, ptr %nodes, i32 %next, i32 1
  store i32 %prev, ptr %next.prev
  ret void
}}

define internal void @put_first(ptr %nodes, i32 %n, ptr %node, i32 %set) alwaysinline {{
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
}}

; Take the line used longest ago out of a full set; its dirty sectors are written back.
define internal i32 @evict(ptr %cache, ptr %nodes, i32 %set) noinline {{
entry:
  %last.at = getelementptr %node, ptr %nodes, i32 %set, i32 1
  %n = load i32, ptr %last.at
  %node = getelementptr %node, ptr %nodes, i32 %n
  %state.at = getelementptr %node, ptr %node, i32 0, i32 4
  %state = load i32, ptr %state.at
  %dirty = and i32 %state, 240
  %count = call i32 @llvm.ctpop.i32(i32 %dirty)
  %more = zext i32 %count to i64
  %written.at = getelementptr %cache, ptr %cache, i32 0, i32 7
  %written = load i64, ptr %written.at
  %written.now = add i64 %written, %more
  store i64 %written.now, ptr %written.at
  call void @unlink(ptr %nodes, ptr %node)
  %tag = load i64, ptr %node
  %bucket = call ptr @bucket(ptr %cache, i64 %tag)
  br label %walk
walk:
  %link = phi ptr [ %bucket, %entry ], [ %link.next, %further ]
  %m = load i32, ptr %link
  %found = icmp eq i32 %m, %n
  br i1 %found, label %cut, label %further
further:
  %link.next = getelementptr %node, ptr %nodes, i32 %m, i32 3
  br label %walk
cut:
  %chain = getelementptr %node, ptr %node, i32 0, i32 3
  %rest = load i32, ptr %chain
  store i32 %rest, ptr %link
  ret i32 %n
}}

; So many more sectors have become dirty, as bits 4 to 7 tell.
define internal void @soil(ptr %cache, i32 %bits) alwaysinline {{
entry:
  %dirty = and i32 %bits, 240
  %none = icmp eq i32 %dirty, 0
  br i1 %none, label %leave, label %add
add:
  %count = call i32 @llvm.ctpop.i32(i32 %dirty)
  %more = zext i32 %count to i64
  %soiled.at = getelementptr %cache, ptr %cache, i32 0, i32 8
  %soiled = load i64, ptr %soiled.at
  %soiled.now = add i64 %soiled, %more
  store i64 %soiled.now, ptr %soiled.at
  br label %leave
leave:
  ret void
}}

; The set of a line of one of the caches. A mask needs no more of the line's number than a region leaves as it is.
define internal i32 @set(ptr %cache, i64 %number, ptr %homes, i64 %line) alwaysinline {{
entry:
  %sets.at = getelementptr %cache, ptr %cache, i32 0, i32 2
  %sets = load i64, ptr %sets.at
  %mask.at = getelementptr %cache, ptr %cache, i32 0, i32 3
  %mask = load i64, ptr %mask.at
  %masked = and i64 %line, %mask
  %any = icmp slt i64 %mask, 0
  br i1 %any, label %divide, label %leave
divide:
  %region = lshr i64 %line, {REGION_BITS}
  %home.at = getelementptr i64, ptr %homes, i64 %region
  %home = load i64, ptr %home.at
  %low = and i64 %line, {(1 << REGION_BITS) - 1}
  %whole = or i64 %home, %low
  %left = urem i64 %whole, %sets
  br label %leave
leave:
  %within = phi i64 [ %masked, %entry ], [ %left, %divide ]
  %before = mul i64 %number, %sets
  %wide = add i64 %before, %within
  %set = trunc i64 %wide to i32
  ret i32 %set
}}

; A node for a line that is not there, as the first of its set and of its bucket.
define internal void @allocate(ptr %cache, ptr %nodes, ptr %bucket, i64 %tag, i32 %set, i32 %bits) alwaysinline {{
entry:
  %ways.at = getelementptr %cache, ptr %cache, i32 0, i32 4
  %ways = load i64, ptr %ways.at
  %taken.at = getelementptr %node, ptr %nodes, i32 %set, i32 4
  %taken = load i32, ptr %taken.at
  %taken.wide = zext i32 %taken to i64
  %room = icmp ult i64 %taken.wide, %ways
  br i1 %room, label %fresh, label %full
fresh:
  %taken.now = add i32 %taken, 1
  store i32 %taken.now, ptr %taken.at
  %new.at = getelementptr %cache, ptr %cache, i32 0, i32 6
  %new.wide = load i64, ptr %new.at
  %new.next = add i64 %new.wide, 1
  store i64 %new.next, ptr %new.at
  %new = trunc i64 %new.wide to i32
  br label %fill
full:
  %old = call i32 @evict(ptr %cache, ptr %nodes, i32 %set)
  br label %fill
fill:
  %n = phi i32 [ %new, %fresh ], [ %old, %full ]
  %node = getelementptr %node, ptr %nodes, i32 %n
  store i64 %tag, ptr %node
  %high = shl i32 %set, 8
  %state.now = or i32 %high, %bits
  %state = getelementptr %node, ptr %node, i32 0, i32 4
  store i32 %state.now, ptr %state
  call void @soil(ptr %cache, i32 %bits)
  %rest = load i32, ptr %bucket
  %chain = getelementptr %node, ptr %node, i32 0, i32 3
  store i32 %rest, ptr %chain
  store i32 %n, ptr %bucket
  call void @put_first(ptr %nodes, i32 %n, ptr %node, i32 %set)
  ret void
}}

define internal i64 @tag(i64 %number, i64 %line) alwaysinline {{
  %high = shl i64 %number, 44
  %tag = or i64 %high, %line
  ret i64 %tag
}}

; Use sectors of a line: `bits` are their valid bits, and their dirty bits where they are written. Returns which of them
; were there, as valid bits.
define internal i32 @use(ptr %cache, i64 %number, ptr %homes, i64 %line, i32 %bits) alwaysinline {{
entry:
  %nodes = load ptr, ptr %cache
  %tag = call i64 @tag(i64 %number, i64 %line)
  %bucket = call ptr @bucket(ptr %cache, i64 %tag)
  %n = call i32 @find(ptr %nodes, ptr %bucket, i64 %tag)
  %absent = icmp eq i32 %n, 0
  br i1 %absent, label %miss, label %present
present:
  %node = getelementptr %node, ptr %nodes, i32 %n
  %state.at = getelementptr %node, ptr %node, i32 0, i32 4
  %state = load i32, ptr %state.at
  %state.now = or i32 %state, %bits
  store i32 %state.now, ptr %state.at
  %fresh = xor i32 %state.now, %state
  call void @soil(ptr %cache, i32 %fresh)
  %valid = and i32 %bits, 15
  %were.here = and i32 %state, %valid
  %prev.at = getelementptr %node, ptr %node, i32 0, i32 1
  %prev = load i32, ptr %prev.at
  %set.here = lshr i32 %state, 8
  %first = icmp eq i32 %prev, %set.here
  br i1 %first, label %leave, label %move
move:
  call void @unlink(ptr %nodes, ptr %node)
  call void @put_first(ptr %nodes, i32 %n, ptr %node, i32 %set.here)
  br label %leave
miss:
  %set = call i32 @set(ptr %cache, i64 %number, ptr %homes, i64 %line)
  call void @allocate(ptr %cache, ptr %nodes, ptr %bucket, i64 %tag, i32 %set, i32 %bits)
  br label %leave
leave:
  %were = phi i32 [ %were.here, %present ], [ %were.here, %move ], [ 0, %miss ]
  ret i32 %were
}}

; Forget sectors, where they are there.
define internal void @forget(ptr %cache, i64 %number, i64 %line, i32 %bits) {{
entry:
  %nodes = load ptr, ptr %cache
  %tag = call i64 @tag(i64 %number, i64 %line)
  %bucket = call ptr @bucket(ptr %cache, i64 %tag)
  %n = call i32 @find(ptr %nodes, ptr %bucket, i64 %tag)
  %absent = icmp eq i32 %n, 0
  br i1 %absent, label %leave, label %present
present:
  %state.at = getelementptr %node, ptr %nodes, i32 %n, i32 4
  %state = load i32, ptr %state.at
  %others = xor i32 %bits, -1
  %state.now = and i32 %state, %others
  store i32 %state.now, ptr %state.at
  br label %leave
leave:
  ret void
}}
"""
