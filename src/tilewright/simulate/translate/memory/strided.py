"""Loads and stores whose lanes lie in rows of one stride: a plain move for each row, if all rows are in the arena.

``a[row * n + column]`` in a block of 16 x 16 threads is two rows a warp, `n` elements apart. One check covers the least
and the greatest address of the lanes; if it fails, each lane is checked by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.simulate.code import LANES, Value, element_type
from tilewright.simulate.state import AFFINE_SPAN_MAX
from tilewright.simulate.translate.analysis.shape import STRIDED, Shape
from tilewright.simulate.translate.lowering.emitter import ALL_LANES, Emitter
from tilewright.simulate.translate.memory.access import Access, arena, base_offset, limit
from tilewright.simulate.translate.memory.access_events import notify_strided
from tilewright.simulate.translate.memory.bounds import checked_offsets, lane_places
from tilewright.simulate.translate.memory.lane_moves import RUNS_MAX, either, load_lanes, plain_stores, unit_runs

#: Strides are below this, so that no sum in the check can wrap.
_STRIDE_BITS = 40


def in_rows(emitter: Emitter, access: Access) -> Shape | None:
    """The shape of an access's address if it can be moved by rows, else None."""
    shape = emitter.shapes.operand(access.address)
    if shape.kind != STRIDED or access.space not in ("global", "shared", "generic"):
        return None
    lane_offsets = shape.lane_offsets
    if any(p % access.alignment for p in lane_offsets) or max(lane_offsets) - min(lane_offsets) > AFFINE_SPAN_MAX:
        return None
    if access.store and (access.count > 1 or len(_runs(access, shape)) > RUNS_MAX):
        return None
    return shape


def move_rows(emitter: Emitter, access: Access, shape: Shape, lane_by_lane: Callable[[], list[Value]]) -> list[Value]:
    """Move by rows, or lane by lane if the check at run time fails: of generic addresses all lanes must be global."""
    code, generic = emitter.code, access.space == "generic"
    access = replace(access, space="global") if generic else access
    stride = emitter.stride_of(access.address)
    assert stride is not None
    stride = code.resize(stride, "i64", signed=True)
    relative = base_offset(emitter, access, base=True)
    good = _inside(emitter, access, shape, relative, stride)
    if emitter.instruments and not generic:
        _check(emitter, access, good)
        notify_strided(emitter, access, relative, stride, shape)
    if access.store:
        good = code.and_(good, code.icmp("eq", emitter.mask, ALL_LANES))

    def by_rows() -> list[Value]:
        if generic:
            notify_strided(emitter, access, relative, stride, shape)
        starts = {row: _start(emitter, access, relative, stride, row) for row in sorted(set(shape.rows))}
        if not access.store:
            return _load_rows(emitter, access, shape, starts)
        _store_rows(emitter, access, shape, starts)
        return []

    return either(emitter, good, by_rows, lane_by_lane)


def _check(emitter: Emitter, access: Access, good: Value) -> None:
    """Go on if all running lanes are inside, so that instruments may be notified once."""
    code = emitter.code
    access.notified = True
    fine, look = code.label("fine"), code.label("look")
    code.branch_if(good, fine, look, likely=True)
    code.place(look)
    (lane_places if emitter.is_cut else checked_offsets)(emitter, access, "")
    code.branch(fine)
    code.place(fine)


def _inside(emitter: Emitter, access: Access, shape: Shape, relative: Value, stride: Value) -> Value:
    """Whether every lane, active or not, is in the arena and aligned."""
    code = emitter.code
    rows = [code.mul(stride, code.const("i64", row)) for row in {min(shape.rows), max(shape.rows), 0}]
    lowest = highest = rows[0]
    for row in rows[1:]:
        lowest, highest = code.call("llvm.smin", "i64", lowest, row), code.call("llvm.smax", "i64", highest, row)
    first = code.add(relative, code.const("i64", access.offset + min(shape.lane_offsets)))
    last = code.add(relative, code.const("i64", access.offset + max(shape.lane_offsets) + access.total_bytes))
    bound = limit(emitter, access.space)
    good = code.and_(code.icmp("ule", code.add(first, lowest), bound), code.icmp("ule", code.add(last, highest), bound))
    around = code.add(stride, code.const("i64", 1 << _STRIDE_BITS))
    good = code.and_(good, code.icmp("ule", around, code.const("i64", 2 << _STRIDE_BITS)))
    if access.alignment > 1:
        low = code.or_(code.add(relative, code.const("i64", access.offset)), stride)
        low = code.and_(low, code.const("i64", access.alignment - 1))
        good = code.and_(good, code.icmp("eq", low, code.const("i64", 0)))
    return good


def _start(emitter: Emitter, access: Access, relative: Value, stride: Value, row: int) -> Value:
    """A pointer to the place of lane 0 in a row."""
    code = emitter.code
    offset = code.add(relative, code.mul(stride, code.const("i64", row)))
    return code.op(f"getelementptr i8, ptr {arena(emitter, access.space)}, {offset}", "ptr")


def _load_rows(emitter: Emitter, access: Access, shape: Shape, starts: dict[int, Value]) -> list[Value]:
    code = emitter.code
    whole: list[Value] = []
    for row, start in starts.items():
        lanes = [lane for lane in range(LANES) if shape.rows[lane] == row]
        # the other lanes repeat a lane of this row
        lane_offsets = [shape.lane_offsets[lane if lane in lanes else lanes[0]] for lane in range(LANES)]
        loaded = load_lanes(emitter, start, access.offset, lane_offsets, element_type(access.type), access.count)
        parts = [code.splat(value) for value in loaded]
        whole = [code.blend(a, b, lanes) for a, b in zip(whole, parts, strict=True)] if whole else parts
    return whole


def _runs(access: Access, shape: Shape) -> list[tuple[int, int]]:
    """Runs of adjacent elements of one row: the first lane and the number of lanes."""
    apart = [p + (row << 30) for p, row in zip(shape.lane_offsets, shape.rows, strict=True)]
    return unit_runs(apart, access.element_bytes)


def _store_rows(emitter: Emitter, access: Access, shape: Shape, starts: dict[int, Value]) -> None:
    value = emitter.code.splat(access.values[0])
    for lane, count in _runs(access, shape):
        plain_stores(emitter, starts[shape.rows[lane]], access.offset, shape.lane_offsets, value, [(lane, count)])
