"""The code of a warp at a read of a texture, and at a read or write of a surface: it calls the runtime."""

from __future__ import annotations

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.isa.textures import AXES, COORDINATES
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import GLOBAL_BASE, TEXTURES
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory import mbarriers

#: Places of arguments in scratch memory, in 64-bit slots of all lanes.
_HANDLES, _COORDINATES, _VALUES = 0, 1, 4


def emit_read(emitter: Emitter, op: Op) -> list[Value]:
    """The four values that each lane reads of a texture."""
    form = op.form
    geometry = _geometry(op) | TEXTURES["integers"] * (form["ctype"] == "s32")
    if form["component"]:
        number = "rgba".index(form["component"]) << TEXTURES["gather_shift"]
        geometry |= TEXTURES["gathers"] | number
    where = _where(emitter, op, op.instruction.operands[1], "s32" if form["ctype"] == "s32" else "f32", 1)
    values = emitter.code.op(mbarriers.slot(_VALUES), "ptr")
    mbarriers.or_fault(emitter, "tw_texture_read", *where, values, f"i32 {geometry}", f"i64 {GLOBAL_BASE}")
    return _values(emitter, 4)


def emit_surface(emitter: Emitter, op: Op) -> list[Value]:
    """Read or write an element of a surface for each lane; returns the elements read."""
    form, item, stores = op.form, op.instruction, not op.form.row.writes
    count = int(form["vec"][1:] or 1)
    does = int(form["type"][1:]) // 8 | count << TEXTURES["surface_count_shift"] | TEXTURES["surface_stores"] * stores
    does |= TEXTURES.get(f"surface_{form['clamp']}", 0)
    if stores:
        given = item.operands[1]
        for index, operand in enumerate(given.items if isinstance(given, tree.Vector) else (given,)):
            value = emitter.read(operand, form["type"])
            mbarriers.scratch(emitter, _VALUES + index, emitter.code.resize(value, "i64", signed=False))
    where = _where(emitter, op, item.operands[0 if stores else 1], "s32", int(form["type"][1:]) // 8 * count)
    values = emitter.code.op(mbarriers.slot(_VALUES), "ptr")
    rest = (values, f"i32 {_geometry(op)}", f"i32 {does}", f"i64 {GLOBAL_BASE}")
    mbarriers.or_fault(emitter, "tw_surface_access", *where, *rest)
    return [] if stores else _values(emitter, count)


def _geometry(op: Op) -> int:
    name = op.form["geom"]
    return AXES[name] | TEXTURES["layered"] * name.startswith("a") | TEXTURES["cube"] * name.endswith("cube")


def _where(emitter: Emitter, op: Op, operand: tree.Operand, type_: str, size: int) -> tuple[object, ...]:
    """The runtime's arguments: the warp, the site, the lanes, their handles and their coordinates."""
    code, item, name = emitter.code, op.instruction, op.form["geom"]
    assert isinstance(operand, tree.Address), "operands are checked"
    given = [x for c in operand.coordinates for x in (c.items if isinstance(c, tree.Vector) else (c,))]
    if len(given) != COORDINATES[name] or not isinstance(operand.base, tree.Register):
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' takes a register with the handle of an object and "
            f"{COORDINATES[name]} coordinates in braces after it (got {len(given)}, of {operand.base})"
        )
    handles = mbarriers.scratch(emitter, _HANDLES, emitter.read(operand.base, "u64"))
    layered = name.startswith("a")
    for index, coordinate in enumerate(given):
        bits = code.cast("bitcast", emitter.read(coordinate, "u32" if layered and index == 0 else type_), "i32")
        slot = f"getelementptr i8, ptr %lanes.scratch, i64 {_COORDINATES * 8 * LANES + index * 4 * LANES}"
        code.store(code.splat(bits), code.op(slot, "ptr").text)
    action = "load" if op.form.row.writes else "store"
    source = emitter.source_of(item)
    site = emitter.add_site(Site(EventKind.ACCESS, item.ptx_line, source, item.name, 1, "global", action, size))
    coordinates = code.op(mbarriers.slot(_COORDINATES), "ptr")
    return "ptr %context", "ptr %warp", f"i32 {site}", emitter.mask, handles, coordinates


def _values(emitter: Emitter, count: int) -> list[Value]:
    places = [emitter.code.op(mbarriers.slot(_VALUES + index), "ptr") for index in range(count)]
    return [emitter.code.op(f"load <{LANES} x i64>, {place}, align 64", "i64", LANES) for place in places]
