"""A thread's stack: `alloca`, `stacksave` and `stackrestore`, and the stack of called functions.

The bytes in use are a register of each function, `STACK`, which starts as 0. If all lanes allocate the same size, it is
uniform, and addresses are the same in all lanes. The memory is in the thread's local arena, after the frames of called
functions. A called function gets the register as its last argument.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.errors import PtxError
from tilewright.simulate.code import Value
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.isa import Role, role_of
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.state import STACK_FULL, STACK_POINTER
from tilewright.simulate.translate.analysis.graph import STACK, Op
from tilewright.simulate.translate.analysis.inline import BUILTINS, call_arguments, frees_stack
from tilewright.simulate.translate.analysis.shape import VECTOR
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.lowering.results import shape_of, write

#: Greatest alignment of `alloca`. Source: PTX ISA, 9.7.17.3.
_ALIGNMENT_MIN, _ALIGNMENT_MAX = 8, 1 << 23
#: The variable with the bytes in use at the start of a called function.
_BEFORE = "%stack$before"


def is_used(functions: list[tree.Function]) -> bool:
    """Whether any function allocates on the stack."""
    return any(frees_stack(function) for function in functions)


def with_stack(function: tree.Function) -> tree.Function:
    """A function that takes the stack as its last argument, and releases what it allocates."""
    before = tree.Register(_BEFORE)
    line = function.ptx_line
    body: list[tree.Instruction | tree.Label] = [tree.Instruction("stacksave", (".u64",), (before,), line)]
    for item in function.body:
        if isinstance(item, tree.Instruction) and role_of(item.opcode) is Role.RETURN:
            body.append(replace(item, opcode="stackrestore", modifiers=(".u64",), operands=(before,)))
        body.append(item)
    end = tree.Instruction("stackrestore", (".u64",), (before,), line)
    registers = function.registers | {STACK: ".b64", _BEFORE: ".b64"}
    return replace(function, params=(*function.params, tree.Register(STACK)), body=[*body, end], registers=registers)


def passing(function: tree.Function) -> tree.Function:
    """A function whose calls pass the stack register."""
    return replace(
        function,
        body=[_passing(item) for item in function.body],
        registers={STACK: ".b64"} | function.registers,
    )


def _passing(item: tree.Instruction | tree.Label) -> tree.Instruction | tree.Label:
    if not isinstance(item, tree.Instruction) or role_of(item.opcode) is not Role.CALL:
        return item
    call = call_arguments(item)
    if call.target.name in BUILTINS:
        return item
    return replace(item, operands=(replace(call, arguments=(*call.arguments, tree.Register(STACK))),))


def emit(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Allocate, or read or set the end of the stack."""
    code, form = emitter.code, op.form
    uniform = emitter.shapes.results(op)[0].kind != VECTOR
    start = code.const("i64", emitter.layout.stack_start)
    used = emitter.read(tree.Register(STACK), "b64", base=uniform)
    if form.row.role is Role.ALLOCATE:
        address, used = _allocated(emitter, op, code.add(start, used), uniform=uniform)
        write(emitter, op.destinations[0], address, form["type"], shape_of(address), guard)
        write(emitter, STACK, code.sub(used, start), "b64", shape_of(used), guard)
        return
    if op.destinations:
        address = code.add(start, used)
        write(emitter, op.destinations[0], address, form["type"], shape_of(address), guard)
        return
    given = code.resize(emitter.read(op.sources[0], form["type"], base=uniform), "i64", signed=False)
    left = code.sub(given, start)
    _or_fault(emitter, op, code.icmp("ule", left, used), STACK_POINTER)
    _notify(emitter, op, given, code.add(start, used))
    write(emitter, STACK, left, "b64", shape_of(left), guard)


def _allocated(emitter: Emitter, op: Op, top: Value, *, uniform: bool) -> tuple[Value, Value]:
    """The start of the memory and the stack's new end, as offsets in the local arena."""
    code, layout = emitter.code, emitter.layout
    align = _alignment(emitter, op)
    end = code.const("i64", layout.local_bytes)
    size = code.resize(emitter.read(op.sources[0], op.form["type"], base=uniform), "i64", signed=False)
    address = code.and_(code.add(top, code.const("i64", align - 1)), code.const("i64", -align))
    room = code.icmp("ule", size, code.sub(end, address))
    _or_fault(emitter, op, code.and_(code.icmp("ule", address, end), room), STACK_FULL)
    after = code.add(address, size)
    _notify(emitter, op, address, after)
    if layout.gap_bytes:
        after = code.call("llvm.umin", "i64", code.add(after, code.const("i64", layout.gap_bytes)), end)
    return address, after


def _alignment(emitter: Emitter, op: Op) -> int:
    """The alignment that an allocation gets."""
    if len(op.sources) < 2:
        return _ALIGNMENT_MIN
    given = op.sources[1]
    if not isinstance(given, tree.Immediate) or not 0 < given.value <= _ALIGNMENT_MAX or given.value.bit_count() != 1:
        raise PtxError(
            f"{emitter.module.path}:{op.instruction.ptx_line}: '{op.instruction.name}' must have an alignment that is "
            f"a power of two, at most {_ALIGNMENT_MAX:,} (got {operand_text(given)})"
        )
    return max(given.value, _ALIGNMENT_MIN)


def _or_fault(emitter: Emitter, op: Op, good: Value, kind: int) -> None:
    """Leave with a fault if the condition fails in a running lane."""
    code, item = emitter.code, op.instruction
    if good.lanes == 1:
        bad = code.select(good, code.const("i32", 0), emitter.mask)
    else:
        bad = code.and_(emitter.mask, code.not_(code.mask_bits(good)))
    fine, cold = code.label("stacked"), code.label("full")
    code.branch_if(code.icmp("eq", bad, code.const("i32", 0)), fine, cold, likely=True)
    code.place(cold)
    site = emitter.add_site(Site(EventKind.RUN, item.ptx_line, emitter.source_of(item), item.name))
    code.invoke("tw_stop", "void", "ptr %context", "ptr %warp", f"i32 {site}", bad, f"i64 {kind}")
    code.branch("fault")
    code.place(fine)


def _notify(emitter: Emitter, op: Op, start: Value, end: Value) -> None:
    """Notify instruments of memory that is allocated or released."""
    if emitter.instruments:
        code = emitter.code
        code.store(code.splat(start), "%addresses")
        code.store(code.splat(end), "%lanes.scratch")
        places = (Value("%addresses", "ptr"), Value("%lanes.scratch", "ptr"))
        emitter.event(EventKind.STACK, op.instruction, emitter.mask, *places)
