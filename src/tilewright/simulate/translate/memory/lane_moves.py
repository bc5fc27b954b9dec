"""Elements of a move at each lane's offset: single ones, windows with shuffles, runs, or a gather or scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ground.native.text import mangle
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.translate.lowering.emitter import ALL_LANES, Emitter
from tilewright.simulate.translate.memory.gathers import gather, scatter

#: Up to this number of distinct elements, single loads are faster than a wide load and a shuffle.
_SINGLE_LOADS_MAX = 4
#: Bytes of the widest single vector load.
_WINDOW_BYTES_MAX = 1024
#: Up to this number of runs of adjacent elements, runs are moved one by one, not lane by lane.
RUNS_MAX = 8


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


def store_lanes(emitter: Emitter, pointer: Value, at: int, offsets: list[int], values: Sequence[Value]) -> None:
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


def either(
    emitter: Emitter, good: Value, fast: Callable[[], list[Value]], slow: Callable[[], list[Value]]
) -> list[Value]:
    """Emit a move in two forms; a condition that is likely chooses the first. A load returns vectors."""
    code = emitter.code
    fast_start, slow_start, done = code.label("fast"), code.label("lanes"), code.label("moved")
    code.branch_if(good, fast_start, slow_start, likely=True)
    forms, emitter.forms = [], {}
    for start, emit in ((fast_start, fast), (slow_start, slow)):
        code.place(start)
        values, end = [code.splat(value) for value in emit()], code.label("end")
        code.branch(end)
        code.place(end)
        code.branch(done)
        forms.append((values, end))
    emitter.forms = None
    code.place(done)
    (first, fast_end), (second, slow_end) = forms
    return [
        code.op(f"phi {a.ir_type} [ {a.text}, %{fast_end} ], [ {b.text}, %{slow_end} ]", a.type, LANES)
        for a, b in zip(first, second, strict=True)
    ]


def _places(emitter: Emitter, pointer: Value, at: int, offsets: Sequence[int]) -> Value:
    code = emitter.code
    return code.op(f"getelementptr i8, {pointer}, {code.constants('i64', [p + at for p in offsets])}", "ptr", LANES)


def _at(emitter: Emitter, pointer: Value, offset: int) -> str:
    if offset == 0:
        return pointer.text
    return emitter.code.op(f"getelementptr i8, ptr {pointer.text}, i64 {offset}", "ptr").text
