"""LLVM IR as text, written once for scalars and for warps.

A :class:`Value` has an element type and 1 lane (uniform: the same in every lane) or 32. Every operation of
:class:`Code` takes any mixture of them and broadcasts scalars as needed. If all operands are scalars, so is the result.
So the meaning of an instruction is written once, and a uniform instruction costs one scalar operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tilewright.ground.native.text import Text, mangle
from tilewright.simulate.hosts import HostVectors
from tilewright.simulate.machine import WARP_LANES

LANES = WARP_LANES

_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA name or literal with its element type ("i1" ... "i128", "half", "bfloat", "float", "double") and lanes."""

    text: str
    type: str
    lanes: int = 1

    @property
    def ir_type(self) -> str:
        """The full LLVM type, `float` or `<32 x float>`."""
        return self.type if self.lanes == 1 else f"<{self.lanes} x {self.type}>"

    @property
    def bits(self) -> int:
        """Width of one element in bits."""
        return _BITS.get(self.type) or int(self.type[1:])

    def __str__(self) -> str:
        return f"{self.ir_type} {self.text}"


def _binary(op: str, meaning: str) -> Callable[[Code, Value, Value], Value]:
    """A method for an LLVM instruction of two operands."""

    def method(self: Code, a: Value, b: Value) -> Value:
        return self.binary(op, a, b)

    method.__doc__ = meaning
    return method


class Code(Text):
    """LLVM text with typed values."""

    def __init__(self, host: HostVectors | None = None) -> None:
        super().__init__()
        self.host = host or HostVectors()
        self._bitcasts: dict[str, Value] = {}

    # -- plumbing ---------------------------------------------------------------------------------------------

    def op(self, text: str, type_: str, lanes: int = 1) -> Value:
        """Append `%new = text` and return it as a value."""
        return Value(self.assign(text), type_, lanes)

    def store(self, value: Value, pointer: str, alignment: int = 64) -> None:
        """Store a value; the default alignment is that of variables which the translator itself allocates."""
        self.line(f"store {value}, ptr {pointer}, align {alignment}")

    def put(self, value: Value, pointer: str) -> None:
        """Store a value with the natural alignment of its type."""
        self.line(f"store {value}, ptr {pointer}")

    def branch_if(self, condition: Value, then: str, otherwise: str, *, likely: bool | None = None) -> None:
        """Branch on a scalar i1; `likely` weighs the `then` side."""
        weight = "" if likely is None else ", !prof !0" if likely else ", !prof !1"
        self.lines.append(f"br i1 {condition.text}, label %{then}, label %{otherwise}{weight}")

    # -- constants and shapes ---------------------------------------------------------------------------------

    def const(self, type_: str, value: int | float) -> Value:
        """A literal. Integers are reduced to the width; for floats pass the bit pattern through `float_bits`."""
        if type_ in _BITS:
            raise TypeError("use float_bits or float_const for floating-point literals")
        bits = int(type_[1:])
        number = int(value) & ((1 << bits) - 1)
        if bits == 1:
            return Value("true" if number else "false", type_)
        return Value(str(number - (1 << bits) if number >> (bits - 1) else number), type_)

    def float_bits(self, type_: str, bits: int) -> Value:
        """A floating-point value from its bit pattern."""
        width = _BITS[type_]
        return self.cast("bitcast", self.const(f"i{width}", bits), type_)

    def float_const(self, type_: str, value: float) -> Value:
        """A double- or float-representable constant; `value` must be exact in `type_`."""
        import struct

        packed = {"double": "<d", "float": "<f", "half": "<e"}[type_]
        return self.float_bits(type_, int.from_bytes(struct.pack(packed, value), "little"))

    def zero(self, like: Value) -> Value:
        """The zero of a value's type, one lane."""
        return Value("0.0" if like.type in _BITS else "false" if like.type == "i1" else "0", like.type)

    def constants(self, type_: str, items: Sequence[int]) -> Value:
        """A constant vector, one integer a lane."""
        if all(item == items[0] for item in items):
            return self.splat(self.const(type_, items[0]))
        inner = ", ".join(f"{type_} {self.const(type_, item).text}" for item in items)
        return Value(f"<{inner}>", type_, len(items))

    def splat(self, value: Value) -> Value:
        """One value in all 32 lanes."""
        if value.lanes == LANES:
            return value
        if not value.text.startswith("%"):
            return Value(f"splat ({value.type} {value.text})", value.type, LANES)
        if value.type == "bfloat":  # as bits: see `cast`
            return self.cast("bitcast", self.splat(self.cast("bitcast", value, "i16")), "bfloat")
        single = self.op(f"insertelement <{LANES} x {value.type}> poison, {value}, i32 0", value.type, LANES)
        return self.op(
            f"shufflevector {single}, <{LANES} x {value.type}> poison, <{LANES} x i32> zeroinitializer",
            value.type,
            LANES,
        )

    def lane(self, value: Value, index: int | Value) -> Value:
        """One lane of a vector as a scalar (the value itself when it is uniform)."""
        if value.lanes == 1:
            return value
        at = f"i32 {index}" if isinstance(index, int) else str(index)
        return self.op(f"extractelement {value}, {at}", value.type)

    def part(self, value: Value, first: int, count: int) -> Value:
        """Neighbouring lanes of a vector."""
        if count == value.lanes:
            return value
        order = ", ".join(f"i32 {lane}" for lane in range(first, first + count))
        return self.op(f"shufflevector {value}, {value.ir_type} poison, <{count} x i32> <{order}>", value.type, count)

    def concatenated(self, parts: Sequence[Value]) -> Value:
        """Concatenate vectors to 32 lanes."""
        whole, done = parts[0], 0
        for part in parts:
            lanes = [str(lane - done) if done <= lane < done + part.lanes else "poison" for lane in range(LANES)]
            wide = self._shuffled(part, part, lanes)
            kept = [str(lane if lane < done else LANES + lane) for lane in range(LANES)]
            whole = self._shuffled(whole, wide, kept) if done else wide
            done += part.lanes
        return whole

    def blend(self, a: Value, b: Value, lanes: Collection[int]) -> Value:
        """Merge two vectors of 32 lanes: `b` in the given lanes, else `a`."""
        return self._shuffled(a, b, [str(lane + LANES * (lane in lanes)) for lane in range(LANES)])

    def taken(self, vectors: Sequence[Value], elements: Sequence[int]) -> Value:
        """Gather 32 lanes from vectors of 32 lanes; `elements` are their indices in the concatenated vectors."""
        whole = vectors[0]
        for start in range(0, len(vectors), 2):
            pair = vectors[start : start + 2]
            own = [element - LANES * start for element in elements]
            here = {lane for lane, element in enumerate(own) if 0 <= element < LANES * len(pair)}
            part = self._shuffled(pair[0], pair[-1], [str(own[x]) if x in here else "poison" for x in range(LANES)])
            whole = self.blend(whole, part, here) if start else part
        return whole

    def _shuffled(self, a: Value, b: Value, lanes: Sequence[str]) -> Value:
        if lanes == [str(lane) for lane in range(LANES)]:
            return a
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.op(f"shufflevector {a}, {b}, <{LANES} x i32> <{order}>", a.type, LANES)

    def mask_bits(self, predicate: Value) -> Value:
        """A predicate of one or 32 lanes as a mask: an i32, a bit a lane."""
        if predicate.lanes == LANES:
            return self.op(f"bitcast {predicate} to i32", "i32")
        return self.const("i32", -1) if predicate.text == "true" else self.cast("sext", predicate, "i32")

    def mask_lanes(self, mask: Value) -> Value:
        """A mask as a predicate of 32 lanes.

        Hosts without mask registers test one bit of the mask in each 32-bit lane, because most data are 32 bits wide.
        LLVM would translate a bitcast to lanes of one byte, and widen them afterwards.
        """
        if mask.text == "-1":
            return self.splat(self.const("i1", 1))
        if self.host.mask_registers:
            return self.op(f"bitcast {mask} to <{LANES} x i1>", "i1", LANES)
        bits = self.and_(self.splat(mask), self.constants("i32", [1 << lane for lane in range(LANES)]))
        return self.icmp("ne", bits, self.const("i32", 0))

    def match(self, *values: Value) -> tuple[Value, ...]:
        """Bring values to the same number of lanes."""
        if len({v.lanes for v in values}) == 1:
            return values
        return tuple(self.splat(v) for v in values)

    # -- arithmetic -------------------------------------------------------------------------------------------

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """Any two-operand LLVM instruction whose result has its operands' type."""
        a, b = self.match(a, b)
        if a.type != b.type:
            raise TypeError(f"{op}: {a.type} and {b.type}")
        return self.op(f"{op} {a}, {b.text}", a.type, a.lanes)

    add = _binary("add", "Integer sum.")
    sub = _binary("sub", "Integer difference.")
    mul = _binary("mul", "Low half of an integer product.")
    and_ = _binary("and", "Bitwise and.")
    or_ = _binary("or", "Bitwise or.")
    xor = _binary("xor", "Bitwise exclusive or.")

    def not_(self, a: Value) -> Value:
        """Bitwise complement."""
        return self.binary("xor", a, self.const(a.type, -1))

    def neg(self, a: Value) -> Value:
        """Integer negation."""
        return self.binary("sub", self.const(a.type, 0), a)

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Integer comparison (eq, ne, slt, ult ...)."""
        a, b = self.match(a, b)
        return self.op(f"icmp {predicate} {a}, {b.text}", "i1", a.lanes)

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Float comparison (oeq, ult, uno ...)."""
        a, b = self.match(a, b)
        return self.op(f"fcmp {predicate} {a}, {b.text}", "i1", a.lanes)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Lane-wise choice; a scalar condition chooses whole values."""
        a, b = self.match(a, b)
        if condition.lanes == LANES:
            a, b = self.splat(a), self.splat(b)
        return self.op(f"select {condition}, {a}, {b}", a.type, a.lanes)

    def cast(self, op: str, a: Value, type_: str) -> Value:
        """An LLVM cast (zext, sext, trunc, bitcast, fpext, fptrunc, sitofp, uitofp); `a` itself if it has the type.

        Two bitcasts that cancel give the original value. So a bf16 that is only moved stays an i16 in LLVM IR. If it
        were a `bfloat`, LLVM 22 would flush its subnormals on x86 where it is live across basic blocks (vcvtneps2bf16).
        """
        if a.type == type_:
            return a
        if op == "bitcast":
            origin = self._bitcasts.get(a.text)
            if origin is not None and origin.type == type_:
                return origin
        target = type_ if a.lanes == 1 else f"<{a.lanes} x {type_}>"
        result = self.op(f"{op} {a} to {target}", type_, a.lanes)
        if op == "bitcast":
            self._bitcasts[result.text] = a
        return result

    def resize(self, a: Value, type_: str, *, signed: bool) -> Value:
        """An integer resized to another width: truncated, or extended by sign or zero."""
        width = int(type_[1:])
        if a.bits == width:
            return a
        return self.cast("trunc" if a.bits > width else "sext" if signed else "zext", a, type_)

    def call(
        self, function: str, result: str, *arguments: Value, suffixes: Sequence[str] | None = None, flags: str = ""
    ) -> Value:
        """Call an LLVM intrinsic overloaded on its result, lane-wise.

        `function` is the intrinsic's stem (`llvm.fma`); `suffixes` are the overloaded element types (the result's
        by default). `flags` are literal trailing arguments, such as ``"i1 false"``.
        """
        values = self.match(*arguments)
        lanes = values[0].lanes
        overloads = "".join("." + mangle(s, lanes) for s in (suffixes if suffixes is not None else [result]))
        symbol = f"{function}{overloads}"
        returned = result if lanes == 1 else f"<{lanes} x {result}>"
        return Value(self.invoke(symbol, returned, *values, *((flags,) if flags else ())), result, lanes)


def element_type(ptx_type: str) -> str:
    """The LLVM element type that holds a value of a PTX type (without the dot).

    A packed type is one integer: an i32 for `f16x2`, `u16x2` or `bf16x2`, an i16 for pairs of 8-bit floats (`e4m3x2`).
    A tf32 is an i32 too.
    """
    if ptx_type == "pred":
        return "i1"
    if ptx_type in {"f16": 0, "bf16": 0, "f32": 0, "f64": 0}:
        return {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}[ptx_type]
    packed = re.fullmatch(r"[a-z]+(\d+)x(\d+)|e\dm\dx(\d)|tf(\d+)", ptx_type)
    if packed:
        if packed[1]:
            return f"i{int(packed[1]) * int(packed[2])}"
        return "i16" if packed[3] else "i32"
    plain = re.fullmatch(r"[a-z]+(\d+)", ptx_type)
    if plain is None:
        raise KeyError(ptx_type)
    return f"i{plain[1]}"
