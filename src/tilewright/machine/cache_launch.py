"""A launch before the caches in LLVM: blocks on multiprocessors, warps in turns, and what becomes of each sector.

Least-recently-used order over ten million sectors is no work for Python. `machine/cache.py` states the model and lays
out the records that this code works on: requests are counted by warp (`count`), put in the order of warps (`place`),
and then `start` and `run` let the multiprocessors make them.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tilewright.machine.cache_lines import LINES
from tilewright.machine.cache_requests import ORDER
from tilewright.native.once import once

#: Fields of a launch's record, one 64-bit word each, in the order in which `machine/cache.py` fills them.
JOB = (
    "words", "kinds", "counts", "first", "second", "shadow", "homes", "known", "sms", "many", "starts", "blocks",
    "next", "warps", "resident", "soiled",
)  # fmt: skip
_POINTERS = ("words", "kinds", "counts", "first", "second", "shadow", "homes", "known", "sms", "starts")


def _field(name: str) -> str:
    """LLVM text that sets `%NAME` to a field of the job, and `%NAME.at` to where it is."""
    kind = "ptr" if name in _POINTERS else "i64"
    return f"""  %{name}.at = getelementptr i64, ptr %job, i64 {JOB.index(name)}
  %{name} = load {kind}, ptr %{name}.at"""


def _fields(*names: str) -> str:
    return "\n".join(map(_field, names))


#: The launch: blocks on multiprocessors, and what becomes of each sector. Of the job: requests in the order of warps,
#: kinds of sites, counts; first levels, second level and its shadow (0: nothing is ever replaced); first lines of
#: regions; what is known of a line, a byte each (bits 0 to 3: sectors that the launch has touched, 4 to 7: of a second
#: level that replaces nothing, the dirty ones); multiprocessors and how many; starts of warps; blocks, the next one,
#: warps a block, blocks a multiprocessor; how many sectors of a second level that replaces nothing became dirty.
_RUN = f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare i64 @llvm.umin.i64(i64, i64)

%sm = type {{ i64, [64 x i64], [64 x i64], [64 x i64] }}
; live warps (a bit each), where each stands, where it ends; live warps of each block

; Put the next block that asks for anything into a place of a multiprocessor.
define internal void @enter(ptr %job, ptr %sm, i64 %place) {{
entry:
{_fields("starts", "blocks", "warps")}
  %next.at = getelementptr i64, ptr %job, i64 {JOB.index("next")}
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
}}

; Count sectors of a line for an outcome of a site (see OUTCOMES); their sum, the second, is the caller's to make.
define internal void @tally(ptr %row, i64 %outcome, i32 %sectors) alwaysinline {{
  %count = call i32 @llvm.ctpop.i32(i32 %sectors)
  %more = zext i32 %count to i64
  %at = getelementptr i64, ptr %row, i64 %outcome
  %old = load i64, ptr %at
  %now = add i64 %old, %more
  store i64 %now, ptr %at
  ret void
}}

; Which sectors of a line are found at the second level, whose lines are replaced; those that only its shadow has,
; which is fully associative, in bits 4 to 7.
define internal i32 @replaced(ptr %job, i64 %line, i32 %valid, i1 %writes) {{
{_fields("second", "shadow", "homes")}
  %dirty = shl i32 %valid, 4
  %dirty.if = select i1 %writes, i32 %dirty, i32 0
  %bits = or i32 %valid, %dirty.if
  %in.l2 = call i32 @use(ptr %second, i64 0, ptr %homes, i64 %line, i32 %bits)
  %in.shadow = call i32 @use(ptr %shadow, i64 0, ptr %homes, i64 %line, i32 %valid)
  %high = shl i32 %in.shadow, 4
  %both = or i32 %in.l2, %high
  ret i32 %both
}}

; What becomes of sectors of a line at the second level.
define internal void @second_level(ptr %job, i1 %endless, ptr %known, i64 %line, i32 %valid, i64 %kind, ptr %row)
    alwaysinline {{
entry:
  %state.at = getelementptr i8, ptr %known, i64 %line
  %state.byte = load i8, ptr %state.at
  %state = zext i8 %state.byte to i32
  %before = and i32 %state, %valid
  %writes = icmp uge i64 %kind, 2
  %dirty.all = shl i32 %valid, 4
  %dirty = select i1 %writes, i32 %dirty.all, i32 0
  %bits = or i32 %valid, %dirty
  %state.now = or i32 %state, %bits
  %state.now.byte = trunc i32 %state.now to i8
  store i8 %state.now.byte, ptr %state.at
  br i1 %endless, label %everything, label %lines
everything:                                           ; what was touched is there
  br i1 %writes, label %soil, label %judge
soil:
  %others = xor i32 %state, -1
  %fresh = and i32 %dirty, %others
  %soiled.row = getelementptr i64, ptr %job, i64 {JOB.index("soiled")}
  call void @tally(ptr %soiled.row, i64 0, i32 %fresh)
  br label %judge
lines:
  %both = call i32 @replaced(ptr %job, i64 %line, i32 %valid, i1 %writes)
  %in.l2 = and i32 %both, 15
  %in.shadow = lshr i32 %both, 4
  br label %judge
judge:
  %found = phi i32 [ %before, %everything ], [ %before, %soil ], [ %in.l2, %lines ]
  %kept = phi i32 [ 0, %everything ], [ 0, %soil ], [ %in.shadow, %lines ]
  call void @tally(ptr %row, i64 3, i32 %found)
  %missed = xor i32 %valid, %found
  %none = icmp eq i32 %missed, 0
  br i1 %none, label %leave, label %missing
missing:
  %store = icmp eq i64 %kind, 2
  br i1 %store, label %allocated, label %read
allocated:
  call void @tally(ptr %row, i64 7, i32 %missed)
  br label %leave
read:
  %again = and i32 %missed, %before
  %first = xor i32 %missed, %again
  call void @tally(ptr %row, i64 4, i32 %first)
  %new = icmp eq i32 %again, 0
  br i1 %new, label %leave, label %lost
lost:
  %conflict = and i32 %again, %kept
  %capacity = xor i32 %again, %conflict
  call void @tally(ptr %row, i64 5, i32 %capacity)
  call void @tally(ptr %row, i64 6, i32 %conflict)
  br label %leave
leave:
  ret void
}}

; One request of a warp of multiprocessor `m`, at a word; returns the word after it.
define internal i64 @request(ptr %job, ptr %words, ptr %kinds, ptr %counts, ptr %first, ptr %homes, ptr %known,
                             i1 %endless, i64 %m, i64 %cursor) alwaysinline {{
entry:
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
  %begin = add i64 %cursor, 1
  %end = add i64 %begin, %count
  br label %each
each:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %counted ]
  %word.at = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %word.at
  %line = lshr i64 %word, 4
  %word.low = trunc i64 %word to i32
  %valid = and i32 %word.low, 15
  switch i64 %kind, label %below [ i64 0, label %first.level
                                   i64 3, label %atomic ]
first.level:
  %found = call i32 @use(ptr %first, i64 %m, ptr %homes, i64 %line, i32 %valid)
  call void @tally(ptr %row, i64 2, i32 %found)
  %missed = xor i32 %valid, %found
  %all.found = icmp eq i32 %missed, 0
  br i1 %all.found, label %counted, label %below
atomic:
  call void @forget(ptr %first, i64 %m, i64 %line, i32 %valid)
  br label %below
below:
  %deeper = phi i32 [ %valid, %each ], [ %missed, %first.level ], [ %valid, %atomic ]
  call void @second_level(ptr %job, i1 %endless, ptr %known, i64 %line, i32 %deeper, i64 %kind, ptr %row)
  br label %counted
counted:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %end
  br i1 %more, label %each, label %done
done:
  ret i64 %end
}}

; Have the buckets of a request's first two lines fetched. A turn does so for all its warps, which takes a third off the
; model's time: the table of buckets is what it waits for.
define internal void @foresee(ptr %words, ptr %first, i64 %m, i64 %cursor) alwaysinline {{
  %header.at = getelementptr i64, ptr %words, i64 %cursor
  %header = load i64, ptr %header.at
  %count = and i64 %header, 255
  %one = getelementptr i64, ptr %header.at, i64 1
  %few = call i64 @llvm.umin.i64(i64 %count, i64 2)
  %two = getelementptr i64, ptr %header.at, i64 %few
  call void @foresee_line(ptr %one, ptr %first, i64 %m)
  call void @foresee_line(ptr %two, ptr %first, i64 %m)
  ret void
}}

define internal void @foresee_line(ptr %at, ptr %first, i64 %m) alwaysinline {{
  %word = load i64, ptr %at
  %line = lshr i64 %word, 4
  %tag = call i64 @tag(i64 %m, i64 %line)
  %bucket = call ptr @bucket(ptr %first, i64 %tag)
  call void @llvm.prefetch.p0(ptr %bucket, i32 0, i32 3, i32 1)
  ret void
}}

; A warp has ended: so may its block have, whose place the next one takes.
define internal void @ended(ptr %job, ptr %sm, i64 %slot) {{
entry:
  %bit = shl i64 1, %slot
  %others = xor i64 %bit, -1
  %mask = load i64, ptr %sm
  %mask.now = and i64 %mask, %others
  store i64 %mask.now, ptr %sm
{_fields("warps")}
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
}}

; The first blocks: one to each multiprocessor in turn, until all places are taken.
define void @tw.cache.start(ptr %job) {{
entry:
{_fields("sms", "many", "resident")}
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
}}

; Rounds, until `budget` words have been read; whether there is more to do. In a round each multiprocessor has its
; turn, and in a turn each of the warps that were live at its beginning makes one request.
define i64 @tw.cache.run(ptr %job, i64 %budget) {{
entry:
{_fields("words", "kinds", "counts", "first", "second", "homes", "known", "sms", "many")}
  %endless = icmp eq ptr %second, null
  br label %round
round:
  %used = phi i64 [ 0, %entry ], [ %used.turn, %round.end ]
  br label %turn
turn:
  %m = phi i64 [ 0, %round ], [ %m.next, %turn.end ]
  %used.before = phi i64 [ %used, %round ], [ %used.turn, %turn.end ]
  %sm = getelementptr %sm, ptr %sms, i64 %m
  %live = load i64, ptr %sm
  br label %ahead.test
ahead.test:
  %to.see = phi i64 [ %live, %turn ], [ %to.see.now, %ahead ]
  %seen = icmp eq i64 %to.see, 0
  br i1 %seen, label %warp.test, label %ahead
ahead:
  %ahead.slot = call i64 @llvm.cttz.i64(i64 %to.see, i1 true)
  %to.see.lower = add i64 %to.see, -1
  %to.see.now = and i64 %to.see, %to.see.lower
  %ahead.cursor.at = getelementptr %sm, ptr %sm, i32 0, i32 1, i64 %ahead.slot
  %ahead.cursor = load i64, ptr %ahead.cursor.at
  call void @foresee(ptr %words, ptr %first, i64 %m, i64 %ahead.cursor)
  br label %ahead.test
warp.test:
  %left = phi i64 [ %live, %ahead.test ], [ %left.now, %warp.end ]
  %used.turn = phi i64 [ %used.before, %ahead.test ], [ %used.more, %warp.end ]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %turn.end, label %warp
warp:
  %slot = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %lower = add i64 %left, -1
  %left.now = and i64 %left, %lower
  %cursor.at = getelementptr %sm, ptr %sm, i32 0, i32 1, i64 %slot
  %cursor = load i64, ptr %cursor.at
  %after = call i64 @request(ptr %job, ptr %words, ptr %kinds, ptr %counts, ptr %first, ptr %homes, ptr %known,
                             i1 %endless, i64 %m, i64 %cursor)
  store i64 %after, ptr %cursor.at
  %length = sub i64 %after, %cursor
  %used.more = add i64 %used.turn, %length
  %stop.at = getelementptr %sm, ptr %sm, i32 0, i32 2, i64 %slot
  %stop = load i64, ptr %stop.at
  %over = icmp uge i64 %after, %stop
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
}}
"""

_SIGNATURES = {
    "tw.cache.count": (ctypes.c_int64, "pipii"),
    "tw.cache.place": (ctypes.c_int64, "pipppipp"),
    "tw.cache.start": (None, "p"),
    "tw.cache.run": (ctypes.c_int64, "pi"),
}
_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64}


def code() -> bytes:
    """The model's machine code, kept on disk from one process to the next: compiling it takes a tenth of a second."""
    from tilewright.native import store, upkeep
    from tilewright.native.compiler import compiler

    text = LINES + ORDER + _RUN
    folder = store.room(upkeep.TRANSLATIONS)
    key = store.digest(store.fingerprint(os.fspath(Path(store.__file__).parent)), compiler().identity, text)
    kept = store.read(folder, key, lambda header: None)
    if kept is not None:
        return kept[1]
    made = compiler().compile(text, level=3, passes=2)
    store.write(folder, key, {}, made)
    return made


@once
def compiled() -> Any:
    """The functions `count`, `place`, `start` and `run`, as ctypes calls them."""
    from tilewright.native.compiler import compiler

    library = compiler().link(code(), tuple(_SIGNATURES))
    functions = {}
    for symbol, (result, arguments) in _SIGNATURES.items():
        prototype = ctypes.CFUNCTYPE(result, *(_TYPES[kind] for kind in arguments))
        functions[symbol.rpartition(".")[2]] = prototype(library.addresses[symbol])
    return SimpleNamespace(**functions, library=library)  # whoever holds the functions keeps their code loaded
