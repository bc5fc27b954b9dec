"""Loads and stores themselves: the forms of a move, by the shape of its address and the lanes that run."""

from __future__ import annotations

from dataclasses import replace

from tilewright.errors import PtxError
from tilewright.simulate.code import Value, element_type
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.shape import VECTOR, Shape
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import (
    CLUSTER,
    Access,
    Group,
    address_shape,
    arena,
    base_offset,
    local_stride,
)
from tilewright.simulate.translate.memory.access_events import notify_affine
from tilewright.simulate.translate.memory.bounds import all_inside, check_group
from tilewright.simulate.translate.memory.gathers import gather, scatter
from tilewright.simulate.translate.memory.generic import access_places
from tilewright.simulate.translate.memory.lane_moves import either, load_lanes, store_lanes
from tilewright.simulate.translate.memory.strided import in_rows, move_rows

#: A compiler barrier: the compiler assumes that memory changes here; no instruction is executed.
_CLOBBER = 'call void asm sideeffect "", "~{memory}"()'


def emit_access(emitter: Emitter, access: Access) -> list[Value]:
    """Emit an access whose lanes are `emitter.mask`; a load returns its elements in the registers' widths.

    No access of the kernel moves across a volatile or ordered one, neither in the compiler nor in the processor.
    """
    modifiers = access.op.instruction.modifiers
    if access.fenced:
        emitter.code.line(_CLOBBER)
    if ".release" in modifiers:
        emitter.code.line("fence release")
    results = _move(emitter, access)
    if ".acquire" in modifiers:
        emitter.code.line("fence acquire")
    if access.fenced:
        emitter.code.line(_CLOBBER)
    return results


def _move(emitter: Emitter, access: Access) -> list[Value]:
    """The access itself."""
    if access.space == "param":
        return _load_param(emitter, access)
    shape = address_shape(emitter, access)
    if access.store:
        access.values = _store_sources(emitter, access)
    if access.space == "generic" and shape.kind != VECTOR:
        return _move_generic(emitter, access, shape)
    if access.space == CLUSTER or shape.kind == VECTOR:
        rows = in_rows(emitter, access)
        if rows is not None:
            return move_rows(emitter, access, rows, lambda: _move_lanes(emitter, access))
        return _move_lanes(emitter, access)
    relative = check_group(emitter, access, shape)
    notify_affine(emitter, access, relative, shape)
    return _move_at(emitter, access, relative, shape)


def _move_generic(emitter: Emitter, access: Access, shape: Shape) -> list[Value]:
    """Move an access of known lane offsets by these where all lanes are in global memory, and else lane by lane."""
    there = replace(access, space="global")
    relative = base_offset(emitter, there, base=True)
    good = all_inside(emitter, Group([there]), relative, shape)

    def in_global() -> list[Value]:
        notify_affine(emitter, there, relative, shape)
        return _move_at(emitter, there, relative, shape)

    return either(emitter, good, in_global, lambda: _move_lanes(emitter, access))


def _move_at(emitter: Emitter, access: Access, relative: Value, shape: Shape) -> list[Value]:
    """Move lanes at known offsets from a checked base."""
    pointer = emitter.code.op(f"getelementptr i8, ptr {arena(emitter, access.space)}, {relative}", "ptr")
    offsets = list(shape.offsets)
    if access.space == "local":
        offsets = [p + lane * local_stride(emitter) for lane, p in enumerate(offsets)]
    if access.store:
        store_lanes(emitter, pointer, access.offset, offsets, access.values)
        return []
    return load_lanes(emitter, pointer, access.offset, offsets, element_type(access.type), access.count)


def _load_param(emitter: Emitter, access: Access) -> list[Value]:
    """A kernel parameter: a load from the parameter block, bounded at translation."""
    if access.store:
        item = access.op.instruction
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' writes a parameter of the kernel, which can only "
            "be read; write to a local variable instead"
        )
    if access.offset < 0 or access.offset + access.total_bytes > emitter.layout.param_bytes:
        item = access.op.instruction
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' reads bytes {access.offset} to "
            f"{access.offset + access.total_bytes} of {emitter.layout.param_bytes} parameter bytes"
        )
    type_ = element_type(access.type)
    start = emitter.context("params", "ptr")
    values = []
    for index in range(access.count):
        at = access.offset + index * access.element_bytes
        pointer = emitter.code.op(f"getelementptr i8, ptr {start.text}, i64 {at}", "ptr")
        values.append(emitter.code.op(f"load {type_}, ptr {pointer.text}, align 1", type_))
    return values


def _store_sources(emitter: Emitter, access: Access) -> list[Value]:
    operand = access.op.instruction.operands[1]
    items = operand.items if isinstance(operand, tree.Vector) else (operand,)
    return [emitter.read(i, access.type) for i in items]


def _move_lanes(emitter: Emitter, access: Access) -> list[Value]:
    """Gather or scatter."""
    pointers = access_places(emitter, access)
    if not access.store:
        return gather(emitter, pointers, emitter.mask, element_type(access.type), access.count)
    scatter(emitter, pointers, emitter.mask, [emitter.code.splat(value) for value in access.values])
    return []
