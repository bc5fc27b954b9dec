"""The lines of one cache in LLVM: found by hashing, kept in the order of use, replaced when their set is full."""

from __future__ import annotations

#: A cache keeps its lines in nodes. The first `sets` of them stand for the sets: `next` is the line used last, `prev`
#: the one used longest ago, `state` how many of the set's ways are taken. In a line's `state`, bits 0 to 3 are its
#: valid sectors and bits 4 to 7 the dirty ones. `chain` links the nodes of one hash bucket, 0 ends it.
LINES = """
%node = type { i64, i32, i32, i32, i32, i32, i32 }    ; line, prev, next, state, chain, set
%cache = type { ptr, ptr, i64, i64, i64, i64, i64 }
; nodes, buckets, sets, ways, shift, sectors written back, sectors that became dirty

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

; So many more sectors have become dirty, as bits 4 to 7 tell.
define internal void @soil(ptr %cache, i32 %bits) alwaysinline {
entry:
  %dirty = lshr i32 %bits, 4
  %none = icmp eq i32 %dirty, 0
  br i1 %none, label %leave, label %add
add:
  %count = call i32 @llvm.ctpop.i32(i32 %dirty)
  %more = zext i32 %count to i64
  %soiled.at = getelementptr %cache, ptr %cache, i32 0, i32 6
  %soiled = load i64, ptr %soiled.at
  %soiled.now = add i64 %soiled, %more
  store i64 %soiled.now, ptr %soiled.at
  br label %leave
leave:
  ret void
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
  %way.after = add i64 %taken.wide, 1                  ; node = sets + way * sets + set: neighbours lie side by side
  %way.start = mul i64 %way.after, %sets
  %new.wide = add i64 %way.start, %set.wide
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
  call void @soil(ptr %cache, i32 %bits)
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

; Use sectors of a line: `bits` are their valid bits, and their dirty bits where they are written. Returns which of them
; were there, as valid bits.
define internal i32 @use(ptr %cache, i64 %line, i32 %bits) {
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
  %fresh = xor i32 %state.now, %state
  call void @soil(ptr %cache, i32 %fresh)
  %valid = and i32 %bits, 15
  %were = and i32 %state, %valid
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
  ret i32 %were
miss:
  call void @allocate(ptr %cache, i64 %line, i32 %bits)
  ret i32 0
}

; Forget sectors, where they are there.
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
