"""The runtime's part in barriers, as LLVM text: who has arrived where, and who goes on.

A barrier is its number. Lanes of a warp *reach* it, maybe at several instructions; the warp *arrives* when all its
lanes that have not exited have reached it, and counts as 32 threads then. Arrivals are counted one by one, as they
happen: the one that makes a barrier complete releases the warps that wait there and begins the barrier's next
generation, so a surplus arrival is the first of that. Without a count a barrier takes every warp that has not exited.

Source: PTX ISA, 9.7.13.1 (bar, barrier): an instruction makes a thread "wait for all non-exited threads from its warp
and marks warps' arrival at barrier"; 9.7.12.7 (exit): exiting threads release barriers that wait for all threads.
"""

from __future__ import annotations

from tilewright.simt.translate.records import context_field, field, set_context, set_field
from tilewright.simt.translate.state import (
    ARRIVE,
    BARRIER,
    BARRIER_BYTES,
    BARRIER_COUNT,
    BARRIER_COUNTS,
    BARRIER_FORMS,
    BARRIER_ID,
    BARRIER_IDS,
    BARRIER_REDUCED,
    BARRIERS,
    BLOCKED,
    POINT,
    POINT_BYTES,
    READY,
    REDUCE,
    SLOT,
    SLOT_BARRIERS,
    WARP,
    WARP_POINTS,
)


def barrier_ir() -> str:
    """The functions' text."""
    return _blame() + _check() + _reach() + _arrive() + _pass() + _join() + _complete() + _free() + _depart()


def _blame() -> str:
    """tw.blame(context, warp, site, lanes, kind, got, other): a barrier's rule is broken by these lanes."""
    return f"""
define void @tw.blame(ptr %context, ptr %warp, i32 %site, i32 %lanes, i64 %kind, i32 %got, i32 %other) noinline {{
  call void @tw.stop(ptr %context, ptr %warp, i32 %site, i32 %lanes, i64 %kind)
  %wide.got = zext i32 %got to i64
  %wide.other = zext i32 %other to i64
{set_context("fault_got", "i64 %wide.got", "a")}
{set_context("fault_other", "i64 %wide.other", "b")}
  ret void
}}
"""


def _check() -> str:
    """tw.check(context, warp, site, mask, id, count, counted): whether number or count are none that a barrier has."""
    return f"""
define internal i1 @tw.check(ptr %context, ptr %warp, i32 %site, i32 %mask, i32 %id, i32 %count,
                             i1 %counted) alwaysinline {{
entry:
  %known = icmp ult i32 %id, {BARRIERS}
  br i1 %known, label %size, label %number
size:
  %odd = and i32 %count, 31
  %ragged = icmp ne i32 %odd, 0
  %none = icmp eq i32 %count, 0
  %bad = or i1 %ragged, %none
  %wrong = and i1 %bad, %counted
  br i1 %wrong, label %threads, label %fine
fine:
  ret i1 false
number:
  call void @tw.blame(ptr %context, ptr %warp, i32 %site, i32 %mask, i64 {BARRIER_ID}, i32 %id, i32 0)
  ret i1 true
threads:
  call void @tw.blame(ptr %context, ptr %warp, i32 %site, i32 %mask, i64 {BARRIER_COUNT}, i32 %count, i32 0)
  ret i1 true
}}
"""


def _reach() -> str:
    """tw.reach(context, warp, point, site, mask, form, predicate, id, count, counted): lanes wait at a point.

    True when something is wrong. Lanes that wait here for another barrier already can never go on: nor can these.
    """
    return f"""
define i1 @tw.reach(ptr %context, ptr %warp, ptr %point, i32 %site, i32 %mask, i32 %form, i32 %predicate, i32 %id,
                    i32 %count, i1 %counted) {{
entry:
  %wrong = call i1 @tw.check(ptr %context, ptr %warp, i32 %site, i32 %mask, i32 %id, i32 %count, i1 %counted)
  br i1 %wrong, label %fault, label %look
look:
{field("blocked", "point", POINT["blocked"], "i32")}
{field("old.id", "point", POINT["id"], "i32")}
{field("old.count", "point", POINT["count"], "i32")}
{field("voted", "point", POINT["predicate"], "i32")}
  %alone = icmp eq i32 %blocked, 0
  %same.id = icmp eq i32 %id, %old.id
  %id.fine = or i1 %alone, %same.id
  br i1 %id.fine, label %compare, label %ids
compare:
  %same.count = icmp eq i32 %count, %old.count
  %count.fine = or i1 %alone, %same.count
  br i1 %count.fine, label %wait, label %counts
wait:
  %blocked1 = or i32 %blocked, %mask
  %voted1 = or i32 %voted, %predicate
{set_field("point", POINT["blocked"], "i32 %blocked1", "a")}
{set_field("point", POINT["predicate"], "i32 %voted1", "b")}
{set_field("point", POINT["id"], "i32 %id", "c")}
{set_field("point", POINT["count"], "i32 %count", "d")}
{set_field("point", POINT["form"], "i32 %form", "e")}
{set_field("point", POINT["site"], "i32 %site", "f")}
  ret i1 false
ids:
  call void @tw.blame(ptr %context, ptr %warp, i32 %site, i32 %mask, i64 {BARRIER_IDS}, i32 %id, i32 %old.id)
  ret i1 true
counts:
  call void @tw.blame(ptr %context, ptr %warp, i32 %site, i32 %mask, i64 {BARRIER_COUNTS}, i32 %count, i32 %old.count)
  ret i1 true
fault:
  ret i1 true
}}
"""


def _arrive() -> str:
    """tw.arrive(context, slot, warp): no lane of a blocked warp can run, so it arrives at its barrier.

    True when its lanes do not agree where, which they never will: each waits for all of them.
    """
    return f"""
define internal i1 @tw.arrive(ptr %context, ptr %slot, ptr %warp) {{
entry:
{context_field("points", "points")}
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %some = phi i1 [ false, %entry ], [ %some1, %next ]
  %id = phi i32 [ 0, %entry ], [ %id1, %next ]
  %count = phi i32 [ 0, %entry ], [ %count1, %next ]
  %form = phi i32 [ 0, %entry ], [ %form1, %next ]
  %site = phi i32 [ 0, %entry ], [ %site1, %next ]
  %votes = phi i32 [ 0, %entry ], [ %votes1, %next ]
  %voters = phi i32 [ 0, %entry ], [ %voters1, %next ]
  %at = mul i64 %i, {POINT_BYTES}
  %off = add i64 %at, {WARP_POINTS}
  %point = getelementptr i8, ptr %warp, i64 %off
{field("blocked", "point", POINT["blocked"], "i32")}
  %nobody = icmp eq i32 %blocked, 0
  br i1 %nobody, label %next, label %somebody
somebody:
{field("here.id", "point", POINT["id"], "i32")}
{field("here.count", "point", POINT["count"], "i32")}
{field("here.form", "point", POINT["form"], "i32")}
{field("here.site", "point", POINT["site"], "i32")}
{field("predicate", "point", POINT["predicate"], "i32")}
  %yes = call i32 @llvm.ctpop.i32(i32 %predicate)
  %lanes = call i32 @llvm.ctpop.i32(i32 %blocked)
  %votes.here = add i32 %votes, %yes
  %voters.here = add i32 %voters, %lanes
  %other.id = icmp ne i32 %here.id, %id
  %ids.differ = and i1 %some, %other.id
  br i1 %ids.differ, label %ids, label %judge
judge:
  %other.count = icmp ne i32 %here.count, %count
  %counts.differ = and i1 %some, %other.count
  br i1 %counts.differ, label %counts, label %judge.form
judge.form:
  %other.form = icmp ne i32 %here.form, %form
  %forms.differ = and i1 %some, %other.form
  br i1 %forms.differ, label %forms, label %next
next:
  %some1 = phi i1 [ %some, %each ], [ true, %judge.form ]
  %id1 = phi i32 [ %id, %each ], [ %here.id, %judge.form ]
  %count1 = phi i32 [ %count, %each ], [ %here.count, %judge.form ]
  %form1 = phi i32 [ %form, %each ], [ %here.form, %judge.form ]
  %site1 = phi i32 [ %site, %each ], [ %here.site, %judge.form ]
  %votes1 = phi i32 [ %votes, %each ], [ %votes.here, %judge.form ]
  %voters1 = phi i32 [ %voters, %each ], [ %voters.here, %judge.form ]
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %points
  br i1 %more, label %each, label %whole
whole:
{set_field("warp", WARP["barrier"], "i32 %id1", "w")}
  %goes.on = icmp eq i32 %form1, {ARRIVE}
  br i1 %goes.on, label %free, label %join
free:
  call void @tw.free(ptr %context, ptr %warp)
  br label %join
join:
  %wrong = call i1 @tw.join(ptr %context, ptr %slot, ptr %warp, i32 %site1, i32 %id1, i32 %count1, i32 %form1,
                            i32 %votes1, i32 %voters1)
  ret i1 %wrong
ids:
  call void @tw.blame(ptr %context, ptr %warp, i32 %here.site, i32 %blocked, i64 {BARRIER_IDS}, i32 %here.id, i32 %id)
  ret i1 true
counts:
  call void @tw.blame(ptr %context, ptr %warp, i32 %here.site, i32 %blocked, i64 {BARRIER_COUNTS}, i32 %here.count,
                      i32 %count)
  ret i1 true
forms:
  call void @tw.blame(ptr %context, ptr %warp, i32 %here.site, i32 %blocked, i64 {BARRIER_FORMS}, i32 %id, i32 0)
  ret i1 true
}}
"""


def _pass() -> str:
    """tw.pass(context, slot, warp, site, mask, id, count): a warp whose lanes are all here arrives and goes on."""
    return f"""
define i1 @tw.pass(ptr %context, ptr %slot, ptr %warp, i32 %site, i32 %mask, i32 %id, i32 %count) {{
entry:
  %wrong = call i1 @tw.check(ptr %context, ptr %warp, i32 %site, i32 %mask, i32 %id, i32 %count, i1 true)
  br i1 %wrong, label %fault, label %join
join:
  %failed = call i1 @tw.join(ptr %context, ptr %slot, ptr %warp, i32 %site, i32 %id, i32 %count, i32 {ARRIVE}, i32 0,
                             i32 0)
  ret i1 %failed
fault:
  ret i1 true
}}
"""


def _join() -> str:
    """tw.join(context, slot, warp, site, id, count, form, votes, voters): a warp adds its arrival to a generation.

    Its count must be the generation's; none agrees with that of all warps of the block, and stays none.
    """
    return f"""
define internal i1 @tw.join(ptr %context, ptr %slot, ptr %warp, i32 %site, i32 %id, i32 %count, i32 %form, i32 %votes,
                   i32 %voters) alwaysinline {{
entry:
{context_field("warps", "warps")}
  %id.wide = zext i32 %id to i64
  %at = mul i64 %id.wide, {BARRIER_BYTES}
  %off = add i64 %at, {SLOT_BARRIERS}
  %barrier = getelementptr i8, ptr %slot, i64 %off
{field("arrived", "barrier", BARRIER["arrived"], "i32")}
{field("old.count", "barrier", BARRIER["count"], "i32")}
{field("joined", "barrier", BARRIER["joined"], "i32")}
{field("forms", "barrier", BARRIER["forms"], "i32")}
{field("old.votes", "barrier", BARRIER["votes"], "i32")}
{field("old.voters", "barrier", BARRIER["voters"], "i32")}
{field("old.site", "barrier", BARRIER["site"], "i32")}
{field("live", "warp", WARP["live"], "i32")}
{field("index", "warp", WARP["index"], "i32")}
  %begun = icmp ne i32 %arrived, 0
  %warps32 = trunc i64 %warps to i32
  %all = mul i32 %warps32, 32
  %open = icmp eq i32 %count, 0
  %takes = select i1 %open, i32 %all, i32 %count
  %old.open = icmp eq i32 %old.count, 0
  %took = select i1 %old.open, i32 %all, i32 %old.count
  %other = icmp ne i32 %takes, %took
  %differ = and i1 %begun, %other
  br i1 %differ, label %counts, label %mix
mix:
  %forms1 = or i32 %forms, %form
  %reduces = icmp uge i32 %forms1, {REDUCE}
  %plain = icmp ne i32 %forms1, {REDUCE}
  %mixed = and i1 %reduces, %plain
  br i1 %mixed, label %reduced, label %add
add:
  %common = and i32 %count, %old.count
  %count1 = select i1 %begun, i32 %common, i32 %count
  %site1 = select i1 %begun, i32 %old.site, i32 %site
  %arrived1 = add i32 %arrived, 32
  %votes1 = add i32 %old.votes, %votes
  %voters1 = add i32 %old.voters, %voters
  %bit = shl i32 1, %index
  %joined1 = or i32 %joined, %bit
{set_field("barrier", BARRIER["arrived"], "i32 %arrived1", "a")}
{set_field("barrier", BARRIER["count"], "i32 %count1", "b")}
{set_field("barrier", BARRIER["joined"], "i32 %joined1", "c")}
{set_field("barrier", BARRIER["forms"], "i32 %forms1", "d")}
{set_field("barrier", BARRIER["votes"], "i32 %votes1", "e")}
{set_field("barrier", BARRIER["voters"], "i32 %voters1", "f")}
{set_field("barrier", BARRIER["site"], "i32 %site1", "g")}
  call void @tw.complete(ptr %context, ptr %slot, i64 %id.wide)
  ret i1 false
counts:
  call void @tw.blame(ptr %context, ptr %warp, i32 %site, i32 %live, i64 {BARRIER_COUNTS}, i32 %count, i32 %old.count)
  ret i1 true
reduced:
  call void @tw.blame(ptr %context, ptr %warp, i32 %site, i32 %live, i64 {BARRIER_REDUCED}, i32 %id, i32 0)
  ret i1 true
}}
"""


def _complete() -> str:
    """tw.complete(context, slot, id): when a barrier's threads have arrived, release who waits and begin it anew."""
    return f"""
define internal void @tw.complete(ptr %context, ptr %slot, i64 %id) alwaysinline {{
entry:
  %at = mul i64 %id, {BARRIER_BYTES}
  %off = add i64 %at, {SLOT_BARRIERS}
  %barrier = getelementptr i8, ptr %slot, i64 %off
{context_field("warps", "warps")}
{context_field("bytes", "warp_bytes")}
{field("records", "slot", SLOT["warp_records"], "ptr")}
{field("gone", "slot", SLOT["gone"])}
{field("arrived", "barrier", BARRIER["arrived"], "i32")}
{field("count", "barrier", BARRIER["count"], "i32")}
{field("joined", "barrier", BARRIER["joined"], "i32")}
{field("votes", "barrier", BARRIER["votes"], "i32")}
{field("voters", "barrier", BARRIER["voters"], "i32")}
  %begun = icmp ne i32 %arrived, 0
  %enough = icmp uge i32 %arrived, %count
  %over = shl i64 1, %warps
  %every = sub i64 %over, 1
  %joined.wide = zext i32 %joined to i64
  %present = or i64 %joined.wide, %gone
  %none.left = icmp eq i64 %present, %every
  %open = icmp eq i32 %count, 0
  %full = select i1 %open, i1 %none.left, i1 %enough
  %complete = and i1 %begun, %full
  br i1 %complete, label %begin, label %out
begin:
  call void @llvm.memset.p0.i64(ptr %barrier, i8 0, i64 {BARRIER_BYTES}, i1 false)
  %id32 = trunc i64 %id to i32
  br label %each
each:
  %i = phi i64 [ 0, %begin ], [ %i1, %next ]
  %place = mul i64 %i, %bytes
  %warp = getelementptr i8, ptr %records, i64 %place
{field("status", "warp", WARP["status"], "i32")}
{field("where", "warp", WARP["barrier"], "i32")}
  %waits = icmp eq i32 %status, {BLOCKED}
  %here = icmp eq i32 %where, %id32
  %member = and i1 %waits, %here
  br i1 %member, label %free, label %next
free:
{set_field("warp", WARP["votes"], "i32 %votes", "a")}
{set_field("warp", WARP["voters"], "i32 %voters", "b")}
  call void @tw.free(ptr %context, ptr %warp)
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %warps
  br i1 %more, label %each, label %out
out:
  ret void
}}
"""


def _free() -> str:
    """tw.free(context, warp): all lanes of a warp that wait at points may go on."""
    return f"""
define internal void @tw.free(ptr %context, ptr %warp) {{
entry:
{context_field("points", "points")}
{set_field("warp", WARP["status"], f"i32 {READY}", "s")}
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %at = mul i64 %i, {POINT_BYTES}
  %off = add i64 %at, {WARP_POINTS}
  %point = getelementptr i8, ptr %warp, i64 %off
{field("blocked", "point", POINT["blocked"], "i32")}
  %nobody = icmp eq i32 %blocked, 0
  br i1 %nobody, label %next, label %somebody
somebody:
{field("ready", "point", POINT["ready"], "i32")}
  %ready1 = or i32 %ready, %blocked
{set_field("point", POINT["ready"], "i32 %ready1", "a")}
{set_field("point", POINT["blocked"], "i32 0", "b")}
{set_field("point", POINT["predicate"], "i32 0", "c")}
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %points
  br i1 %more, label %each, label %out
out:
  ret void
}}
"""


def _depart() -> str:
    """tw.depart(context, slot, warp): a warp has exited, and barriers no longer wait for it."""
    return f"""
define internal void @tw.depart(ptr %context, ptr %slot, ptr %warp) {{
entry:
{field("gone", "slot", SLOT["gone"])}
{field("index", "warp", WARP["index"], "i32")}
  %wide = zext i32 %index to i64
  %bit = shl i64 1, %wide
  %gone1 = or i64 %gone, %bit
{set_field("slot", SLOT["gone"], "i64 %gone1", "a")}
  br label %each
each:
  %id = phi i64 [ 0, %entry ], [ %id1, %each ]
  call void @tw.complete(ptr %context, ptr %slot, i64 %id)
  %id1 = add i64 %id, 1
  %more = icmp ult i64 %id1, {BARRIERS}
  br i1 %more, label %each, label %out
out:
  ret void
}}
"""
