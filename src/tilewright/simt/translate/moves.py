"""Loads and stores themselves: the forms of a move, by the shape of its address and the lanes that run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import PtxError
from tilewright.native.text import mangle
from tilewright.ptx import tree
from tilewright.simt.translate.access import Access, address_shape, arena, local_stride
from tilewright.simt.translate.access_events import notify_affine
from tilewright.simt.translate.bounds import check_group
from tilewright.simt.translate.code import LANES, Value, element_type
from tilewright.simt.translate.emitter import ALL_LANES, Emitter
from tilewright.simt.translate.generic import access_pointers
from tilewright.simt.translate.shape import VECTOR

#: Nothing in memory is known across this, and nothing is executed for it.
_CLOBBER = 'call void asm sideeffect "", "~{memory}"()'
#: Distinct elements up to which single loads beat one wide load and a shuffle.
_SINGLE_LOADS_MAX = 4
#: Bytes of the widest single vector load.
_WINDOW_BYTES_MAX = 1024
#: Runs of neighbouring elements up to which they are loaded or stored one by one, rather than lane by lane.
RUNS_MAX = 8


def emit_access(emitter: Emitter, access: Access) -> list[Value]:
    """Emit an access whose lanes are `emitter.mask`; a load returns its elements as stored in registers' widths.

    Nothing of the kernel moves across a volatile or ordered access, in the host's compiler or in its processor.
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
    if access.space == "generic" or shape.kind == VECTOR:
        from tilewright.simt.translate.strided import in_rows, move_rows  # which moves rows as this does

        rows = in_rows(emitter, access)
        if rows is not None:
            return move_rows(emitter, access, rows, lambda: _move_lanes(emitter, access))
        return _move_lanes(emitter, access)
    relative = check_group(emitter, access, shape)
    notify_affine(emitter, access, relative, shape)
    pointer = emitter.code.op(f"getelementptr i8, ptr {arena(emitter, access.space)}, {relative}", "ptr")
    offsets = list(shape.offsets)
    if access.space == "local":
        offsets = [p + lane * local_stride(emitter) for lane, p in enumerate(offsets)]
    results = []
    for index in range(access.count):
        at = access.offset + index * access.element_bytes
        if access.store:
            _store_lanes(emitter, pointer, at, offsets, access.values[index])
        else:
            results.append(load_lanes(emitter, pointer, at, offsets, element_type(access.type)))
    return results


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


def load_lanes(emitter: Emitter, pointer: Value, at: int, offsets: list[int], type_: str) -> Value:
    """Load elements at lanes' offsets: a load and a splat, a vector load, a window and a shuffle, runs, or a gather."""
    code = emitter.code
    size = Value("", type_).bits // 8
    distinct = sorted(set(offsets))
    if len(distinct) == 1:
        return code.op(f"load {type_}, ptr {_at(emitter, pointer, at + distinct[0])}, align 1", type_)
    low = distinct[0]
    if all((p - low) % size == 0 for p in distinct):
        lanes = [(p - low) // size for p in offsets]
        if len(distinct) <= _SINGLE_LOADS_MAX:
            return _load_few(emitter, pointer, at, offsets, distinct, type_)
        width = max(lanes) + 1
        if width * size <= _WINDOW_BYTES_MAX:
            window = f"<{width} x {type_}>"
            value = code.op(f"load {window}, ptr {_at(emitter, pointer, at + low)}, align 1", type_, width)
            if lanes == list(range(LANES)):
                return value
            order = ", ".join(f"i32 {i}" for i in lanes)
            return code.op(f"shufflevector {value}, {window} poison, <{LANES} x i32> <{order}>", type_, LANES)
    runs = unit_runs(offsets, size)
    if len(runs) <= RUNS_MAX:
        parts = []
        for lane, count in runs:
            start = _at(emitter, pointer, at + offsets[lane])
            parts.append(code.op(f"load <{count} x {type_}>, ptr {start}, align 1", type_, count))
        return code.concatenated(parts)
    pointers = code.op(
        f"getelementptr i8, ptr {pointer.text}, {code.constants('i64', [p + at for p in offsets])}", "ptr", LANES
    )
    return gather(emitter, pointers, ALL_LANES, type_)


def unit_runs(offsets: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Where neighbouring lanes have neighbouring elements: the first lane and the number of each such run.

    >>> unit_runs([0, 4, 64, 68, 72], 4)
    [(0, 2), (2, 3)]
    """
    starts = [lane for lane in range(len(offsets)) if lane == 0 or offsets[lane] != offsets[lane - 1] + size]
    return [(a, b - a) for a, b in zip(starts, [*starts[1:], len(offsets)], strict=True)]


def _load_few(emitter: Emitter, pointer: Value, at: int, offsets: list[int], distinct: list[int], type_: str) -> Value:
    code = emitter.code
    vector = f"<{len(distinct)} x {type_}>"
    gathered = Value("poison", type_, len(distinct))
    for index, offset in enumerate(distinct):
        element = code.op(f"load {type_}, ptr {_at(emitter, pointer, at + offset)}, align 1", type_)
        gathered = code.op(f"insertelement {gathered}, {element}, i32 {index}", type_, len(distinct))
    order = ", ".join(f"i32 {distinct.index(p)}" for p in offsets)
    return code.op(f"shufflevector {gathered}, {vector} poison, <{LANES} x i32> <{order}>", type_, LANES)


def _store_lanes(emitter: Emitter, pointer: Value, at: int, offsets: list[int], value: Value) -> None:
    """Store under the mask: one store, a masked vector store, or a masked scatter."""
    code = emitter.code
    size = value.bits // 8
    if len(set(offsets)) == 1:  # every lane writes the same place: the last one stays
        if value.lanes != 1:
            leading = code.call("llvm.ctlz", "i32", emitter.mask, flags="i1 false")
            last = code.sub(code.const("i32", LANES - 1), leading)
            value = code.lane(value, code.and_(last, code.const("i32", LANES - 1)))
        code.line(f"store {value}, ptr {_at(emitter, pointer, at + offsets[0])}, align 1")
        return
    value = code.splat(value)
    runs = unit_runs(offsets, size)

    def plain() -> None:
        plain_stores(emitter, pointer, at, offsets, value, runs)

    def masked() -> None:
        if len(runs) == 1:
            symbol = f"llvm.masked.store.{mangle(value.type, LANES)}.p0"
            place = _at(emitter, pointer, at + offsets[0])
            code.invoke(symbol, "void", value, f"ptr align 1 {place}", code.mask_lanes(emitter.mask))
            return
        pointers = code.op(
            f"getelementptr i8, ptr {pointer.text}, {code.constants('i64', [p + at for p in offsets])}", "ptr", LANES
        )
        scatter(emitter, pointers, emitter.mask, value)

    by_fullness(emitter, plain if len(runs) <= RUNS_MAX else None, masked, slow=len(runs) > 1)


def plain_stores(
    emitter: Emitter, pointer: Value, at: int, offsets: Sequence[int], value: Value, runs: Sequence[tuple[int, int]]
) -> None:
    """Store runs of lanes, in their order: where two lanes write the same place, the last one stays."""
    for lane, count in runs:
        part = emitter.code.part(value, lane, count)
        emitter.code.line(f"store {part}, ptr {_at(emitter, pointer, at + offsets[lane])}, align 1")


def by_fullness(emitter: Emitter, plain: Callable[[], None] | None, masked: Callable[[], None], *, slow: bool) -> None:
    """Emit a store's plain form where all lanes run, and its masked form elsewhere.

    Where only the run knows the mask, both are emitted, unless the masked form is as fast: no `slow` scatter, on a host
    with mask registers.
    """
    code = emitter.code
    if plain is not None and emitter.mask == ALL_LANES:
        plain()
    elif plain is None or (code.host.mask_registers and not slow):
        masked()
    else:
        all_, some, done = code.label("all"), code.label("some"), code.label("stored")
        code.branch_if(code.icmp("eq", emitter.mask, ALL_LANES), all_, some)
        code.place(all_)
        plain()
        code.branch(done)
        code.place(some)
        masked()
        code.branch(done)
        code.place(done)


def _move_lanes(emitter: Emitter, access: Access) -> list[Value]:
    """Gather or scatter, one element of a vector access at a time."""
    code = emitter.code
    pointers = access_pointers(emitter, access)
    type_ = element_type(access.type)
    results = []
    for index in range(access.count):
        at = pointers
        if index:
            step = code.splat(code.const("i64", index * access.element_bytes))
            at = code.op(f"getelementptr i8, <{LANES} x ptr> {pointers.text}, {step}", "ptr", LANES)
        if access.store:
            scatter(emitter, at, emitter.mask, code.splat(access.values[index]))
        else:
            results.append(gather(emitter, at, emitter.mask, type_))
    return results


def _at(emitter: Emitter, pointer: Value, offset: int) -> str:
    if offset == 0:
        return pointer.text
    return emitter.code.op(f"getelementptr i8, ptr {pointer.text}, i64 {offset}", "ptr").text


def gather(emitter: Emitter, pointers: Value, mask: Value, type_: str) -> Value:
    """Load from each lane's own place under a mask; zeros where it is off."""
    code = emitter.code
    result = f"<{LANES} x {type_}>"
    symbol = f"llvm.masked.gather.{mangle(type_, LANES)}.v{LANES}p0"
    places, lanes = f"<{LANES} x ptr> align 1 {pointers.text}", code.mask_lanes(mask)
    return Value(code.invoke(symbol, result, places, lanes, f"{result} zeroinitializer"), type_, LANES)


def scatter(emitter: Emitter, pointers: Value, mask: Value, value: Value) -> None:
    """Store to each lane's own place under a mask; where two write the same one, the later lane's value stays."""
    code = emitter.code
    symbol = f"llvm.masked.scatter.{mangle(value.type, LANES)}.v{LANES}p0"
    code.invoke(symbol, "void", value, f"<{LANES} x ptr> align 1 {pointers.text}", code.mask_lanes(mask))
