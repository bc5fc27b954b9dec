"""The requests of a launch in LLVM: which memory they touch, and those of one warp put together."""

from __future__ import annotations

#: Which sectors the launch has touched: a directory of regions of 65,536 sectors (open addressing), and a bit a sector.
TOUCHED = """
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

; Mark sectors of a line, which lie in one word of bits; which of them were marked.
define internal i32 @touch(ptr %directory, i64 %mask, ptr %touched, i64 %line, i32 %sectors) {
  %sector = shl i64 %line, 2
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
  %wide = zext i32 %sectors to i64
  %bits = shl i64 %wide, %in.word
  %word.now = or i64 %word, %bits
  store i64 %word.now, ptr %word.at
  %here = and i64 %word, %bits
  %before.wide = lshr i64 %here, %in.word
  %before = trunc i64 %before.wide to i32
  ret i32 %before
}
"""

#: First pass: how many words each warp has, and the directory. Returns 0, or 1 where the directory is full, or 2 where
#: a request is none. Second pass: every request to its warp's place.
ORDER = """
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
