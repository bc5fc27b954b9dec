"""The code of a warp at a bulk copy: check both sides, move the bytes, and count them at the mbarrier.

Source: PTX ISA, 9.7.9.25.4 (cp.async.bulk).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import ELEMENT_TYPES, GLOBAL_BASE, OPERATIONS
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import CLUSTER, Access, arena, base_offset, limit, resolve
from tilewright.simulate.translate.memory.access_events import event_site, notify
from tilewright.simulate.translate.memory.clusters import (
    OFFSET_MASK,
    Place,
    There,
    at_each,
    place_of,
    ranks_in,
    ranks_of,
)
from tilewright.simulate.translate.memory.mbarriers import (
    complete,
    emit_completion,
    or_fault,
    places_there,
    scratch,
    slot,
)

#: Places and sizes must be multiples of this.
UNIT = 16
#: Places in scratch memory: the mbarrier and its bytes, and the runtime's arguments of a copy; and counters, after the
#: runtime's arguments of a tensor's copy.
_, _BYTES, _TARGET, _ORIGIN, _MASKS = range(5)
_LEFT = 8


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a copy: the lanes' offsets in an arena."""

    access: Access
    offsets: Value
    slot: str  #: The offsets in scratch memory, as an argument.
    action: str = ""  #: The site's access, if it is neither a load nor a store.


def emit(emitter: Emitter, op: Op) -> None:
    """Copy, for the lanes that run, to the blocks of the cluster that their masks name."""
    code, form, outer = emitter.code, op.form, emitter.mask
    parts = form.name.split(".")
    size = emitter.read(op.sources[2], "u32")
    of_block = bool(form["op"]) or "shared::cta" in parts[4:5]
    origin = _side(emitter, op, 1, "shared" if of_block else "global", _ORIGIN)
    check(emitter, origin, scratch(emitter, _BYTES, size), limit(emitter, origin.access.space))
    if CLUSTER in parts[3:5] and emitter.launch.clustered:
        operands = op.sources[0], op.sources[3], op.sources[4:5]
        to_blocks(emitter, op, operands, functools.partial(_to_block, size, origin))
        if emitter.instruments and not of_block:  # global memory is read once for all blocks
            emitter.mask = copying(emitter, op, op.sources[4:5])
            notify_pieces(emitter, size, origin)
            emitter.mask = outer
        return
    if form.has("multicast::cluster"):
        emitter.mask = code.and_(outer, here(emitter, op.sources[4]))
    to_global = form.has("bulk_group")
    target = _side(emitter, op, 0, "global" if to_global else "shared", _TARGET)
    _copy(emitter, op, size, origin, target, f"ptr {arena(emitter, target.access.space)}")
    if not to_global:
        emit_completion(emitter, op, op.sources[3], size)
    notify_copies(emitter, op, _TARGET, _ORIGIN, _BYTES, counted=not to_global)
    emitter.mask = outer


def to_blocks(
    emitter: Emitter,
    op: Op,
    operands: tuple[tree.Operand, tree.Operand, Sequence[tree.Operand]],
    copy: Callable[[Emitter, Op, Place, Place, There], None],
) -> None:
    """Copy to each block of the cluster: that which the address names, or those in the mask of blocks.

    `operands` are the target, the mbarrier, and the mask, if there is one; `copy` gets both places in one block.
    """
    code = emitter.code
    target, counter = (place_of(emitter, op, operand, "b128", store=True) for operand in operands[:2])
    mask = operands[2] if op.form.has("multicast::cluster") else ()
    named = ranks_in(emitter, target, mask[0]) if mask else ranks_of(emitter, target)

    def to(there: There) -> None:
        places = [target, replace(counter, access=replace(counter.access, type="b64"))]
        if mask:  # the same place in each block
            low = code.const("i64", OFFSET_MASK)
            places = [replace(p, offsets=code.or_(code.and_(p.offsets, low), code.splat(there.start))) for p in places]
        copy(emitter, op, places[0], places[1], there)

    at_each(emitter, named, to)


def _to_block(size: Value, origin: Side, emitter: Emitter, op: Op, target: Place, counter: Place, there: There) -> None:
    relative = emitter.code.sub(target.offsets, emitter.code.splat(there.start))
    action = "atomic" if op.form["op"] else ""
    side = Side(target.access, target.offsets, scratch(emitter, _TARGET, relative), action)
    origin = replace(origin, slot=scratch(emitter, _ORIGIN, origin.offsets))
    _copy(emitter, op, size, origin, side, there.shared)
    complete(emitter, places_there(emitter, op, counter, there), there.shared, size)
    notify_copies(emitter, op, _TARGET, _ORIGIN, _BYTES, counted=True)


def _copy(emitter: Emitter, op: Op, size: Value, origin: Side, target: Side, to: str) -> None:
    """Move the bytes; `to` is the start of the target's arena."""
    code, bytes_, masks = emitter.code, scratch(emitter, _BYTES, size), "ptr null"
    check(emitter, target, bytes_, limit(emitter, target.access.space))
    if op.form.has("cp_mask"):
        masks = scratch(emitter, _MASKS, code.resize(emitter.read(op.sources[-1], "b16"), "i32", signed=False))
    if emitter.instruments:
        once = emitter.launch.clustered and CLUSTER in op.form.name.split(".")[3:5] and origin.access.space == "global"
        notify_pieces(emitter, size, *(() if once else (origin,)), target)
    places = (to, target.slot, f"ptr {arena(emitter, origin.access.space)}", origin.slot)
    if op.form["op"]:
        how = f"i32 {OPERATIONS[op.form['op']]}", f"i32 {ELEMENT_TYPES[op.form['type']]}"
        code.invoke("tw_bulk_combine", "void", emitter.mask, *places, bytes_, *how)
    else:
        code.invoke("tw_bulk_move", "void", emitter.mask, *places, bytes_, masks)


def notify_copies(emitter: Emitter, op: Op, target: int, origin: int, size: int, *, counted: bool) -> None:
    """Notify instruments of copies, by the slots of scratch memory; `counted`: at the mbarriers in slot 0."""
    if not emitter.instruments:
        return
    item = op.instruction
    slots = [str(Value(emitter.code.op(slot(number), "ptr").text, "ptr")) for number in (target, origin, size, 0)]
    arguments = ", ".join([str(emitter.mask), *slots[:3], slots[3] if counted else "ptr null"])
    source = emitter.source_of(item)
    site = Site(EventKind.BULK, item.ptx_line, source, item.name, 1, "shared", "copy", UNIT, asynchronous=True)
    emitter.notify(site, lambda handler: arguments)


def copying(emitter: Emitter, op: Op, masks: Sequence[tree.Operand]) -> Value:
    """The lanes that copy to some block: in a multicast, those with a mask that is not empty."""
    code = emitter.code
    if not op.form.has("multicast::cluster"):
        return emitter.mask
    some = code.icmp("ne", emitter.read(masks[0], "b16"), code.const("i16", 0))
    return code.and_(emitter.mask, code.mask_bits(some))


def here(emitter: Emitter, mask: tree.Operand) -> Value:
    """The lanes whose mask of blocks names this one, where it is a cluster of its own, of rank 0."""
    code = emitter.code
    ranks = emitter.read(mask, "b16")
    return code.mask_bits(code.icmp("ne", code.and_(ranks, code.const("i16", 1)), code.const("i16", 0)))


def _side(emitter: Emitter, op: Op, source: int, space: str, number: int) -> Side:
    base, offset, _ = resolve(emitter, op.instruction, op.sources[source], space)
    access = Access(op, space, base, offset, 1, "b128", source == 0, False)
    offsets = emitter.code.splat(
        emitter.code.add(base_offset(emitter, access, base=False), emitter.code.const("i64", offset))
    )
    return Side(access, offsets, scratch(emitter, number, offsets), "atomic" if op.form["op"] and source == 0 else "")


def check(emitter: Emitter, side: Side, bytes_: str, bound: Value, unit: int = UNIT) -> None:
    """Leave with a fault where a lane's bytes are outside an arena, or are not a multiple of a unit."""
    start = GLOBAL_BASE if side.access.space == "global" else 0
    site = emitter.add_site(event_site(emitter, side.access))
    where = ("ptr %context", "ptr %warp", f"i32 {site}", emitter.mask)
    or_fault(emitter, "tw_bulk_outside", *where, bound, f"i64 {start}", side.slot, bytes_, f"i32 {unit}")


def each_part(emitter: Emitter, part: Callable[[Value, str], Value], behind: int = _LEFT) -> None:
    """Emit `part` for each running lane, repeated while it returns true.

    `part` gets the lane's number and the place of a 64-bit counter, which is 0 at the lane's start. `after` is the
    first of two unused slots of scratch memory.
    """
    code, outer = emitter.code, emitter.mask
    left, done = (code.op(slot(number), "ptr").text for number in (behind, behind + 1))
    code.put(outer, left)
    each, lanes, again, following, notified = (code.label(x) for x in ("each", "lane", "part", "following", "notified"))
    code.branch(each)
    code.place(each)
    waiting = code.op(f"load i32, ptr {left}", "i32")
    code.branch_if(code.icmp("eq", waiting, code.const("i32", 0)), notified, lanes)
    code.place(lanes)
    code.put(code.and_(waiting, code.sub(waiting, code.const("i32", 1))), left)
    code.put(code.const("i64", 0), done)
    lane = code.call("llvm.cttz", "i32", waiting, flags="i1 true")
    code.branch(again)
    code.place(again)
    code.branch_if(part(lane, done), again, following)
    code.place(following)
    code.branch(each)
    code.place(notified)
    emitter.mask = outer


def notify_pieces(emitter: Emitter, size: Value, *sides: Side, unit: int = UNIT) -> None:
    """Notify instruments of each lane's bytes, 512 at a time, as if each lane of the warp moved 16 of them."""
    code = emitter.code

    def part(lane: Value, done: str) -> Value:
        of_lane = code.cast("zext", code.lane(size, lane), "i64")
        before = code.op(f"load i64, ptr {done}", "i64")
        at = code.add(code.splat(before), code.constants("i64", [unit * i for i in range(LANES)]))
        emitter.mask = code.mask_bits(code.icmp("ult", at, code.splat(of_lane)))
        for side in sides:
            start = GLOBAL_BASE if side.access.space == "global" else 0
            base = code.add(code.lane(side.offsets, lane), code.const("i64", start))
            notify(emitter, side.access, code.add(code.splat(base), at), side.action)
        after = code.add(before, code.const("i64", unit * LANES))
        code.put(after, done)
        return code.icmp("ult", after, of_lane)

    each_part(emitter, part)
