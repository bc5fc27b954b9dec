"""The requests of a launch in LLVM: those of one warp put together, and their lines numbered."""

from __future__ import annotations

from tilewright.machine.cache_lines import REGION_BITS

#: Bits of a word below its region: those of the line in it, and of the line's sectors.
_LOW_BITS = REGION_BITS + 4

#: First pass, `count`: how many words each warp has; 0, or 1 where a request is none. Second pass, `place`: every
#: request to its warp's place, with the numbers of regions in their order of appearance instead of their own, so that
#: what is known of lines is a plain array; 0, or 1 where the directory of regions (open addressing) is half full.
ORDER = f"""
%slot = type {{ i64, i64 }}                             ; region + 1 (0: free), its number

define i64 @tw.cache.count(ptr %words, i64 %n, ptr %sizes, i64 %warps, i64 %sites) {{
entry:
  br label %request.test
request.test:
  %i = phi i64 [ 0, %entry ], [ %end, %sized ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %request, label %done
request:
  %header.at = getelementptr i64, ptr %words, i64 %i
  %header = load i64, ptr %header.at
  %count = and i64 %header, 255
  %site.shifted = lshr i64 %header, 8
  %site = and i64 %site.shifted, 65535
  %warp = lshr i64 %header, 24
  %size.more = add i64 %count, 1
  %end = add i64 %i, %size.more
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
  %size.now = add i64 %size, %size.more
  store i64 %size.now, ptr %size.at
  br label %request.test
done:
  ret i64 0
wrong:
  ret i64 1
}}

; The place of a region in the directory: its own, or the free one that it may take.
define internal ptr @region(ptr %directory, i64 %mask, i64 %region) alwaysinline {{
entry:
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
}}

define i64 @tw.cache.place(ptr %words, i64 %n, ptr %places, ptr %sorted, ptr %directory, i64 %mask, ptr %homes,
                           ptr %regions) {{
entry:
  %half = lshr i64 %mask, 1
  br label %request.test
request.test:
  %i = phi i64 [ 0, %entry ], [ %i.next, %placed ]
  %last = phi i64 [ -1, %entry ], [ %region, %placed ]
  %last.base = phi i64 [ 0, %entry ], [ %base, %placed ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %request, label %done
request:
  %header.at = getelementptr i64, ptr %words, i64 %i
  %header = load i64, ptr %header.at
  %count = and i64 %header, 255
  %warp = lshr i64 %header, 24
  %place.at = getelementptr i64, ptr %places, i64 %warp
  %place = load i64, ptr %place.at
  %to = getelementptr i64, ptr %sorted, i64 %place
  store i64 %header, ptr %to
  br label %word
word:
  %w = phi i64 [ 1, %request ], [ %w.next, %known ]
  %before = phi i64 [ %last, %request ], [ %region, %known ]
  %base.before = phi i64 [ %last.base, %request ], [ %base, %known ]
  %from.word = getelementptr i64, ptr %header.at, i64 %w
  %old = load i64, ptr %from.word
  %region = lshr i64 %old, {_LOW_BITS}
  %same = icmp eq i64 %region, %before
  br i1 %same, label %known, label %other
other:
  %slot = call ptr @region(ptr %directory, i64 %mask, i64 %region)
  %number.at = getelementptr %slot, ptr %slot, i32 0, i32 1
  %key = load i64, ptr %slot
  %new = icmp eq i64 %key, 0
  br i1 %new, label %enter, label %numbered
enter:
  %taken = load i64, ptr %regions
  %full = icmp uge i64 %taken, %half
  br i1 %full, label %crowded, label %write
write:
  %key.new = add i64 %region, 1
  store i64 %key.new, ptr %slot
  store i64 %taken, ptr %number.at
  %taken.now = add i64 %taken, 1
  store i64 %taken.now, ptr %regions
  %home = shl i64 %region, {REGION_BITS}
  %home.at = getelementptr i64, ptr %homes, i64 %taken
  store i64 %home, ptr %home.at
  br label %numbered
numbered:
  %number = load i64, ptr %number.at
  %base.new = shl i64 %number, {_LOW_BITS}
  br label %known
known:
  %base = phi i64 [ %base.before, %word ], [ %base.new, %numbered ]
  %low = and i64 %old, {(1 << _LOW_BITS) - 1}
  %now = or i64 %base, %low
  %to.word = getelementptr i64, ptr %to, i64 %w
  store i64 %now, ptr %to.word
  %w.next = add i64 %w, 1
  %w.more = icmp ule i64 %w.next, %count
  br i1 %w.more, label %word, label %placed
placed:
  %length = add i64 %count, 1
  %place.next = add i64 %place, %length
  store i64 %place.next, ptr %place.at
  %i.next = add i64 %i, %length
  br label %request.test
done:
  ret i64 0
crowded:
  ret i64 1
}}
"""
