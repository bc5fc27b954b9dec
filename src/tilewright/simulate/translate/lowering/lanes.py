"""Instructions across lanes, or of one lane after another: warp operations and atomics."""

from __future__ import annotations

from tilewright.simulate.code import LANES, Value, element_type
from tilewright.simulate.isa import lower
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import Access, resolve, space_of
from tilewright.simulate.translate.memory.generic import access_pointers


def emit_warp(emitter: Emitter, op: Op) -> list[Value]:
    """A warp-level instruction: its row gets the lanes that execute it, and sources of one or 32 lanes."""
    form = op.form
    letters = form.row.operands[1:]
    sources = [
        emitter.read(operand, form.type_of(letters[index] if index < len(letters) else "a"))
        for index, operand in enumerate(op.sources)
    ]
    return list(lower(emitter.code, form, emitter.mask, *sources))


def emit_atomic(emitter: Emitter, op: Op) -> list[Value]:
    """An atomic: one host atomic a lane and element, in lane order; returns the old values, none for `red`."""
    code = emitter.code
    item, form = op.instruction, op.form
    returns = form.row.writes
    ptx_type = form.type_of("d" if returns else "b")
    count = int(form["vec"][1:] or 1)
    operands = list(op.sources)
    space = next((space for m in item.modifiers if (space := space_of(m[1:]))), "generic")
    address, offset, space = resolve(emitter, item, operands[0], space)
    access = Access(op, space, address, offset, count, ptx_type, True, True)
    code.line('call void asm sideeffect "", "~{memory}"()')
    pointers = access_pointers(emitter, access, "atomic")
    letters = form.row.operands[1 + returns :]
    values = []
    for operand, letter in zip(operands[1:], letters, strict=False):
        items = operand.items if isinstance(operand, tree.Vector) else (operand,)
        values += [emitter.read(each, form.type_of(letter)) for each in items]
    return _each_lane(emitter, op, pointers, values, element_type(ptx_type), count if returns else 0)


def _each_lane(emitter: Emitter, op: Op, pointers: Value, values: list[Value], type_: str, results: int) -> list[Value]:
    """Loop over the lanes that run; operands and results pass through scratch memory, indexed by lane."""
    code = emitter.code
    slots = []
    for index in range(1 + results + len(values)):
        at = index * LANES * 16
        slots.append(code.op(f"getelementptr i8, ptr %lanes.scratch, i64 {at}", "ptr").text)
    old_slots, value_slots = slots[1 : 1 + results], slots[1 + results :]
    code.store(pointers, slots[0])
    for value, slot in zip(values, value_slots, strict=True):
        if value.lanes == LANES:
            code.store(value, slot)
    for slot in old_slots:
        code.line(f"store <{LANES} x {type_}> zeroinitializer, ptr {slot}, align 64")
    head, body, done = code.label("each"), code.label("lane"), code.label("all")
    code.line(f"store {emitter.mask}, ptr %remaining")
    code.branch(head)
    code.place(head)
    remaining = code.op("load i32, ptr %remaining", "i32")
    code.branch_if(code.icmp("eq", remaining, code.const("i32", 0)), done, body)
    code.place(body)
    lane = code.call("llvm.cttz", "i32", remaining, flags="i1 true")
    rest = code.and_(remaining, code.sub(remaining, code.const("i32", 1)))
    code.line(f"store {rest}, ptr %remaining")
    pointer = _at_lane(emitter, slots[0], "ptr", lane)
    scalars = [
        value if value.lanes == 1 else _at_lane(emitter, slot, value.type, lane)
        for value, slot in zip(values, value_slots, strict=True)
    ]
    olds = op.form.row.emit(code, op.form, pointer, *scalars)
    for old, slot in zip(olds if isinstance(olds, tuple) else (olds,), old_slots, strict=False):
        place = code.op(f"getelementptr {type_}, ptr {slot}, {lane}", "ptr")
        code.line(f"store {old}, ptr {place.text}")
    code.branch(head)
    code.place(done)
    return [code.op(f"load <{LANES} x {type_}>, ptr {slot}, align 64", type_, LANES) for slot in old_slots]


def _at_lane(emitter: Emitter, slot: str, type_: str, lane: Value) -> Value:
    pointer = emitter.code.op(f"getelementptr {type_}, ptr {slot}, {lane}", "ptr")
    return emitter.code.op(f"load {type_}, ptr {pointer.text}", type_)
