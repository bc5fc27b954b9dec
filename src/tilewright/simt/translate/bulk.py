"""What a warp's code does at a bulk copy: check both sides, move the bytes, and tell the mbarrier of them.

Source: PTX ISA, 9.7.9.25.4 (cp.async.bulk).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.simt.events import EventKind, Site
from tilewright.simt.translate.access import Access, arena, base_offset, limit, resolve
from tilewright.simt.translate.access_events import event_site, notify
from tilewright.simt.translate.code import LANES, Value
from tilewright.simt.translate.emitter import Emitter
from tilewright.simt.translate.graph import Op
from tilewright.simt.translate.mbarriers import emit_completion, or_fault, scratch, slot
from tilewright.simt.translate.state import GLOBAL_BASE

#: Bytes of which places and sizes are multiples.
_UNIT = 16
#: Places in scratch memory: of the mbarrier and its bytes, of what the runtime takes of a copy, and of counters.
_, _BYTES, _TARGET, _ORIGIN, _MASKS, _LEFT, _DONE = range(7)


@dataclass(frozen=True, slots=True)
class _Side:
    """Where lanes' bytes lie on one side of a copy: offsets in an arena."""

    access: Access
    offsets: Value
    slot: str  #: The offsets in scratch memory, as an argument.


def emit(emitter: Emitter, op: Op) -> None:
    """Copy, for the lanes that run and of which the mask of blocks names this one."""
    code, form, outer = emitter.code, op.form, emitter.mask
    if form.has("multicast::cluster"):
        emitter.mask = code.and_(outer, _here(emitter, op))
    size = emitter.read(op.sources[2], "u32")
    bytes_ = scratch(emitter, _BYTES, size)
    to_global = form.has("bulk_group")
    origin = _side(emitter, op, 1, "shared" if "shared::cta" in form.name.split(".")[4:5] else "global", _ORIGIN)
    target = _side(emitter, op, 0, "global" if to_global else "shared", _TARGET)
    for side in (origin, target):
        _check(emitter, side, bytes_)
    masks = "ptr null"
    if form.has("cp_mask"):
        masks = scratch(emitter, _MASKS, code.resize(emitter.read(op.sources[-1], "b16"), "i32", signed=False))
    places = [f"ptr {arena(emitter, target.access.space)}", target.slot]
    places += [f"ptr {arena(emitter, origin.access.space)}", origin.slot]
    if emitter.instruments:
        _tell_pieces(emitter, size, origin, target)
    code.invoke("tw_bulk_move", "void", emitter.mask, *places, bytes_, masks)
    if not to_global:
        emit_completion(emitter, op, op.sources[3], size)
    tell(emitter, op, _TARGET, _ORIGIN, _BYTES, counted=not to_global)
    emitter.mask = outer


def tell(emitter: Emitter, op: Op, target: int, origin: int, size: int, *, counted: bool) -> None:
    """Notify instruments of copies, by the slots of scratch memory; `counted`: the mbarriers in slot 0 were told."""
    if not emitter.instruments:
        return
    item = op.instruction
    slots = [str(Value(emitter.code.op(slot(number), "ptr").text, "ptr")) for number in (target, origin, size, 0)]
    arguments = ", ".join([str(emitter.mask), *slots[:3], slots[3] if counted else "ptr null"])
    source = emitter.source_of(item)
    site = Site(EventKind.BULK, item.ptx_line, source, item.name, 1, "shared", "copy", _UNIT, asynchronous=True)
    emitter.notify(site, lambda handler: arguments)


def _here(emitter: Emitter, op: Op) -> Value:
    """The lanes that copy to this block: a cluster is one, of rank 0."""
    code = emitter.code
    ranks = emitter.read(op.sources[4], "b16")
    return code.mask_bits(code.icmp("ne", code.and_(ranks, code.const("i16", 1)), code.const("i16", 0)))


def _side(emitter: Emitter, op: Op, source: int, space: str, number: int) -> _Side:
    base, offset, _ = resolve(emitter, op.instruction, op.sources[source], space)
    access = Access(op, space, base, offset, 1, "b128", source == 0, False)
    offsets = emitter.code.splat(
        emitter.code.add(base_offset(emitter, access, base=False), emitter.code.const("i64", offset))
    )
    return _Side(access, offsets, scratch(emitter, number, offsets))


def _check(emitter: Emitter, side: _Side, bytes_: str) -> None:
    start = GLOBAL_BASE if side.access.space == "global" else 0
    site = emitter.add_site(event_site(emitter, side.access))
    where = ("ptr %context", "ptr %warp", f"i32 {site}", emitter.mask)
    or_fault(emitter, "tw_bulk_outside", *where, limit(emitter, side.access.space), f"i64 {start}", side.slot, bytes_)


def _tell_pieces(emitter: Emitter, size: Value, origin: _Side, target: _Side) -> None:
    """Notify instruments of both sides of each lane's copy, 512 bytes at a time, as if each lane moved 16 of them."""
    code, outer = emitter.code, emitter.mask
    left, done = (code.op(slot(number), "ptr").text for number in (_LEFT, _DONE))
    code.put(outer, left)
    each, lanes, part, following, told = (code.label(name) for name in ("each", "lane", "part", "following", "told"))
    code.branch(each)
    code.place(each)
    waiting = code.op(f"load i32, ptr {left}", "i32")
    code.branch_if(code.icmp("eq", waiting, code.const("i32", 0)), told, lanes)
    code.place(lanes)
    code.put(code.and_(waiting, code.sub(waiting, code.const("i32", 1))), left)
    code.put(code.const("i32", 0), done)
    index = code.call("llvm.cttz", "i32", waiting, flags="i1 true")
    of_lane = code.lane(size, index)
    starts = [code.lane(side.offsets, index) for side in (origin, target)]
    code.branch(part)
    code.place(part)
    before = code.op(f"load i32, ptr {done}", "i32")
    at = code.add(code.splat(before), code.constants("i32", [_UNIT * i for i in range(LANES)]))
    emitter.mask = code.mask_bits(code.icmp("ult", at, code.splat(of_lane)))
    for side, start in zip((origin, target), starts, strict=True):
        base = code.add(start, code.const("i64", GLOBAL_BASE if side.access.space == "global" else 0))
        notify(emitter, side.access, code.add(code.splat(base), code.cast("zext", at, "i64")))
    after = code.add(before, code.const("i32", _UNIT * LANES))
    code.put(after, done)
    code.branch_if(code.icmp("ult", after, of_lane), part, following)
    code.place(following)
    code.branch(each)
    code.place(told)
    emitter.mask = outer
