"""Gathers and scatters: the host's instruction, or a loop in the runtime (`gathers.c`).

For a host without such instructions, LLVM emits one move for each lane. That is fast if all lanes run, but slow to
compile, so long kernels call the loop. Under a mask known only at run time LLVM also emits branches, which are not
faster than the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ground.native.text import mangle
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.translate.lowering.emitter import ALL_LANES, Emitter

#: Memory for the addresses of all lanes, and for their places.
ADDRESSES = Value("%addresses", "ptr")
IN_MEMORY = Value("%places", "ptr")


def gather(emitter: Emitter, pointers: Value, mask: Value, type_: str, count: int = 1) -> list[Value]:
    """Load consecutive elements from each lane's place, under a mask; zeros in inactive lanes.

    The places are a vector, or `IN_MEMORY`.
    """
    code, bits = emitter.code, Value("", type_).bits
    vector = f"<{LANES} x {type_}>"
    if _in_runtime(emitter, mask, bits):
        _call(emitter, "tw_gather", pointers, mask, bits // 8, count)
        slots = _at(emitter, Value("%lanes.scratch", "ptr"), LANES * bits // 8, count)
        return [code.op(f"load {vector}, {slot}, align {LANES}", type_, LANES) for slot in slots]
    pointers = as_vector(emitter, pointers)
    symbol = f"llvm.masked.gather.{mangle(type_, LANES)}.v{LANES}p0"
    lanes = code.mask_lanes(mask)
    return [
        Value(code.invoke(symbol, vector, _unaligned(place), lanes, f"{vector} zeroinitializer"), type_, LANES)
        for place in _at(emitter, pointers, bits // 8, count)
    ]


def scatter(emitter: Emitter, pointers: Value, mask: Value, values: Sequence[Value]) -> None:
    """Store to each lane's place, under a mask; of two lanes with one place, the later lane wins."""
    code, bits = emitter.code, values[0].bits
    if _in_runtime(emitter, mask, bits):
        slots = _at(emitter, Value("%lanes.scratch", "ptr"), LANES * bits // 8, len(values))
        for value, slot in zip(values, slots, strict=True):
            code.store(value, slot.text, LANES)
        _call(emitter, "tw_scatter", pointers, mask, bits // 8, len(values))
        return
    pointers = as_vector(emitter, pointers)
    symbol = f"llvm.masked.scatter.{mangle(values[0].type, LANES)}.v{LANES}p0"
    lanes = code.mask_lanes(mask)
    for value, place in zip(values, _at(emitter, pointers, bits // 8, len(values)), strict=True):
        code.invoke(symbol, "void", value, _unaligned(place), lanes)


def _in_runtime(emitter: Emitter, mask: Value, bits: int) -> bool:
    return not emitter.code.host.gathers(bits) and (mask != ALL_LANES or emitter.is_cut)


def _at(emitter: Emitter, start: Value, step: int, count: int) -> Iterator[Value]:
    """Places that are `step` bytes apart, for one lane or for all."""
    code = emitter.code
    yield start
    for index in range(1, count):
        offset = code.const("i64", index * step)
        offset = offset if start.lanes == 1 else code.splat(offset)
        yield code.op(f"getelementptr i8, {start}, {offset}", "ptr", start.lanes)


def _unaligned(places: Value) -> str:
    return f"{places.ir_type} align 1 {places.text}"


def in_array(emitter: Emitter, pointers: Value) -> Value:
    """Places in memory, where the runtime reads them."""
    if pointers.lanes == 1:
        return pointers
    emitter.code.store(pointers, ADDRESSES.text)
    return ADDRESSES


def as_vector(emitter: Emitter, pointers: Value) -> Value:
    """Places as a vector."""
    if pointers.lanes == LANES:
        return pointers
    return emitter.code.op(f"load <{LANES} x ptr>, {pointers}, align 64", "ptr", LANES)


def _call(emitter: Emitter, symbol: str, pointers: Value, mask: Value, size: int, count: int) -> None:
    places = in_array(emitter, pointers)
    emitter.code.invoke(symbol, "void", "ptr %lanes.scratch", places, f"i32 {size}", f"i32 {count}", mask)
