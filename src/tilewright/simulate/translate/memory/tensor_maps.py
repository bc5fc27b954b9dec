"""The code of a warp at a change of a tensor map, and at a copy of one from shared to global memory."""

from __future__ import annotations

from dataclasses import replace

from tilewright.errors import PtxError
from tilewright.simulate.code import Value
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import TENSOR_MAP_RECORD
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory import mbarriers
from tilewright.simulate.translate.memory.access import Access, resolve
from tilewright.simulate.translate.memory.generic import access_pointers

_BYTES = TENSOR_MAP_RECORD.itemsize
#: Bytes of a map that are checked to be in memory at once, which is also its alignment.
_CHECKED = 8
_AXES_MOST = 5
#: Bytes of one event.
_PIECE = 16
#: Places of arguments in scratch memory.
_MAPS, _VALUES = 0, 1


def emit(emitter: Emitter, op: Op) -> None:
    """Change a map for each running lane, or copy a map."""
    code, item, form = emitter.code, op.instruction, op.form
    if form.has("cp_fenceproxy"):
        size = item.operands[2]
        if not isinstance(size, tree.Immediate) or size.value != _BYTES:
            raise PtxError(f"{emitter.module.path}:{item.ptx_line}: '{item.name}' must copy {_BYTES} bytes")
        to = mbarriers.scratch(emitter, _MAPS, pointers(emitter, op, item.operands[0], "global", store=True))
        origin = mbarriers.scratch(emitter, _VALUES, pointers(emitter, op, item.operands[1], "shared"))
        _notify(emitter, op, item.operands[1], "shared", store=False)
        _notify(emitter, op, item.operands[0], "global", store=True)
        code.invoke("tw_map_copy", "void", emitter.mask, to, origin)
        return
    space = {"shared::cta": "shared"}.get(form["space"], form["space"] or "generic")
    axis = item.operands[1] if len(item.operands) == 3 else tree.Immediate(0)
    if not isinstance(axis, tree.Immediate) or not 0 <= int(axis.value) < _AXES_MOST:
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' takes the number of an axis, a literal 0 to "
            f"{_AXES_MOST - 1}"
        )
    maps = mbarriers.scratch(emitter, _MAPS, pointers(emitter, op, item.operands[0], space, store=True))
    number = emitter.read(item.operands[-1], form.type_of("b"))
    values = mbarriers.scratch(emitter, _VALUES, code.resize(number, "i64", signed=False))
    _notify(emitter, op, item.operands[0], space, store=True)
    code.invoke("tw_map_replace", "void", emitter.mask, maps, f"i32 {form.row.emit(form)}", f"i32 {axis.value}", values)


def pointers(emitter: Emitter, op: Op, operand: tree.Operand, space: str, *, store: bool = False) -> Value:
    """The host address of each lane's tensor map; both halves must be in memory. Instruments are not notified."""
    half = _half(emitter, op, operand, space, store=store)
    observers, emitter.instruments = emitter.instruments, ()
    access_pointers(emitter, replace(half, offset=half.offset + _BYTES // 2))
    first = access_pointers(emitter, half)
    emitter.instruments = observers
    return first


def _half(emitter: Emitter, op: Op, operand: tree.Operand, space: str, *, store: bool) -> Access:
    """The access of a map's first half, in each lane."""
    plain = replace(operand, coordinates=()) if isinstance(operand, tree.Address) else operand
    base, offset, found = resolve(emitter, op.instruction, plain, space)
    return Access(op, found, base, offset, _CHECKED, "b64", store, False)


def _notify(emitter: Emitter, op: Op, operand: tree.Operand, space: str, *, store: bool) -> None:
    """Notify instruments of a map that is changed or copied: once, since all lanes do the same."""
    if not emitter.instruments:
        return
    outer, half = emitter.mask, _half(emitter, op, operand, space, store=store)
    emitter.mask = emitter.code.and_(outer, emitter.code.sub(emitter.code.const("i32", 0), outer))  # the lowest lane
    for ahead in range(0, _BYTES, _PIECE):
        access_pointers(emitter, replace(half, offset=half.offset + ahead, count=1, type="b128"))
    emitter.mask = outer
