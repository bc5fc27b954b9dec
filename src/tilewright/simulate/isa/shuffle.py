"""Shuffles: a lane reads a register of another.

Source: PTX ISA, sections 9.7.9.5 (shfl) and 9.7.9.6 (shfl.sync). Called like all rows of kind `warp`; see `warp`.
"""

from __future__ import annotations

import functools
import re

from tilewright.ground.native.text import mangle
from tilewright.simulate.code import LANES, Code, Value
from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.isa.warp import laneid, lanes_of

rows = Table()


def _literal(value: Value) -> int | None:
    """The integer of a literal; None for other values."""
    match = re.fullmatch(r"(?:splat \(i\d+ )?(-?\d+)\)?", value.text)
    return int(match[1]) if match else None


def _source_lanes(mode: str, b: int, c: int) -> list[tuple[int, bool]]:
    """For each lane: the lane that it reads, and whether that is in range. Source: PTX ISA, 9.7.9.6, Semantics."""
    bval, cval, segment = b & 31, c & 31, c >> 8 & 31
    result = []
    for lane in range(LANES):
        first, last = lane & segment, (lane & segment) | (cval & ~segment & 31)
        j = {"up": lane - bval, "down": lane + bval, "bfly": lane ^ bval, "idx": first | (bval & ~segment & 31)}[mode]
        valid = j >= last if mode == "up" else j <= last
        result.append((j if valid else lane, valid))
    return result


def _permute(code: Code, a: Value, index: Value) -> Value:
    """Lane l of the result is lane index[l] of a: through memory, in a function with its own stack slot."""
    suffix = mangle(a.type, LANES)
    gather = f"llvm.masked.gather.{suffix}.v{LANES}p0"
    vector, indices, all_lanes = f"<{LANES} x {a.type}>", f"<{LANES} x i32>", f"<{LANES} x i1>"
    code.declare(gather, f"declare {vector} @{gather}(<{LANES} x ptr>, {all_lanes}, {vector})")
    body = [
        f"define internal {vector} @tw.permute.{suffix}({vector} %a, {indices} %index) {{",
        f"%slot = alloca {vector}",
        f"store {vector} %a, ptr %slot",
        f"%where = getelementptr {a.type}, ptr %slot, {indices} %index",
        f"%result = call {vector} @{gather}(<{LANES} x ptr> align {a.bits // 8} %where,"
        f" {all_lanes} splat (i1 true), {vector} zeroinitializer)",
        f"ret {vector} %result",
    ]
    code.declare(f"tw.permute.{suffix}", "\n  ".join(body) + "\n}")
    return code.op(f"call {vector} @tw.permute.{suffix}({a}, {code.splat(index)})", a.type, LANES)


def _from_fixed_lanes(code: Code, a: Value, lanes: list[int]) -> Value:
    """Lane l of the result is lane lanes[l] of a, known at translation."""
    constant = ", ".join(f"i32 {j}" for j in lanes)
    return code.op(f"shufflevector {a}, <{LANES} x {a.type}> poison, <{LANES} x i32> <{constant}>", a.type, LANES)


def _variable_source(code: Code, mode: str, b: Value, c: Value) -> tuple[Value, Value]:
    """As `_source_lanes`, for operands known only at run time."""
    lane, low = laneid(code), code.const("i32", 31)
    bval = code.and_(b, low)
    segment = code.and_(code.binary("lshr", c, code.const("i32", 8)), low)
    outside = code.xor(segment, low)
    first = code.and_(lane, segment)
    last = code.or_(first, code.and_(code.and_(c, low), outside))
    match mode:
        case "up":
            j = code.sub(lane, bval)
        case "down":
            j = code.add(lane, bval)
        case "bfly":
            j = code.xor(lane, bval)
        case _:
            j = code.or_(first, code.and_(bval, outside))
    valid = code.icmp("sge" if mode == "up" else "sle", j, last)
    return code.select(valid, j, lane), valid


_shuffle = functools.partial(
    rows.row,
    types={"p": "pred", "b": "b32", "c": "b32", "membermask": "b32"},
    kind="warp",
    cost="warp",
    mode="up down bfly idx",
    type="b32",
    note="a lane that reads from an inactive lane gets 0, as on GPUs",
)


@_shuffle("shfl.sync.mode.type d{|p}, a, b, c, membermask;", section="9.7.9.6")
@_shuffle("shfl.mode.type d{|p}, a, b, c;", section="9.7.9.5")
def shfl(
    code: Code, form: Form, mask: Value, a: Value, b: Value, c: Value, members: Value | None = None
) -> tuple[Value, Value]:
    """Read another lane's value; p says whether that lane was in range.

    A value from an inactive lane is undefined in the manual. GPUs give 0, so a sum may be right by chance.
    Source: as measured in apache/tvm issue 12274 and PaddlePaddle/CINN pull request 938.
    """
    a, executing, nothing = code.splat(a), lanes_of(code, mask), code.const(a.type, 0)
    at, limits = _literal(b), _literal(c)
    if at is not None and limits is not None:
        plan = _source_lanes(form["mode"], at, limits)
        lanes = [lane for lane, _ in plan]
        moved, present = _from_fixed_lanes(code, a, lanes), _from_fixed_lanes(code, executing, lanes)
        return code.select(present, moved, nothing), code.constants("i1", [int(valid) for _, valid in plan])
    lane, valid = _variable_source(code, form["mode"], b, c)
    bit = code.and_(code.binary("lshr", mask, lane), code.const("i32", 1))
    present = code.icmp("ne", bit, code.const("i32", 0))
    return code.select(present, _permute(code, a, lane), nothing), code.splat(valid)
