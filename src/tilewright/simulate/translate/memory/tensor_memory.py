"""The code of a warp for tensor memory: allocation, and moves between it, registers and shared memory.

Source: PTX ISA, 9.7.16.7 to 9.7.16.9 and 9.7.16.11. The runtime has the rules (`runtime/tensor_memory.c`).
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.isa.tensor_memory import WIDTHS, shape
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.state import MOVES, SHARED_WINDOW
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory import bulk, clusters, mbarriers
from tilewright.simulate.translate.memory.access import CLUSTER, Access, base_offset, resolve
from tilewright.simulate.translate.memory.access_events import notify
from tilewright.simulate.translate.memory.bounds import fault_unless, within
from tilewright.simulate.translate.memory.clusters import There

_REGISTER_BYTES = 4 * LANES
#: Bytes of the stored address of an allocation.
_ADDRESS_BYTES = 4


def emit(emitter: Emitter, op: Op) -> list[Value]:
    """Emit an instruction; returns the registers of a load."""
    form = op.form
    if form.row.counts is not None:
        return _move(emitter, op)
    if form.has("alloc") or form.has("wait::st"):
        emitter.event(EventKind.TENSOR_MEMORY, op.instruction, emitter.mask)
    if form.has("alloc"):
        _allocate(emitter, op)
    elif form.has("dealloc"):
        address, columns = (emitter.first_lane(emitter.read(operand, "b32")) for operand in op.sources)
        mbarriers.or_fault(emitter, "tw_columns_dealloc", *where(emitter, op), address, columns)
    elif form.has("relinquish_alloc_permit"):
        emitter.code.invoke("tw_columns_close", "void", "ptr %slot")
    elif form.has("cp"):
        _copy(emitter, op)
    elif form.has("commit"):
        _commit(emitter, op)
    return []


def address_of(emitter: Emitter, op: Op, operand: tree.Operand) -> Value:
    """An address of tensor memory in each lane."""
    base, offset, _ = resolve(emitter, op.instruction, operand, "tensor")
    return emitter.code.add(emitter.read(base, "b32"), emitter.code.const("i32", offset))


def where(emitter: Emitter, op: Op) -> tuple[object, ...]:
    """The first arguments of the runtime's functions."""
    site = emitter.add_site(site_of(emitter, op))
    return "ptr %context", "ptr %slot", "ptr %warp", f"i32 {site}", emitter.mask


def site_of(emitter: Emitter, op: Op) -> Site:
    """The instruction's site; it reads shared memory in units."""
    item = op.instruction
    return Site(EventKind.TENSOR_MEMORY, item.ptx_line, emitter.source_of(item), item.name, 1, "shared", "load", 16)


def _allocate(emitter: Emitter, op: Op) -> None:
    """The lowest running lane allocates columns and stores their address in shared memory."""
    code, outer = emitter.code, emitter.mask
    emitter.mask = code.and_(outer, code.sub(code.const("i32", 0), outer))
    base, offset, space = resolve(emitter, op.instruction, op.sources[0], "shared" if op.form["space"] else "generic")
    access = Access(op, "shared", base, offset, 1, "b32", True, False)
    window = SHARED_WINDOW if space == "generic" else 0
    places = code.splat(code.add(base_offset(emitter, access, base=False), code.const("i64", offset - window)))
    low = code.and_(places, code.const("i64", _ADDRESS_BYTES - 1))
    inside = within(emitter, "shared", places, code.const("i64", _ADDRESS_BYTES))
    fault_unless(emitter, access, code.and_(inside, code.icmp("eq", low, code.const("i64", 0))), places, window)
    columns = emitter.first_lane(emitter.read(op.sources[1], "b32"))
    if emitter.instruments:
        notify(emitter, access, places, "store")
    mbarriers.or_fault(emitter, "tw_columns_alloc", *where(emitter, op), columns, emitter.first_lane(places))
    emitter.mask = outer


def _move(emitter: Emitter, op: Op) -> list[Value]:
    """Move registers of all lanes together, active or not."""
    code, form, named = emitter.code, op.form, op.named
    number, does = form.row.emit(form)
    (count,) = form.lists.values()
    registers = [
        code.op(f"getelementptr i8, ptr %lanes.scratch, i64 {i * _REGISTER_BYTES}", "ptr") for i in range(count)
    ]
    if not form.row.writes:
        given = named["b"]
        assert isinstance(given, tree.Vector)
        for item, place in zip(given.items, registers, strict=True):
            code.store(code.splat(emitter.read(item, "b32")), place.text)
    address = emitter.first_lane(address_of(emitter, op, named["a"]))
    literal = _apart(emitter, op, named["apart"]) if "apart" in named else 0
    apart = code.const("i32", literal)
    halves, wide = bool(does & MOVES["halves"]), WIDTHS[shape(form)]
    columns = code.const("i32", count * wide * (1 + halves))
    arguments = (address, columns, code.const("i32", number), code.const("i32", literal), code.const("i32", does))
    emitter.event(EventKind.TENSOR_MOVE, op.instruction, emitter.mask, *arguments)
    facts = (address, "ptr %lanes.scratch", f"i32 {count}", f"i32 {number}", apart, f"i32 {does}")
    mbarriers.or_fault(emitter, "tw_columns_move", *where(emitter, op), *facts)
    if not form.row.writes:
        return []
    return [code.op(f"load <{LANES} x i32>, {place}, align 64", "i32", LANES) for place in registers]


def _apart(emitter: Emitter, op: Op, operand: tree.Operand) -> int:
    """The columns between the halves of a move."""
    if isinstance(operand, tree.Immediate) and operand.value >= 0:
        return min(operand.value, 1 << 16)
    raise PtxError(
        f"{emitter.module.path}:{op.instruction.ptx_line}: '{op.form.name}' takes a literal number of columns between "
        f"its halves (got {operand_text(operand)})"
    )


def _copy(emitter: Emitter, op: Op) -> None:
    """Each running lane copies lines of shared memory."""
    code, named = emitter.code, op.named
    places = code.op(mbarriers.slot(1), "ptr")
    code.store(code.splat(address_of(emitter, op, named["a"])), places.text)
    matrices = mbarriers.scratch(emitter, 2, emitter.read(named["matrix"], "b64"))
    paired = int(op.form["group"] == "cta_group::2")
    lines, bytes_, spread = (code.const("i32", number) for number in op.form.row.emit(op.form))
    emitter.event(
        EventKind.TENSOR_COPY, op.instruction, emitter.mask, places, Value(matrices[4:], "ptr"), lines, bytes_
    )
    mbarriers.or_fault(
        emitter, "tw_columns_copy", *where(emitter, op), places, matrices, lines, bytes_, spread, f"i32 {paired}"
    )


def _commit(emitter: Emitter, op: Op) -> None:
    """Products and copies of running lanes are complete: arrive at their mbarriers, or those of a mask of blocks."""
    outer, operand, masks = emitter.mask, op.sources[0], op.sources[1:]
    if not emitter.launch.clustered:
        if masks:
            emitter.mask = emitter.code.and_(outer, bulk.here(emitter, masks[0]))
        mbarriers.arrive(emitter, op, mbarriers.places_of(emitter, op, operand), "ptr %shared")
        emitter.mask = outer
        return
    named = CLUSTER if op.form["space"] else "generic"
    place = clusters.place_of(emitter, op, operand, "b64", store=True, named=named)
    ranks = clusters.ranks_in(emitter, place, masks[0]) if masks else clusters.ranks_of(emitter, place)

    def there(block: There) -> None:
        to = place
        if masks:  # the same place in each block
            low = emitter.code.and_(place.offsets, emitter.code.const("i64", clusters.OFFSET_MASK))
            to = replace(place, offsets=emitter.code.or_(low, emitter.code.splat(block.start)))
        mbarriers.arrive(emitter, op, mbarriers.places_there(emitter, op, to, block), block.shared)

    clusters.at_each(emitter, ranks, there)
