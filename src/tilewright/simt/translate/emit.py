"""From a graph with shapes to one LLVM function that runs a warp."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tilewright.errors import PtxError, TranslatorError
from tilewright.ptx import tree
from tilewright.ptx.printing import operand_text
from tilewright.simt.events import VALUES_MAX, EventKind, Handler, Site
from tilewright.simt.isa import Role, lower
from tilewright.simt.translate import (
    barriers,
    bulk,
    calls,
    fragments,
    generic,
    lanes,
    matrices,
    matrix_moves,
    mbarriers,
    outline,
    stores,
    tensor_copies,
    tensor_maps,
    textures,
    warpgroups,
)
from tilewright.simt.translate.access import Access, group_accesses, space_of
from tilewright.simt.translate.access_events import store_values
from tilewright.simt.translate.code import LANES, Value, element_type
from tilewright.simt.translate.comparing import narrowed
from tilewright.simt.translate.copies import emit_copy
from tilewright.simt.translate.emitter import Emitter, guard_value, storage_type
from tilewright.simt.translate.flow import Flow
from tilewright.simt.translate.graph import CARRY, Block, Op
from tilewright.simt.translate.moves import emit_access
from tilewright.simt.translate.shape import AFFINE, ANY_UNIFORM, ANY_VECTOR, STRIDED, UNIFORM, VECTOR, Shape
from tilewright.simt.translate.transfer import transfer
from tilewright.simt.translate.webs import ptx_name


def emit_function(emitter: Emitter, symbol: str) -> Flow:
    """Emit a kernel into `emitter.code`; returns the flow, which knows the warp record's size."""
    flow = Flow(emitter)
    outline.emit_kernel(flow, symbol, functools.partial(emit_block, emitter))
    return flow


def emit_block(emitter: Emitter, block: Block) -> None:
    """The instructions of a block, up to its end."""
    accesses = group_accesses(emitter, block)
    for position, op in enumerate(block.ops):
        emitter.line = op.instruction.ptx_line
        try:
            emit_op(emitter, op, accesses.get(position, ()))
        except NotImplementedError as error:
            raise PtxError(f"{_at(emitter, op)} with these operands is not implemented ({error})") from error
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError) as error:
            raise TranslatorError(
                f"{_at(emitter, op)} could not be translated ({type(error).__name__}: {error}); this is a defect of "
                "Tilewright, not of the PTX; please report it with the PTX"
            ) from error


def _at(emitter: Emitter, op: Op) -> str:
    return f"{emitter.module.path}:{op.instruction.ptx_line}: '{op.instruction.name}'"


def emit_op(emitter: Emitter, op: Op, accesses: Sequence[Access]) -> None:
    """One instruction, under its guard."""
    guard = guard_value(emitter, op)
    code = emitter.code
    if guard is None:
        emit_unguarded(emitter, op, accesses, None)
        return
    if guard.lanes == LANES and op.form.row.kind in ("lane", "carry", "cvta", "isspacep"):
        emit_unguarded(emitter, op, accesses, guard)  # no effect but its result: a select is enough
        return
    outer, tallied = emitter.mask, emitter.tallied
    emitter.tallied = {}  # what a guard lets through is counted by itself
    do, skip = code.label("do"), code.label("skip")
    if guard.lanes == 1:
        code.branch_if(guard, do, skip)
        code.place(do)
        emit_unguarded(emitter, op, accesses, None)
    else:
        emitter.mask = code.and_(emitter.mask, code.mask_bits(guard))
        code.branch_if(code.icmp("ne", emitter.mask, code.const("i32", 0)), do, skip)
        code.place(do)
        emit_unguarded(emitter, op, accesses, guard)
    code.branch(skip)
    code.place(skip)
    emitter.mask, emitter.tallied = outer, tallied


def emit_unguarded(emitter: Emitter, op: Op, accesses: Sequence[Access], guard: Value | None) -> None:
    """Compute an instruction and write its results; `guard` only narrows the writes."""
    if op.form.row.together:
        emitter.event(EventKind.TOGETHER, op.instruction, emitter.mask)
    kind = op.form.row.kind
    if kind == "memory" and accesses:
        _write_loaded(emitter, op, accesses[0], guard)
        return
    if kind == "copy":
        emit_copy(emitter, *accesses)
        return
    if kind == "lane" and op.form.row.role is Role.COPY and _is_packed(op):
        _write_unpacked(emitter, op, guard)
        return
    _EMITTERS[kind](emitter, op, guard)


def _is_packed(op: Op) -> bool:
    return len(op.destinations) > 1 or isinstance(op.sources[0], tree.Vector)


def _write_loaded(emitter: Emitter, op: Op, access: Access, guard: Value | None) -> None:
    values = emit_access(emitter, access)
    if access.store:
        return
    if access.space == "param" and (known := emitter.shapes.results(op)[0].constant) is not None:
        values = [emitter.code.const(value.type, known) for value in values]
    for name, value in zip(op.destinations, values, strict=True):
        write(emitter, name, value, access.type, ANY_UNIFORM if value.lanes == 1 else ANY_VECTOR, guard)


def _write_unpacked(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """`mov.b64 {a, b}, c`, `mov.b64 c, {a, b}`, and `mov.v2.b32 {a, b}, {c, d}`."""
    code = emitter.code
    type_ = op.form["type"]
    source = op.sources[0]
    if op.form["vec"]:
        assert isinstance(source, tree.Vector), "operands are checked"
        values = [emitter.read(item, type_) for item in source.items]
        for name, value in zip(op.destinations, values, strict=True):
            write(emitter, name, value, type_, _shape_of(value), guard)
        return
    if isinstance(source, tree.Vector):
        parts = [emitter.read(i, _element_of(emitter, i, type_, len(source.items))) for i in source.items]
        value = emitter.pack([code.cast("bitcast", p, f"i{p.bits}") for p in parts], type_)
    else:
        value = emitter.read(source, type_)
    if len(op.destinations) == 1:
        write(emitter, op.destinations[0], value, type_, _shape_of(value), guard)
        return
    whole = code.cast("bitcast", value, f"i{value.bits}")
    bits = whole.bits // len(op.destinations)
    for index, name in enumerate(op.destinations):
        part = code.binary("lshr", whole, code.const(whole.type, index * bits))
        write(emitter, name, code.cast("trunc", part, f"i{bits}"), f"b{bits}", _shape_of(value), guard)


def _element_of(emitter: Emitter, operand: tree.Operand, type_: str, count: int) -> str:
    return emitter.operand_type(operand, type_, count)


def _shape_of(value: Value) -> Shape:
    return ANY_UNIFORM if value.lanes == 1 else ANY_VECTOR


def _emit_lane(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """A row's own meaning: in scalars when the result is uniform or affine, else over the lanes."""
    code, form = emitter.code, op.form
    if emitter.instruments:
        _tell_values(emitter, op)
    shapes = emitter.shapes.results(op)
    shape = shapes[0]
    if shape.kind == VECTOR and guard is not None:
        shape = _unguarded_shape(emitter, op)
    integer = element_type(form.type_of(_letter(form.row.operands[0])))[0] == "i"
    if len(shapes) == 1 and shape.kind == UNIFORM and shape.constant is not None and integer:
        type_ = element_type(form.type_of(_letter(form.row.operands[0])))
        results: tuple[Value, ...] = (code.const(type_, shape.constant),) * len(op.destinations)
    else:
        scalar = shape.kind != VECTOR
        results = lower(code, form, *(narrowed(emitter, op) or read_sources(emitter, op, base=scalar)))
        if scalar:  # where a known predicate chooses, the other operand may be a vector
            results = tuple(map(emitter.first_lane, results))
    stride = _stride(emitter, op, shape, results[0]) if shape.kind == STRIDED else None
    for index, name in enumerate(op.destinations):
        if name == "_":
            continue
        value = results[index]
        letter = _letter(form.row.operands[0].split("|")[0] if index == 0 else form.row.operands[0].split("|")[-1])
        type_ = "pred" if value.type == "i1" else form.type_of(letter)
        result = shape if value.lanes == 1 and len(shapes) == 1 else _shape_of(value)
        write(emitter, name, value, type_, result, guard, stride)


def _stride(emitter: Emitter, op: Op, shape: Shape, first: Value) -> Value:
    """The stride of a result: by how much a lane one stride away differs from lane 0, whose value is given."""
    code, lane = emitter.code, shape.rows.index(1)
    (further,) = lower(code, op.form, *read_sources(emitter, op, base=True, lane=lane))
    return code.sub(code.sub(emitter.first_lane(further), first), code.const(first.type, shape.lane_offsets[lane]))


def _tell_values(emitter: Emitter, op: Op) -> None:
    """Notify instruments of an instruction's source operands."""

    def arguments(handler: Handler) -> str:
        values = (
            [emitter.read(op.sources[0], "b32")]
            if op.form.row.kind == "barrier"
            else read_sources(emitter, op, base=False)
        )
        for index, value in enumerate(values[:VALUES_MAX]):
            store_values(emitter, index, widened(emitter, value, op))
        return f"{emitter.mask}, ptr %values"

    item = op.instruction
    emitter.notify(Site(EventKind.VALUE, item.ptx_line, emitter.source_of(item), item.name), arguments)


def widened(emitter: Emitter, value: Value, op: Op) -> Value:
    """An operand as 64 bits: integers by the sign where the instruction has one, floats as their bits."""
    code = emitter.code
    integer = value if value.type[0] == "i" else code.cast("bitcast", value, f"i{value.bits}")
    signed = value.type[0] == "i" and any(part[:2] in (".s",) for part in op.instruction.modifiers)
    return code.resize(integer, "i64", signed=signed)


def _unguarded_shape(emitter: Emitter, op: Op) -> Shape:
    """The result's shape as if there were no guard: lanes that the guard leaves out keep their old value anyway."""
    sources = [emitter.shapes.operand(s) for s in op.sources]
    return transfer(op, sources, emitter.launch, emitter.layout.params)[0]


def read_sources(emitter: Emitter, op: Op, *, base: bool, lane: int = 0) -> list[Value]:
    """Source operands as the row's types say; with `base`, those of one lane."""
    letters = [_letter(o) for o in op.form.row.operands[1:]]
    values = []
    for index, operand in enumerate(op.sources):
        letter = letters[index] if index < len(letters) else "a"
        values.append(emitter.read(operand, op.form.type_of(letter), base=base, lane=lane))
    return values


def _letter(operand: str) -> str:
    """`{!}c` and `p[|q]` as plain operand letters."""
    return operand.strip("!{}[]")


def _emit_carry(emitter: Emitter, op: Op, guard: Value | None) -> None:
    code = emitter.code
    carry = code.const("i1", 0)
    if op.form.row.takes_carry:
        carry = emitter.read(tree.Register(CARRY), "pred")
    value, out = lower(code, op.form, *read_sources(emitter, op, base=False), carry)
    write(emitter, op.destinations[0], value, op.form.type_of("d"), _shape_of(value), guard)
    if op.form.has("cc"):
        write(emitter, CARRY, out, "pred", _shape_of(out), guard)


def _emit_warp(emitter: Emitter, op: Op, guard: Value | None) -> None:
    if emitter.instruments:
        _tell_values(emitter, op)
    values = lanes.emit_warp(emitter, op)
    letters = op.form.row.operands[0].split("|")
    for index, name in enumerate(op.destinations):
        value = values[index]
        type_ = "pred" if value.type == "i1" else op.form.type_of(_letter(letters[min(index, len(letters) - 1)]))
        write(emitter, name, value, type_, _shape_of(value), guard)


def _emit_atomic(emitter: Emitter, op: Op, guard: Value | None) -> None:
    for name, value in zip(op.destinations, lanes.emit_atomic(emitter, op), strict=False):
        write(emitter, name, value, op.form.type_of("d"), ANY_VECTOR, guard)


def _written(
    values: Callable[[Emitter, Op], Sequence[Value]], type_: str = ""
) -> Callable[[Emitter, Op, Value | None], None]:
    """What writes the values that a function gives: as a type, or as the form's own."""

    def emit(emitter: Emitter, op: Op, guard: Value | None) -> None:
        for name, value in zip(op.destinations, values(emitter, op), strict=True):
            write(emitter, name, value, type_ or op.form.type_of("d"), ANY_VECTOR, guard)

    return emit


def _emit_tensor(emitter: Emitter, op: Op, guard: Value | None) -> None:
    tensor_copies.emit_copy(emitter, op)


def _emit_map(emitter: Emitter, op: Op, guard: Value | None) -> None:
    tensor_maps.emit(emitter, op)


def _emit_barrier(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Barriers end a block, and are flow's; here the lanes that were released read a reduction's result."""
    if ".warp" in op.instruction.modifiers:
        if emitter.instruments:
            members = emitter.code.splat(emitter.read(op.sources[0], "b32"))
            emitter.code.line(f"store {members}, ptr %values, align 64")
            emitter.event(EventKind.SYNC, op.instruction, emitter.mask, Value("%values", "ptr"))
            _tell_values(emitter, op)
    if op.destinations:
        type_ = "pred" if ".pred" in op.instruction.modifiers else "u32"
        write(emitter, op.destinations[0], barriers.emit_reduction_result(emitter, op), type_, ANY_UNIFORM, guard)


def _emit_cluster(emitter: Emitter, op: Op, guard: Value | None) -> None:
    emitter.event(EventKind.CLUSTER, op.instruction, emitter.mask)
    barriers.arrive_at_cluster(emitter, op)


def _emit_bulk(emitter: Emitter, op: Op, guard: Value | None) -> None:
    bulk.emit(emitter, op)


def _emit_counted(emitter: Emitter, op: Op, guard: Value | None) -> None:
    stores.emit_counted(emitter, op)


def _emit_fill(emitter: Emitter, op: Op, guard: Value | None) -> None:
    stores.emit_fill(emitter, op)


def _emit_bulk_group(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Copies have ended when they are issued; instruments are told when the program may know."""
    if not op.form.has("wait_group"):
        emitter.event(EventKind.BULK_COMMIT, op.instruction, emitter.mask)
        return
    left = emitter.code.const("i32", _groups_left(emitter, op))
    emitter.event(EventKind.BULK_WAIT, op.instruction, emitter.mask, left)


def _groups_left(emitter: Emitter, op: Op) -> int:
    """How many groups a wait leaves in flight: a literal."""
    (left,) = op.instruction.operands
    if not isinstance(left, tree.Immediate):
        raise PtxError(f"{_at(emitter, op)} takes a number of groups (got {operand_text(left)})")
    return left.value


def _emit_await(emitter: Emitter, op: Op, guard: Value | None) -> None:
    complete = mbarriers.emit_test(emitter, op)
    write(emitter, op.destinations[0], complete, "pred", _shape_of(complete), guard)


def _emit_cvta(emitter: Emitter, op: Op, guard: Value | None) -> None:
    code = emitter.code
    item = op.instruction
    space = next((m[1:].partition("::")[0] for m in item.modifiers if space_of(m[1:])), "global")
    type_ = item.modifiers[-1][1:]
    shape = emitter.shapes.results(op)[0]
    value = emitter.read(op.sources[0], type_, base=shape.kind != VECTOR)
    window = code.const(value.type, generic.window_of(space))
    value = code.sub(value, window) if ".to" in item.modifiers else code.add(value, window)
    if space == "param" and value.bits == 64:  # Triton holds addresses of parameters in 32 bits
        upper = code.and_(emitter.context("params_address"), code.const("i64", -1 << 32))
        value = code.select(code.icmp("ult", value, code.const("i64", 1 << 32)), code.or_(value, upper), value)
    write(emitter, op.destinations[0], value, type_, shape if shape.kind != VECTOR else _shape_of(value), guard)


def _emit_isspacep(emitter: Emitter, op: Op, guard: Value | None) -> None:
    part = op.instruction.modifiers[-1][1:]
    space = "const" if part == "const" else space_of(part)
    value = generic.is_space(emitter, emitter.read(op.sources[0], "u64"), space)
    write(emitter, op.destinations[0], value, "pred", _shape_of(value), guard)


def _emit_fence(emitter: Emitter, op: Op, guard: Value | None) -> None:
    emitter.code.line("fence seq_cst")
    emitter.event(EventKind.FENCE, op.instruction, emitter.mask)


def _emit_group(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Copies and products have ended when they are issued; instruments are told when the program may know."""
    item, form = op.instruction, op.form
    if form.has("wait_group"):
        left = emitter.code.const("i32", _groups_left(emitter, op))
        emitter.event(EventKind.WAIT, item, emitter.mask, left)
        return
    emitter.event(EventKind.COMMIT, item, emitter.mask)
    if form.has("wait_all"):
        emitter.event(EventKind.WAIT, item, emitter.mask, emitter.code.const("i32", 0))


def _emit_policy(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Caches are not there."""
    write(emitter, op.destinations[0], emitter.code.const("i64", 0), "b64", ANY_UNIFORM, guard)


def _emit_nothing(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Hints have no effect."""


def _emit_control(emitter: Emitter, op: Op, guard: Value | None) -> None:
    calls.emit_call(emitter, op)


def write(
    emitter: Emitter,
    name: str,
    value: Value,
    type_: str,
    shape: Shape,
    guard: Value | None,
    stride: Value | None = None,
) -> None:
    """Write a result of a PTX type to a register, extended by its sign or zeros when the register is wider."""
    if name == "_" or name not in emitter.graph.registers:
        return
    code = emitter.code
    target = storage_type(emitter.graph.registers[name])
    if value.type != target:
        width = Value("", target).bits
        integer = code.cast("bitcast", value, f"i{value.bits}")
        integer = code.resize(integer, f"i{width}", signed=type_.startswith("s"))
        value = code.cast("bitcast", integer, target)
        stride = code.resize(stride, f"i{width}", signed=True) if stride is not None else None
        if shape.kind in (AFFINE, STRIDED) and width > value.bits:
            raise PtxError(f"register '{ptx_name(name)}' is wider than the affine value written to it")
    emitter.store_register(name, value, shape, guard, stride)
    if name in emitter.graph.copies:
        emitter.store_register(emitter.graph.copies[name], value, shape, guard, stride)


_EMITTERS: dict[str, Callable[[Emitter, Op, Value | None], None]] = {
    "lane": _emit_lane,
    "carry": _emit_carry,
    "warp": _emit_warp,
    "atomic": _emit_atomic,
    "matrix": _written(matrices.emit_matrix),
    "warpgroup": _written(warpgroups.emit_product),
    "rows": _written(matrix_moves.emit_rows, "b32"),
    "fragment": _written(fragments.emit_move),
    "product": _written(fragments.emit_product),
    "tensor": _emit_tensor,
    "map": _emit_map,
    "texture": _written(textures.emit_read, "b64"),
    "surface": _written(textures.emit_surface, "b64"),
    "barrier": _emit_barrier,
    "cvta": _emit_cvta,
    "isspacep": _emit_isspacep,
    "fence": _emit_fence,
    "group": _emit_group,
    "policy": _emit_policy,
    "nothing": _emit_nothing,
    "mbarrier": _written(mbarriers.emit, "b64"),
    "bulk": _emit_bulk,
    "counted": _emit_counted,
    "fill": _emit_fill,
    "cluster": _emit_cluster,
    "bulk_group": _emit_bulk_group,
    "await": _emit_await,
    "control": _emit_control,
}
