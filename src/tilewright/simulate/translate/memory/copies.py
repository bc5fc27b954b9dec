"""Asynchronous copies from global to shared memory: the bytes move when they are issued.

If the lanes of both sides are at constant offsets, adjacent ones are moved together, in vectors. Otherwise the runtime
moves each lane's bytes (`gathers.c`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import GLOBAL_BASE
from tilewright.simulate.translate.analysis.shape import VECTOR
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import Access, address_shape, arena, base_offset, limit, reads_some
from tilewright.simulate.translate.memory.access_events import notify, notify_affine
from tilewright.simulate.translate.memory.bounds import check_group, fault_unless, vector_pointers
from tilewright.simulate.translate.memory.lane_moves import by_fullness


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of the lanes' bytes: a pointer for each lane, or one pointer and constant offsets."""

    start: Value
    offsets: tuple[int, ...] = ()

    def pointers(self, emitter: Emitter) -> Value:
        """A pointer for each lane."""
        if not self.offsets:
            return self.start
        code = emitter.code
        return code.op(f"getelementptr i8, {self.start}, {code.constants('i64', self.offsets)}", "ptr", LANES)


def emit_copy(emitter: Emitter, source: Access, target: Access) -> None:
    """Copy, for the lanes that run; both sides are checked first."""
    size = _bytes_read(emitter, source)
    origin = _places(emitter, source) if size is None else _some_places(emitter, source, size)
    place = _places(emitter, target)

    def together() -> None:
        for lane, count in _runs(origin.offsets, place.offsets, source.total_bytes):
            vector = f"<{count * source.total_bytes // 4} x i32>"
            start, end = (_at(emitter, side.start, side.offsets[lane]) for side in (origin, place))
            words = emitter.code.op(f"load {vector}, ptr {start}, align 1", vector)
            emitter.code.line(f"store {words}, ptr {end}, align 1")

    constant = size is None and origin.offsets and place.offsets
    by_fullness(
        emitter, together if constant else None, lambda: _by_lane(emitter, source, origin, place, size), slow=True
    )


def _bytes_read(emitter: Emitter, source: Access) -> Value | None:
    """The number of bytes that each lane reads; None for all."""
    op, code = source.op, emitter.code
    if not reads_some(op):
        return None
    operand, most = op.instruction.operands[3], source.total_bytes
    if isinstance(operand, tree.Immediate):
        if not 0 <= operand.value <= most:
            item = op.instruction
            raise PtxError(
                f"{emitter.module.path}:{item.ptx_line}: '{item.name}' reads 0 to {most} bytes (got {operand.value})"
            )
        return None if operand.value == most else code.const("i32", operand.value)
    inner = operand.operand if isinstance(operand, tree.Negated) else operand
    name = inner.name if isinstance(inner, tree.Register) else ""
    if emitter.graph.registers.get(name) == ".pred":
        ignored = emitter.read(operand, "pred")
        return code.select(ignored, code.const("i32", 0), code.const("i32", most))
    # Larger numbers are undefined in the manual.
    return code.call("llvm.umin", "i32", emitter.read(operand, "b32"), code.const("i32", most))


def _places(emitter: Emitter, access: Access) -> _Places:
    """The places of the lanes' bytes, checked."""
    shape = address_shape(emitter, access)
    if shape.kind == VECTOR:
        return _Places(vector_pointers(emitter, access, ""))
    relative = check_group(emitter, access, shape)
    notify_affine(emitter, access, relative, shape)
    start = emitter.code.op(f"getelementptr i8, ptr {arena(emitter, access.space)}, {relative}", "ptr")
    return _Places(start, tuple(p + access.offset for p in shape.offsets))


def _some_places(emitter: Emitter, access: Access, size: Value) -> _Places:
    """Copies whose number of bytes is known only at run time; a lane that reads none may have any address."""
    code, outer = emitter.code, emitter.mask
    offsets = code.splat(code.add(base_offset(emitter, access, base=False), code.const("i64", access.offset)))
    bound, end = limit(emitter, access.space), code.add(offsets, code.cast("zext", size, "i64"))
    inside = code.and_(code.icmp("ule", offsets, bound), code.icmp("ule", end, bound))
    low = code.and_(offsets, code.const("i64", access.total_bytes - 1))
    inside = code.and_(inside, code.icmp("eq", low, code.const("i64", 0)))
    reads = code.icmp("ne", code.splat(size), code.const("i32", 0))
    emitter.mask = code.and_(outer, code.mask_bits(reads))
    fault_unless(emitter, access, inside, offsets, GLOBAL_BASE)
    if emitter.instruments:
        _notify_parts(emitter, access, code.add(offsets, code.const("i64", GLOBAL_BASE)), code.splat(size))
    emitter.mask = outer
    return _Places(code.op(f"getelementptr i8, ptr {arena(emitter, access.space)}, {offsets}", "ptr", LANES))


def _notify_parts(emitter: Emitter, access: Access, addresses: Value, size: Value) -> None:
    """Notify instruments of lanes that read all bytes, and of others in parts: 11 of 16 bytes are 8, 2 and 1."""
    code, outer = emitter.code, emitter.mask

    def notify_lanes(lanes: Value, part: Access, where: Value) -> None:
        some, done = code.label("some"), code.label("notified")
        emitter.mask = code.and_(outer, lanes)
        code.branch_if(code.icmp("ne", emitter.mask, code.const("i32", 0)), some, done)
        code.place(some)
        notify(emitter, part, where)
        code.branch(done)
        code.place(done)
        emitter.mask = outer

    whole = code.mask_bits(code.icmp("eq", size, code.const("i32", access.total_bytes)))
    notify_lanes(whole, access, addresses)
    parts, rest = code.label("parts"), code.label("rest")
    code.branch_if(code.icmp("eq", code.and_(outer, code.not_(whole)), code.const("i32", 0)), rest, parts, likely=True)
    code.place(parts)
    for bytes_, type_ in ((8, "b64"), (4, "b32"), (2, "b16"), (1, "b8")):
        if bytes_ < access.total_bytes:
            some = code.icmp("ne", code.and_(size, code.const("i32", bytes_)), code.const("i32", 0))
            ahead = code.and_(size, code.const("i32", -2 * bytes_ & 0x1F))
            where = code.add(addresses, code.cast("zext", ahead, "i64"))
            notify_lanes(code.mask_bits(some), replace(access, type=type_), where)
    code.branch(rest)
    code.place(rest)


def _runs(origins: Sequence[int], places: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Runs of lanes that are adjacent on both sides: the first lane and the number of lanes."""
    starts = [
        lane
        for lane in range(LANES)
        if lane == 0 or any(side[lane] != side[lane - 1] + size for side in (origins, places))
    ]
    return [(a, b - a) for a, b in zip(starts, [*starts[1:], LANES], strict=True)]


def _by_lane(emitter: Emitter, source: Access, origin: _Places, place: _Places, size: Value | None) -> None:
    """Call the runtime to move each lane's bytes."""
    code = emitter.code
    slots = [
        code.op(f"getelementptr i8, ptr %lanes.scratch, i64 {index * LANES * 8}", "ptr").text for index in range(3)
    ]
    code.store(place.pointers(emitter), slots[0])
    code.store(origin.pointers(emitter), slots[1])
    sizes = "null"
    if size is not None:
        code.store(code.splat(size), slots[2])
        sizes = slots[2]
    where = [f"ptr {slots[0]}", f"ptr {slots[1]}", f"ptr {sizes}"]
    code.invoke("tw_move", "void", *where, f"i32 {source.total_bytes}", emitter.mask)


def _at(emitter: Emitter, start: Value, offset: int) -> str:
    return emitter.code.op(f"getelementptr i8, ptr {start.text}, i64 {offset}", "ptr").text
