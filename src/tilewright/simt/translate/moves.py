"""Loads and stores themselves: the forms of a move, by the shape of its address and the lanes that run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import PtxError
from tilewright.native.text import mangle
from tilewright.ptx import tree
from tilewright.simt.translate.access import CLUSTER, Access, address_shape, arena, local_stride
from tilewright.simt.translate.access_events import notify_affine
from tilewright.simt.translate.bounds import check_group
from tilewright.simt.translate.code import LANES, Value, element_type
from tilewright.simt.translate.emitter import ALL_LANES, Emitter
from tilewright.simt.translate.gathers import gather, scatter
from tilewright.simt.translate.generic import access_places
from tilewright.simt.translate.shape import VECTOR

#: A compiler barrier: the compiler assumes that memory changes here; no instruction is executed.
_CLOBBER = 'call void asm sideeffect "", "~{memory}"()'
#: Up to this number of distinct elements, single loads are faster than a wide load and a shuffle.
_SINGLE_LOADS_MAX = 4
#: Bytes of the widest single vector load.
_WINDOW_BYTES_MAX = 1024
#: Up to this number of runs of adjacent elements, runs are moved one by one, not lane by lane.
RUNS_MAX = 8


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
    if access.space in ("generic", CLUSTER) or shape.kind == VECTOR:
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
    if access.store:
        _store_lanes(emitter, pointer, access.offset, offsets, access.values)
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


def load_lanes(
    emitter: Emitter, pointer: Value, at: int, offsets: list[int], type_: str, count: int = 1
) -> list[Value]:
    """Load `count` elements at each lane's offset: single loads, a window and shuffles, runs, or a gather."""
    size = Value("", type_).bits // 8
    distinct = sorted(set(offsets))
    low = distinct[0]
    if all((p - low) % size == 0 for p in distinct):
        lanes = [(p - low) // size for p in offsets]
        if len(distinct) <= _SINGLE_LOADS_MAX:
            return [_load_few(emitter, pointer, at + i * size, offsets, distinct, type_) for i in range(count)]
        if (max(lanes) + count) * size <= _WINDOW_BYTES_MAX:
            return _load_window(emitter, pointer, at + low, lanes, type_, count)
    runs = unit_runs(offsets, size)
    if len(runs) <= RUNS_MAX:
        return [_load_runs(emitter, pointer, at + i * size, offsets, type_, runs) for i in range(count)]
    return gather(emitter, _places(emitter, pointer, at, offsets), ALL_LANES, type_, count)


def _load_window(emitter: Emitter, pointer: Value, at: int, lanes: list[int], type_: str, count: int) -> list[Value]:
    """Load the whole range of the lanes' elements once and shuffle; `lanes` counts in elements.

    Vectors have 32 elements, because LLVM splits other shuffles into elements. Elements of the last vector beyond the
    range are in the arena or its slack.
    """
    code, size = emitter.code, Value("", type_).bits // 8
    starts = range(0, max(lanes) + count, LANES)
    window = [
        code.op(f"load <{LANES} x {type_}>, ptr {_at(emitter, pointer, at + i * size)}, align 1", type_, LANES)
        for i in starts
    ]
    return [code.taken(window, [lane + i for lane in lanes]) for i in range(count)]


def _load_runs(
    emitter: Emitter, pointer: Value, at: int, offsets: list[int], type_: str, runs: Sequence[tuple[int, int]]
) -> Value:
    parts = []
    for lane, count in runs:
        start = _at(emitter, pointer, at + offsets[lane])
        parts.append(emitter.code.op(f"load <{count} x {type_}>, ptr {start}, align 1", type_, count))
    return emitter.code.concatenated(parts)


def unit_runs(offsets: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Runs of adjacent lanes with adjacent elements: the first lane and the number of lanes.

    >>> unit_runs([0, 4, 64, 68, 72], 4)
    [(0, 2), (2, 3)]
    """
    starts = [lane for lane in range(len(offsets)) if lane == 0 or offsets[lane] != offsets[lane - 1] + size]
    return [(a, b - a) for a, b in zip(starts, [*starts[1:], len(offsets)], strict=True)]


def _load_few(emitter: Emitter, pointer: Value, at: int, offsets: list[int], distinct: list[int], type_: str) -> Value:
    code = emitter.code
    elements = [
        code.op(f"load {type_}, ptr {_at(emitter, pointer, at + offset)}, align 1", type_) for offset in distinct
    ]
    if len(elements) == 1:
        return elements[0]
    vector = f"<{len(distinct)} x {type_}>"
    gathered = Value("poison", type_, len(distinct))
    for index, element in enumerate(elements):
        gathered = code.op(f"insertelement {gathered}, {element}, i32 {index}", type_, len(distinct))
    order = ", ".join(f"i32 {distinct.index(p)}" for p in offsets)
    return code.op(f"shufflevector {gathered}, {vector} poison, <{LANES} x i32> <{order}>", type_, LANES)


def _store_lanes(emitter: Emitter, pointer: Value, at: int, offsets: list[int], values: Sequence[Value]) -> None:
    """Store consecutive elements under the mask: plain or masked vector stores, or a scatter."""
    code = emitter.code
    size = values[0].bits // 8
    if len(set(offsets)) == 1:
        for index, value in enumerate(values):
            _store_last(emitter, _at(emitter, pointer, at + offsets[0] + index * size), value)
        return
    vectors = [code.splat(value) for value in values]
    runs = unit_runs(offsets, size)

    def plain() -> None:
        for index, value in enumerate(vectors):
            plain_stores(emitter, pointer, at + index * size, offsets, value, runs)

    def masked() -> None:
        if len(runs) == 1 and len(vectors) == 1 and code.host.stores_masked(vectors[0].bits):
            value = vectors[0]
            symbol = f"llvm.masked.store.{mangle(value.type, LANES)}.p0"
            place = _at(emitter, pointer, at + offsets[0])
            code.invoke(symbol, "void", value, f"ptr align 1 {place}", code.mask_lanes(emitter.mask))
            return
        scatter(emitter, _places(emitter, pointer, at, offsets), emitter.mask, vectors)

    by_fullness(emitter, plain if len(runs) <= RUNS_MAX else None, masked, slow=len(runs) > 1)


def _store_last(emitter: Emitter, place: str, value: Value) -> None:
    """Store if every lane writes to the same place: the last lane wins."""
    code = emitter.code
    if value.lanes != 1:
        leading = code.call("llvm.ctlz", "i32", emitter.mask, flags="i1 false")
        last = code.sub(code.const("i32", LANES - 1), leading)
        value = code.lane(value, code.and_(last, code.const("i32", LANES - 1)))
    code.store(value, place, 1)


def plain_stores(
    emitter: Emitter, pointer: Value, at: int, offsets: Sequence[int], value: Value, runs: Sequence[tuple[int, int]]
) -> None:
    """Store runs of lanes, in their order: of two lanes with the same place, the last one wins."""
    for lane, count in runs:
        part = emitter.code.part(value, lane, count)
        emitter.code.store(part, _at(emitter, pointer, at + offsets[lane]), 1)


def by_fullness(emitter: Emitter, plain: Callable[[], None] | None, masked: Callable[[], None], *, slow: bool) -> None:
    """Emit the plain form of a store for a full mask, and its masked form otherwise.

    For a mask known only at run time, both are emitted, unless the masked form is as fast: on a host with mask
    registers, if it is not a `slow` scatter.
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
    """Gather or scatter."""
    pointers = access_places(emitter, access)
    if not access.store:
        return gather(emitter, pointers, emitter.mask, element_type(access.type), access.count)
    scatter(emitter, pointers, emitter.mask, [emitter.code.splat(value) for value in access.values])
    return []


def _places(emitter: Emitter, pointer: Value, at: int, offsets: Sequence[int]) -> Value:
    code = emitter.code
    return code.op(f"getelementptr i8, {pointer}, {code.constants('i64', [p + at for p in offsets])}", "ptr", LANES)


def _at(emitter: Emitter, pointer: Value, offset: int) -> str:
    if offset == 0:
        return pointer.text
    return emitter.code.op(f"getelementptr i8, ptr {pointer.text}, i64 {offset}", "ptr").text
