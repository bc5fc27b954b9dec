"""Calls that are not inlined: recursive and indirect ones, and the functions that the machine provides.

A called function is an LLVM function of its own, run by the lanes of a mask:
``i32 @function.N(context, slot, warp, mask, frame, depth)``, which returns 0 or FAULT. Its parameters, results and
local variables are in a frame of local memory; the caller copies arguments in and results out. It cannot wait at a
barrier, because it cannot be left and resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value, element_type
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.isa import Role, role_of
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import BAD_CALL, CALL_DEPTH
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.analysis.inline import call_arguments
from tilewright.simulate.translate.analysis.layout import Layout, align_up, own_name
from tilewright.simulate.translate.analysis.shape import ANY_VECTOR
from tilewright.simulate.translate.lowering.results import write
from tilewright.simulate.translate.memory.access import local_stride
from tilewright.simulate.translate.memory.gathers import gather, scatter

if TYPE_CHECKING:
    from tilewright.simulate.translate.lowering.emitter import Emitter

#: Local memory of a thread for the frames of called functions, and the most of it that a larger stack gives them.
STACK_BYTES, STACK_BYTES_MOST = 64 << 10, 256 << 10
#: Most bytes of an argument whose copy is unrolled in the translation, for all lanes at once.
_STEPS_BYTES_MAX = 64


def called_functions(module: tree.Module, bodies: list[tree.Function]) -> list[tree.Function]:
    """Functions that the remaining calls in these bodies reach; an indirect call reaches all whose address is taken."""
    items = (item for body in bodies for item in body.body if isinstance(item, tree.Instruction))
    targets = [call_arguments(item).target for item in items if role_of(item.opcode) is Role.CALL]
    names = {target.name for target in targets if isinstance(target, tree.Symbol)}
    if any(isinstance(target, tree.Register) for target in targets):
        names |= _with_addresses(module)
    found = [module.functions.get(name) for name in sorted(names)]
    return [f for f in found if f is not None and not f.is_declaration and not f.is_entry]


def _with_addresses(module: tree.Module) -> set[str]:
    """The names whose address the module takes: all that its instructions and variables mention, but not to call it."""
    variables = [*module.variables.values()]
    names: set[str] = set()
    for function in module.functions.values():
        variables += function.variables
        names.update(*function.targets.values())
        for item in function.body:
            if isinstance(item, tree.Instruction):
                names.update(_symbols(item.operands))
    return names.union(one.name for v in variables for one in v.initial if isinstance(one, tree.Symbol))


def _symbols(operands: Iterable[tree.Operand | None]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case tree.Symbol():
                yield operand.name
            case tree.Address():
                yield from _symbols((operand.base,))
            case tree.Vector():
                yield from _symbols(operand.items)
            case tree.CallArguments():
                yield from _symbols(operand.arguments)


def with_frame(function: tree.Function) -> tree.Function:
    """A copy whose formal parameters and results are local variables of its frame."""
    formals: list[tree.Variable] = []
    start: list[tree.Instruction] = []
    end: list[tree.Instruction] = []
    for formal in (*function.params, *function.returns):
        if isinstance(formal, tree.Variable):
            formals.append(replace(formal, space="local"))
            continue
        type_ = function.registers[formal.name]
        variable = tree.Variable(f"{formal.name}$slot", "local", type_)
        formals.append(variable)
        address = tree.Address(tree.Symbol(variable.name))
        line = function.ptx_line
        if formal in function.params:
            start.append(tree.Instruction("ld", (".local", type_), (formal, address), line))
        else:
            end.append(tree.Instruction("st", (".local", type_), (address, formal), line))
    names = {v.name for v in formals}
    body: list[tree.Instruction | tree.Label] = list(start)
    for item in function.body:
        if isinstance(item, tree.Instruction) and role_of(item.opcode) is Role.RETURN:
            body += end
        body.append(_in_frame(item, names))
    return replace(
        function, body=[*body, *end], variables=[*formals, *function.variables], registers=dict(function.registers)
    )


def _in_frame(item: tree.Instruction | tree.Label, formals: set[str]) -> tree.Instruction | tree.Label:
    """An access to a formal parameter as one to local memory; other accesses unchanged."""
    if not isinstance(item, tree.Instruction):
        return item
    for operand in item.operands:
        if isinstance(operand, tree.Address) and isinstance(operand.base, tree.Symbol) and operand.base.name in formals:
            modifiers = tuple(".local" if m.startswith(".param") else m for m in item.modifiers)
            return replace(item, modifiers=modifiers)
    return item


def frame_layout(whole: Layout, function: tree.Function) -> Layout:
    """The layout of a called function: the module's places, and its own frame from offset 0."""
    layout = Layout(
        {n: p for n, p in whole.places.items() if p[0] in ("module", "shared")},
        whole.shared_bytes,
        whole.local_bytes,
        0,
        whole.module_bytes,
        whole.functions,
        stack_start=whole.stack_start,
        gap_bytes=whole.gap_bytes,
    )
    end = 0
    for variable in function.variables:
        if variable.space in ("local", "param"):
            at = align_up(end, variable.alignment)
            layout.places[variable.name] = ("local", at)
            end = at + variable.size
        elif variable.space == "shared":
            layout.places[variable.name] = whole.places[own_name(function, variable)]
    layout.frame_bytes = align_up(end, 16)
    return layout


def emit_call(emitter: Emitter, op: Op) -> None:
    """Emit a call that the inliner left."""
    item = op.instruction
    call = call_arguments(item)
    if isinstance(call.target, tree.Symbol):
        if call.target.name == "vprintf":
            _print(emitter, item, call)
            return
        _call(emitter, item, call, emitter.functions[call.target.name], emitter.mask)
        return
    _call_indirect(emitter, item, call, call.target)


def _call_indirect(emitter: Emitter, item: tree.Instruction, call: tree.CallArguments, target: tree.Register) -> None:
    """Call each function that some lane names, with those lanes."""
    code = emitter.code
    address = code.splat(emitter.read(target, "b64"))
    left = emitter.mask
    for name, callee in emitter.functions.items():
        if len(callee.params) != len(call.arguments) or len(callee.returns) != len(call.returns):
            continue
        same = code.icmp("eq", address, code.const("i64", emitter.layout.functions.index(name) + 1))
        lanes = code.and_(code.op(f"bitcast {same} to i32", "i32"), emitter.mask)
        left = code.and_(left, code.not_(lanes))
        yes, no = code.label("callee"), code.label("next")
        code.branch_if(code.icmp("ne", lanes, code.const("i32", 0)), yes, no)
        code.place(yes)
        _call(emitter, item, call, callee, lanes)
        code.branch(no)
        code.place(no)
    fine, bad = code.label("called"), code.label("stray")
    code.branch_if(code.icmp("eq", left, code.const("i32", 0)), fine, bad, likely=True)
    code.place(bad)
    _stop(emitter, item, left, BAD_CALL)
    code.place(fine)


def _call(
    emitter: Emitter, item: tree.Instruction, call: tree.CallArguments, callee: tree.Function, lanes: Value
) -> None:
    """Copy arguments to the callee's frame, call it for some lanes, copy results back."""
    code = emitter.code
    if len(callee.params) != len(call.arguments) or len(callee.returns) != len(call.returns):
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{callee.name}' takes {len(callee.params)} arguments and returns "
            f"{len(callee.returns)} (got {len(call.arguments)} and {len(call.returns)})"
        )
    layout = frame_layout(emitter.layout, with_frame(callee))
    frame = code.add(emitter.frame, code.const("i64", emitter.layout.frame_bytes))
    depth = code.add(emitter.depth, code.const("i32", 1))
    top = code.add(frame, code.const("i64", layout.frame_bytes))
    room = code.icmp("ule", top, code.const("i64", emitter.layout.stack_start))
    shallow = code.icmp("ule", depth, code.cast("trunc", emitter.context("call_depth"), "i32"))
    go, deep = code.label("go"), code.label("deep")
    code.branch_if(code.and_(room, shallow), go, deep, likely=True)
    code.place(deep)
    _stop(emitter, item, lanes, CALL_DEPTH)
    code.place(go)
    for formal, actual in zip(callee.params, call.arguments, strict=True):
        place, size, type_ = _formal_place(callee, formal, layout)
        at = code.add(frame, code.const("i64", place))
        if isinstance(actual, tree.Symbol):
            _copy(emitter, at, _own(emitter, item, actual), size, lanes)
        else:
            value = code.splat(emitter.read(actual, type_))
            _store_lanes(emitter, at, value, lanes)
    symbol = f"function.{emitter.layout.functions.index(callee.name)}"
    status = code.op(f"call i32 @{symbol}(ptr %context, ptr %slot, ptr %warp, {lanes}, {frame}, {depth})", "i32")
    fine = code.label("back")
    code.branch_if(code.icmp("eq", status, code.const("i32", 0)), fine, "fault", likely=True)
    code.place(fine)
    for formal, actual in zip(callee.returns, call.returns, strict=True):
        place, size, type_ = _formal_place(callee, formal, layout)
        at = code.add(frame, code.const("i64", place))
        if isinstance(actual, tree.Symbol):
            _copy(emitter, _own(emitter, item, actual), at, size, lanes)
        elif isinstance(actual, tree.Register):
            _fetch(emitter, actual, at, type_, lanes)


def _formal_place(callee: tree.Function, formal: tree.Variable | tree.Register, layout: Layout) -> tuple[int, int, str]:
    """Frame offset, bytes and PTX type of a formal parameter."""
    if isinstance(formal, tree.Variable):
        return layout.places[formal.name][1], formal.size, formal.type.lstrip(".")
    variable = tree.Variable("", "local", callee.registers[formal.name])
    return layout.places[f"{formal.name}$slot"][1], variable.size, variable.type.lstrip(".")


def _own(emitter: Emitter, item: tree.Instruction, actual: tree.Symbol) -> Value:
    """Local offset of a variable of the caller's frame. The copy is not checked, so it must be inside."""
    space, offset = emitter.layout.places.get(actual.name, ("nowhere", 0))
    if space != "local" or actual.offset:
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: a call must pass registers, literals or .param variables of its "
            f"own function (got '{actual.name}' in .{space}, offset {actual.offset}); copy it to a .param one first"
        )
    return emitter.code.add(emitter.frame, emitter.code.const("i64", offset))


def _lane_pointers(emitter: Emitter, offset: Value) -> Value:
    code = emitter.code
    stride = local_stride(emitter)
    lanes = code.add(code.splat(offset), code.constants("i64", [lane * stride for lane in range(LANES)]))
    return code.op(f"getelementptr i8, ptr %local, {lanes}", "ptr", LANES)


def _store_lanes(emitter: Emitter, offset: Value, value: Value, lanes: Value) -> None:
    if value.type == "i1":
        value = emitter.code.cast("zext", value, "i8")
    scatter(emitter, _lane_pointers(emitter, offset), lanes, [value])


def _load_lanes(emitter: Emitter, offset: Value, type_: str, lanes: Value) -> Value:
    return gather(emitter, _lane_pointers(emitter, offset), lanes, type_)[0]


def _copy(emitter: Emitter, to: Value, source: Value, size: int, lanes: Value) -> None:
    """Copy bytes between two places of local memory: all lanes in the widest steps that fit, or lane by lane."""
    if size > _STEPS_BYTES_MAX:
        code = emitter.code
        stride = code.const("i64", local_stride(emitter))
        code.invoke("tw_copy", "void", "ptr %local", to, source, f"i64 {size}", stride, lanes)
        return
    done = 0
    while done < size:
        step = next(s for s in (8, 4, 2, 1) if s <= size - done)
        at = emitter.code.const("i64", done)
        value = _load_lanes(emitter, emitter.code.add(source, at), f"i{8 * step}", lanes)
        _store_lanes(emitter, emitter.code.add(to, at), value, lanes)
        done += step


def _fetch(emitter: Emitter, register: tree.Register, at: Value, type_: str, lanes: Value) -> None:
    """Load a result into a register, for the lanes of this call only."""
    value = _load_lanes(emitter, at, element_type(type_), lanes)
    guard = emitter.code.op(f"bitcast {lanes} to <{LANES} x i1>", "i1", LANES)
    write(emitter, register.name, value, type_, ANY_VECTOR, guard)


def _stop(emitter: Emitter, item: tree.Instruction, lanes: Value, kind: int) -> None:
    """Leave with a fault; the caller starts the next block."""
    code = emitter.code
    site = emitter.add_site(Site(EventKind.RUN, item.ptx_line, emitter.source_of(item), item.name))
    code.invoke("tw_stop", "void", "ptr %context", "ptr %warp", f"i32 {site}", lanes, f"i64 {kind}")
    code.branch("fault")


def _print(emitter: Emitter, item: tree.Instruction, call: tree.CallArguments) -> None:
    """`vprintf(format, arguments)`: each lane's format address and argument bytes go to the print buffer."""
    if len(call.arguments) != 2:
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: 'vprintf' takes the address of a format and that of its arguments "
            f"(got {len(call.arguments)} arguments); pack the values in local memory and pass its generic address"
        )
    code = emitter.code
    emitter.prints = True
    values = []
    for actual in call.arguments:
        if isinstance(actual, tree.Symbol):
            values.append(_load_lanes(emitter, _own(emitter, item, actual), "i64", emitter.mask))
        else:
            values.append(code.splat(emitter.read(actual, "b64")))
    format_, arguments = values
    code.line(f"store {format_}, ptr %addresses, align 64")
    code.line(f"store {arguments}, ptr %lanes.scratch, align 64")
    where = ("ptr %context", "ptr %slot", "ptr %warp", emitter.mask, "ptr %addresses", "ptr %lanes.scratch")
    local = ("ptr %local", f"i64 {local_stride(emitter)}", f"i64 {emitter.layout.local_bytes}")
    code.invoke("tw_print", "void", *where, *local)
    for result in call.returns:  # a GPU returns the number of arguments, which only the format has
        if isinstance(result, tree.Symbol):
            _store_lanes(emitter, _own(emitter, item, result), code.splat(code.const("i32", 0)), emitter.mask)
