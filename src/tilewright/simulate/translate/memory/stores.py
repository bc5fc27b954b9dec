"""The code of a warp at a store whose bytes an mbarrier counts, and at a fill of shared memory with zeros.

Source: PTX ISA, 9.7.9.12 (st.async), 9.7.13.7 (red.async), 9.7.9.13 (st.bulk).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.state import ELEMENT_TYPES, OPERATIONS
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import CLUSTER
from tilewright.simulate.translate.memory.access_events import notify
from tilewright.simulate.translate.memory.bounds import fault_unless, within
from tilewright.simulate.translate.memory.bulk import Side, check, notify_copies, notify_pieces
from tilewright.simulate.translate.memory.clusters import Place, There, at_each, place_of, ranks_of
from tilewright.simulate.translate.memory.gathers import scatter
from tilewright.simulate.translate.memory.mbarriers import complete, places_there, scratch, slot

#: Places in scratch memory: the bytes of each lane, their targets, their sources, and the values themselves, after the
#: data of `clusters`.
_BYTES, _TARGET, _ORIGIN, _VALUES = 1, 2, 3, 11
#: A filled range must be a multiple of the first number of bytes, and at most the second.
_FILLED, _FILLED_MOST = 8, 1 << 24


def emit_counted(emitter: Emitter, op: Op) -> None:
    """Store, or combine with memory, for the running lanes, and count the bytes at their mbarriers."""
    given, named = op.named, CLUSTER if op.form["ss"] else "generic"
    type_ = op.form["type"]
    items = given["b"].items if isinstance(given["b"], tree.Vector) else (given["b"],)
    values = [emitter.code.splat(emitter.read(item, type_)) for item in items]
    target = place_of(emitter, op, given["a"], type_, store=True, named=named, count=len(values))
    counter = place_of(emitter, op, given["m"], "b64", store=True, named=named)

    def there(block: There) -> None:
        _store(emitter, op, target, counter, values, block)

    if emitter.launch.clustered:
        at_each(emitter, ranks_of(emitter, target), there)
    else:
        there(There(emitter.code.const("i64", 0), "ptr %shared"))


def _store(emitter: Emitter, op: Op, target: Place, counter: Place, values: Sequence[Value], block: There) -> None:
    """Emit the stores to one block of the cluster."""
    code, access = emitter.code, target.access
    relative = code.sub(target.offsets, code.splat(block.start))
    low = code.and_(relative, code.const("i64", access.total_bytes - 1))
    inside = code.and_(
        within(emitter, "shared", relative, code.const("i64", access.total_bytes)),
        code.icmp("eq", low, code.const("i64", 0)),
    )
    fault_unless(emitter, access, inside, target.offsets, 0)
    if emitter.instruments:
        notify(emitter, access, target.offsets, "atomic" if op.form["op"] else "")
    size = code.const("i32", access.total_bytes)
    if op.form["op"]:
        _combine(emitter, op, relative, values[0], size, block)
    else:
        pointers = code.op(f"getelementptr i8, {block.shared}, {relative}", "ptr", LANES)
        scatter(emitter, pointers, emitter.mask, values)
    complete(emitter, places_there(emitter, op, counter, block), block.shared, size)
    scratch(emitter, _TARGET, relative)
    notify_copies(emitter, op, _TARGET, _TARGET, _BYTES, counted=True)


def _combine(emitter: Emitter, op: Op, relative: Value, value: Value, size: Value, block: There) -> None:
    code, bytes_ = emitter.code, value.bits // 8
    values = code.op(slot(_VALUES), "ptr")
    code.store(value, values.text)
    places = scratch(emitter, _TARGET, relative)
    origins = scratch(emitter, _ORIGIN, code.constants("i64", [lane * bytes_ for lane in range(LANES)]))
    how = f"i32 {OPERATIONS[op.form['op']]}", f"i32 {ELEMENT_TYPES[op.form['type']]}"
    sizes = scratch(emitter, _BYTES, size)
    code.invoke("tw_bulk_combine", "void", emitter.mask, block.shared, places, values, origins, sizes, *how)


def emit_fill(emitter: Emitter, op: Op) -> None:
    """Fill each lane's range with zeros."""
    code, given, item = emitter.code, op.named, op.instruction
    initial = given["initial"]
    if not isinstance(initial, tree.Immediate) or initial.value != 0:
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' fills memory with the literal 0 "
            f"(got {operand_text(initial)})"
        )
    named = "shared" if op.form["space"] else "generic"
    place = place_of(emitter, op, given["a"], "b64", store=True, named=named, own=True)
    side = Side(place.access, place.offsets, scratch(emitter, _TARGET, place.offsets))
    size = _size(emitter, op, given["bytes"])
    check(emitter, side, scratch(emitter, _BYTES, size), Value("%shared.limit", "i64"), _FILLED)
    if emitter.instruments:
        notify_pieces(emitter, size, side, unit=_FILLED)
    code.invoke("tw_bulk_fill", "void", emitter.mask, "ptr %shared", side.slot, str(code.op(slot(_BYTES), "ptr")))
    notify_copies(emitter, op, _TARGET, _TARGET, _BYTES, counted=False)


def _size(emitter: Emitter, op: Op, operand: tree.Operand) -> Value:
    """The number of bytes, of 32 or 64 bits, clamped to 32 bits."""
    code = emitter.code
    if isinstance(operand, tree.Immediate) and (operand.value % _FILLED or not 0 <= operand.value <= _FILLED_MOST):
        item = op.instruction
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' fills a multiple of {_FILLED} bytes, at most "
            f"{_FILLED_MOST:,} (got {operand_text(operand)})"
        )
    name = operand.name if isinstance(operand, tree.Register) else ""
    wide = emitter.graph.registers.get(name, "").endswith("64")
    size = emitter.read(operand, "u64" if wide else "u32")
    if not wide:
        return size
    most = code.const("i64", (1 << 32) - _FILLED)
    return code.resize(code.call("llvm.umin", "i64", size, most), "i32", signed=False)
