"""Copies of boxes and pixels with tensor maps: each running lane copies one and counts its bytes at an mbarrier."""

from __future__ import annotations

import functools

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import GLOBAL_BASE, OPERATIONS, TENSOR_IMAGES, TENSOR_OPERATION_SHIFT, TENSOR_STORES
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory import bulk, mbarriers, tensor_maps
from tilewright.simulate.translate.memory.access import CLUSTER, Access, base_offset, resolve
from tilewright.simulate.translate.memory.access_events import notify
from tilewright.simulate.translate.memory.clusters import Place, There

#: Alignment of a box in shared memory, in bytes.
_BOX_ALIGNMENT = 128
#: Places of arguments in scratch memory, in 64-bit slots of all lanes; the first two are an mbarrier's.
_AXES_MOST = 5
_MAPS, _PLACES, _BYTES, _CORNERS, _KEPT = 2, 3, 4, 5, 16


def emit_copy(emitter: Emitter, op: Op) -> None:
    """Copy one box for each running lane."""
    code, item, form = emitter.code, op.instruction, op.form
    if form.has("prefetch"):
        return
    stores = form.has("bulk_group")
    tensor, shared = item.operands[:2] if stores else item.operands[1::-1]
    rank = int(form["dim"][0])
    assert isinstance(tensor, tree.Address)
    corner = [x for c in tensor.coordinates for x in (c.items if isinstance(c, tree.Vector) else (c,))]
    if len(corner) != rank:
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' takes {rank} coordinates in braces after the "
            f"tensor map (got {len(corner)})"
        )
    given = item.operands[3] if form.row.counts else None
    offsets = given.items if isinstance(given, tree.Vector) else (tree.Immediate(0),) * (_AXES_MOST - 2)
    for axis, coordinate in enumerate((*corner, *offsets)):
        slot = f"getelementptr i8, ptr %lanes.scratch, i64 {_CORNERS * 8 * LANES + axis * 4 * LANES}"
        number = emitter.read(coordinate, "s32" if axis < rank else "b16")
        code.store(code.splat(code.resize(number, "i32", signed=False)), code.op(slot, "ptr").text)
    outer = emitter.mask
    maps = mbarriers.scratch(emitter, _MAPS, tensor_maps.pointers(emitter, op, tensor, "generic"))
    mask = item.operands[3 + bool(form.row.counts) :][:1]
    if form["place"] == CLUSTER and emitter.launch.clustered:
        bulk.to_blocks(emitter, op, (shared, item.operands[2], mask), functools.partial(_to_block, maps, rank))
        emitter.mask = bulk.copying(emitter, op, mask)
        _notify_pieces(emitter, op, rank, stores=False)  # global memory is read once for all blocks
        emitter.mask = outer
        return
    if form.has("multicast::cluster"):
        emitter.mask = code.and_(outer, bulk.here(emitter, mask[0]))
    base, offset, _ = resolve(emitter, item, shared, "shared")
    access = Access(op, "shared", base, offset, 1, "b128", not stores, True)
    start = code.add(base_offset(emitter, access, base=False), code.const("i64", offset))
    places = mbarriers.scratch(emitter, _PLACES, start)
    if stores and not form["op"]:
        emitter.mask = _distinct(emitter, maps, places, rank)
    number = _copy(emitter, op, maps, places, "ptr %shared")
    if not stores:
        mbarriers.emit_completion(emitter, op, item.operands[2], number)
    _notify_tensor(emitter, op, rank, stores=stores)
    _notify_pieces(emitter, op, rank, stores=stores)
    _notify_box(emitter, bulk.Side(access, start, places))
    sides = (_MAPS, _PLACES) if stores else (_PLACES, _MAPS)
    bulk.notify_copies(emitter, op, *sides, _BYTES, counted=not stores)
    emitter.mask = outer


def _to_block(maps: str, rank: int, emitter: Emitter, op: Op, target: Place, counter: Place, there: There) -> None:
    places = mbarriers.scratch(emitter, _PLACES, emitter.code.sub(target.offsets, emitter.code.splat(there.start)))
    number = _copy(emitter, op, maps, places, there.shared)
    mbarriers.complete(emitter, mbarriers.places_there(emitter, op, counter, there), there.shared, number)
    _notify_tensor(emitter, op, rank, stores=False)
    _notify_box(emitter, bulk.Side(target.access, target.offsets, places))
    bulk.notify_copies(emitter, op, _PLACES, _MAPS, _BYTES, counted=True)


def _distinct(emitter: Emitter, maps: str, places: str, rank: int) -> Value:
    """The lanes that store: one of those with equal operands, because a warp gives its copy unit one command.

    Source: CUTLASS, `sm90_epilogue_tma_warpspecialized.hpp`, where all lanes of one warp run a tile's store.
    """
    corners = emitter.code.op(mbarriers.slot(_CORNERS), "ptr")
    given = (str(emitter.mask), maps, places, str(corners), f"i32 {rank}")
    return Value(emitter.code.invoke("tw_tensor_distinct", "i32", *given), "i32")


def _copy(emitter: Emitter, op: Op, maps: str, places: str, shared: str) -> Value:
    """Move the boxes between the tensor and a block's shared memory; returns the bytes of each."""
    code, stores = emitter.code, op.form.has("bulk_group")
    sizes, corners = (code.op(mbarriers.slot(x), "ptr") for x in (_BYTES, _CORNERS))
    if emitter.instruments:  # they read the maps after the copy, which may write over them
        code.invoke("tw_tensor_keep", "void", emitter.mask, maps, code.op(mbarriers.slot(_KEPT), "ptr"))
    site = _sites(emitter, op.instruction, stores=stores)
    where = ("ptr %context", "ptr %warp", f"i32 {site}", emitter.mask, shared, maps, places)
    does = TENSOR_STORES * stores + TENSOR_IMAGES * (op.form.has("im2col") or op.form.has("im2col_no_offs"))
    does |= OPERATIONS.get(op.form["op"], 0) << TENSOR_OPERATION_SHIFT
    rest = (corners, sizes, f"i32 {op.form['dim'][0]}", f"i32 {does}", f"i64 {GLOBAL_BASE}")
    mbarriers.or_fault(emitter, "tw_tensor_copy", *where, *rest)
    return code.op(f"load <{LANES} x i32>, {sizes}, align 64", "i32", LANES)


def _notify_box(emitter: Emitter, box: bulk.Side) -> None:
    """Notify instruments of the side in a block's shared memory, piece by piece."""
    if emitter.instruments:
        sizes = emitter.code.op(mbarriers.slot(_BYTES), "ptr")
        bulk.notify_pieces(emitter, emitter.code.op(f"load <{LANES} x i32>, {sizes}, align 64", "i32", LANES), box)


def _notify_tensor(emitter: Emitter, op: Op, rank: int, *, stores: bool) -> None:
    """Notify instruments of the tensor's side as a whole; the event of the copy follows."""
    if not emitter.instruments:
        return
    code, item = emitter.code, op.instruction
    maps, corners = (code.op(mbarriers.slot(x), "ptr") for x in (_MAPS, _CORNERS))
    action = "atomic" if op.form["op"] else "store" if stores else "load"
    what = ("global", action, bulk.UNIT)
    source = emitter.source_of(item)
    site = Site(EventKind.TENSOR, item.ptx_line, source, item.name, 1, *what, asynchronous=stores)
    emitter.notify(site, lambda handler: f"{emitter.mask}, {maps}, {corners}, i32 {rank}")


def _notify_pieces(emitter: Emitter, op: Op, rank: int, *, stores: bool) -> None:
    """Notify instruments of the tensor's side piece by piece."""
    if not emitter.instruments:
        return
    code = emitter.code
    maps, corners = (code.op(mbarriers.slot(x), "ptr") for x in (_MAPS, _CORNERS))
    for type_ in ("b128", "b8"):
        access = Access(op, "global", tree.Immediate(0), 0, 1, type_, stores, False)
        bulk.each_part(emitter, functools.partial(_notify_part, emitter, access, (str(maps), str(corners)), rank))


def _notify_part(emitter: Emitter, access: Access, where: tuple[str, str], rank: int, lane: Value, done: str) -> Value:
    """Pieces of the width of an access; returns whether there may be more."""
    code = emitter.code
    arguments = (*where, lane, f"i32 {rank}", f"i32 {access.total_bytes}", f"ptr {done}", "ptr %addresses")
    emitter.mask = Value(code.invoke("tw_tensor_pieces", "i32", *arguments), "i32")
    some, notified = code.label("some"), code.label("notified")
    code.branch_if(code.icmp("ne", emitter.mask, code.const("i32", 0)), some, notified)
    code.place(some)
    addresses = code.op(f"load <{LANES} x i64>, ptr %addresses, align 64", "i64", LANES)
    notify(emitter, access, addresses, "atomic" if access.op.form["op"] else "")
    code.branch(notified)
    code.place(notified)
    return code.icmp("ne", code.op(f"load i64, ptr {done}", "i64"), code.const("i64", -1))


def _sites(emitter: Emitter, item: tree.Instruction, *, stores: bool) -> int:
    """Two consecutive sites: of the box in shared memory, and of the tensor."""
    source = emitter.source_of(item)
    actions = ("load", "store") if stores else ("store", "load")
    first, _ = (
        emitter.add_site(Site(EventKind.ACCESS, item.ptx_line, source, item.name, 1, space, action, alignment))
        for space, action, alignment in zip(("shared", "global"), actions, (_BOX_ALIGNMENT, 16), strict=True)
    )
    return first
