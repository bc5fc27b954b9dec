"""From a graph with shapes to one LLVM function that runs a warp."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tilewright.errors import PtxError, TranslatorError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind
from tilewright.simulate.isa import Role, lower
from tilewright.simulate.isa.kinds import KINDS
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.translate.analysis.graph import CARRY, Block, Op
from tilewright.simulate.translate.analysis.shape import ANY_UNIFORM, ANY_VECTOR, VECTOR
from tilewright.simulate.translate.lowering import (
    barriers,
    calls,
    fragments,
    lanes,
    matrices,
    outline,
    stack,
    tensor_products,
    warpgroups,
)
from tilewright.simulate.translate.lowering.emitter import Emitter, guard_value
from tilewright.simulate.translate.lowering.flow import Flow
from tilewright.simulate.translate.lowering.lane_rows import (
    emit_lane,
    is_packed,
    letter_of,
    notify_values,
    read_sources,
    write_unpacked,
)
from tilewright.simulate.translate.lowering.results import shape_of, write
from tilewright.simulate.translate.memory import (
    bulk,
    generic,
    mbarriers,
    stores,
    tensor_copies,
    tensor_maps,
    tensor_memory,
    textures,
)
from tilewright.simulate.translate.memory.access import Access, group_accesses, space_of
from tilewright.simulate.translate.memory.copies import emit_copy
from tilewright.simulate.translate.memory.moves import emit_access


def emit_function(emitter: Emitter, symbol: str) -> Flow:
    """Emit a kernel into `emitter.code`; returns the flow, which has the warp record's size."""
    flow = Flow(emitter)
    outline.emit_kernel(flow, symbol, functools.partial(emit_block, emitter))
    return flow


def emit_block(emitter: Emitter, block: Block) -> None:
    """The instructions of a block, without its end."""
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
    if guard.lanes == LANES and KINDS[op.form.row.kind].pure:
        emit_unguarded(emitter, op, accesses, guard)  # its result is its only effect: a select is enough
        return
    outer, tallied = emitter.mask, emitter.tallied
    emitter.tallied = {}  # guarded lanes are counted separately
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
    if kind == "lane" and op.form.row.role is Role.COPY and is_packed(op):
        write_unpacked(emitter, op, guard)
        return
    _EMITTERS[kind](emitter, op, guard)


def _write_loaded(emitter: Emitter, op: Op, access: Access, guard: Value | None) -> None:
    values = emit_access(emitter, access)
    if access.store:
        return
    if access.space == "param" and (known := emitter.shapes.results(op)[0].constant) is not None:
        values = [emitter.code.const(value.type, known) for value in values]
    for name, value in zip(op.destinations, values, strict=True):
        write(emitter, name, value, access.type, shape_of(value), guard)


def _emit_carry(emitter: Emitter, op: Op, guard: Value | None) -> None:
    code = emitter.code
    carry = code.const("i1", 0)
    if op.form.row.takes_carry:
        carry = emitter.read(tree.Register(CARRY), "pred")
    value, out = lower(code, op.form, *read_sources(emitter, op, base=False), carry)
    write(emitter, op.destinations[0], value, op.form.type_of("d"), shape_of(value), guard)
    if op.form.has("cc"):
        write(emitter, CARRY, out, "pred", shape_of(out), guard)


def _emit_warp(emitter: Emitter, op: Op, guard: Value | None) -> None:
    if emitter.instruments:
        notify_values(emitter, op)
    values = lanes.emit_warp(emitter, op)
    letters = op.form.row.operands[0].split("|")
    for index, name in enumerate(op.destinations):
        value = values[index]
        type_ = "pred" if value.type == "i1" else op.form.type_of(letter_of(letters[min(index, len(letters) - 1)]))
        write(emitter, name, value, type_, shape_of(value), guard)


def _emit_atomic(emitter: Emitter, op: Op, guard: Value | None) -> None:
    for name, value in zip(op.destinations, lanes.emit_atomic(emitter, op), strict=False):
        write(emitter, name, value, op.form.type_of("d"), ANY_VECTOR, guard)


def _written(
    values: Callable[[Emitter, Op], Sequence[Value]], type_: str = ""
) -> Callable[[Emitter, Op, Value | None], None]:
    """A function that writes results, as a given type or as the form's types."""

    def emit(emitter: Emitter, op: Op, guard: Value | None) -> None:
        for name, value in zip(op.destinations, values(emitter, op), strict=True):
            write(emitter, name, value, type_ or op.form.type_of("d"), ANY_VECTOR, guard)

    return emit


def _alone(emit: Callable[[Emitter, Op], None]) -> Callable[[Emitter, Op, Value | None], None]:
    """A function that needs no guard."""
    return lambda emitter, op, guard: emit(emitter, op)


def _emit_barrier(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """`flow` emits barriers, at the end of a block. Here the released lanes read a reduction's result."""
    if ".warp" in op.instruction.modifiers:
        if emitter.instruments:
            members = emitter.code.splat(emitter.read(op.sources[0], "b32"))
            emitter.code.line(f"store {members}, ptr %values, align 64")
            emitter.event(EventKind.SYNC, op.instruction, emitter.mask, Value("%values", "ptr"))
            notify_values(emitter, op)
    if op.destinations:
        type_ = "pred" if ".pred" in op.instruction.modifiers else "u32"
        write(emitter, op.destinations[0], barriers.emit_reduction_result(emitter, op), type_, ANY_UNIFORM, guard)


def _emit_cluster(emitter: Emitter, op: Op, guard: Value | None) -> None:
    emitter.event(EventKind.CLUSTER, op.instruction, emitter.mask)
    barriers.arrive_at_cluster(emitter, op)


def _emit_bulk_group(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Copies are complete when they are issued; instruments are notified when the program may rely on it."""
    if not op.form.has("wait_group"):
        emitter.event(EventKind.BULK_COMMIT, op.instruction, emitter.mask)
        return
    left = emitter.code.const("i32", _groups_left(emitter, op))
    emitter.event(EventKind.BULK_WAIT, op.instruction, emitter.mask, left)


def _groups_left(emitter: Emitter, op: Op) -> int:
    """The number of groups that a wait leaves in flight, a literal."""
    (left,) = op.instruction.operands
    if not isinstance(left, tree.Immediate):
        raise PtxError(f"{_at(emitter, op)} takes a literal number of groups (got {operand_text(left)})")
    return left.value


def _emit_await(emitter: Emitter, op: Op, guard: Value | None) -> None:
    complete = mbarriers.emit_test(emitter, op)
    write(emitter, op.destinations[0], complete, "pred", shape_of(complete), guard)


def _emit_cvta(emitter: Emitter, op: Op, guard: Value | None) -> None:
    code = emitter.code
    item = op.instruction
    space = next((m[1:].partition("::")[0] for m in item.modifiers if space_of(m[1:])), "global")
    type_ = item.modifiers[-1][1:]
    shape = emitter.shapes.results(op)[0]
    value = emitter.read(op.sources[0], type_, base=shape.kind != VECTOR)
    window = code.const(value.type, generic.window_of(space))
    value = code.sub(value, window) if ".to" in item.modifiers else code.add(value, window)
    if space == "param" and value.bits == 64:  # Triton keeps addresses of parameters in 32 bits
        upper = code.and_(emitter.context("params_address"), code.const("i64", -1 << 32))
        value = code.select(code.icmp("ult", value, code.const("i64", 1 << 32)), code.or_(value, upper), value)
    write(emitter, op.destinations[0], value, type_, shape if shape.kind != VECTOR else shape_of(value), guard)


def _emit_isspacep(emitter: Emitter, op: Op, guard: Value | None) -> None:
    part = op.instruction.modifiers[-1][1:]
    space = "const" if part == "const" else space_of(part)
    value = generic.is_space(emitter, emitter.read(op.sources[0], "u64"), space)
    write(emitter, op.destinations[0], value, "pred", shape_of(value), guard)


def _emit_fence(emitter: Emitter, op: Op, guard: Value | None) -> None:
    emitter.code.line("fence seq_cst")
    emitter.event(EventKind.FENCE, op.instruction, emitter.mask)


def _emit_group(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Copies and products are complete when they are issued; instruments are notified at the wait."""
    item, form = op.instruction, op.form
    if form.has("wait_group"):
        left = emitter.code.const("i32", _groups_left(emitter, op))
        emitter.event(EventKind.WAIT, item, emitter.mask, left)
        return
    emitter.event(EventKind.COMMIT, item, emitter.mask)
    if form.has("wait_all"):
        emitter.event(EventKind.WAIT, item, emitter.mask, emitter.code.const("i32", 0))


def _emit_policy(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """There are no caches, so this has no effect."""
    write(emitter, op.destinations[0], emitter.code.const("i64", 0), "b64", ANY_UNIFORM, guard)


def _emit_nothing(emitter: Emitter, op: Op, guard: Value | None) -> None:
    """Hints have no effect."""


_EMITTERS: dict[str, Callable[[Emitter, Op, Value | None], None]] = {
    "lane": emit_lane,
    "carry": _emit_carry,
    "warp": _emit_warp,
    "atomic": _emit_atomic,
    "matrix": _written(matrices.emit_matrix),
    "warpgroup": _written(warpgroups.emit_product),
    "columns": _written(tensor_memory.emit, "b32"),
    "tensor_product": _written(tensor_products.emit),
    "rows": _written(matrices.emit_rows, "b32"),
    "fragment": _written(fragments.emit_move),
    "product": _written(fragments.emit_product),
    "tensor": _alone(tensor_copies.emit_copy),
    "map": _alone(tensor_maps.emit),
    "texture": _written(textures.emit_read, "b64"),
    "surface": _written(textures.emit_surface, "b64"),
    "barrier": _emit_barrier,
    "stack": stack.emit,
    "cvta": _emit_cvta,
    "isspacep": _emit_isspacep,
    "fence": _emit_fence,
    "group": _emit_group,
    "policy": _emit_policy,
    "nothing": _emit_nothing,
    "mbarrier": _written(mbarriers.emit, "b64"),
    "bulk": _alone(bulk.emit),
    "counted": _alone(stores.emit_counted),
    "fill": _alone(stores.emit_fill),
    "cluster": _emit_cluster,
    "bulk_group": _emit_bulk_group,
    "await": _emit_await,
    "control": _alone(calls.emit_call),
}
