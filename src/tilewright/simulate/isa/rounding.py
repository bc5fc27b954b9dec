"""Rounding: the building blocks of float instructions, lane-wise, with the same results on every host.

Directed rounding (`.rz .rm .rp`) of f32 and f64 runs in outlined functions that switch the host's rounding mode around
one constrained operation. Narrowing to a smaller format rounds to nearest and then steps to the neighbour that the mode
selects, which needs no switch. Where one operation would be rounded twice (f16 and bf16 `fma`, 64-bit integer to half),
the first rounding goes *to odd*: an inexact result takes the neighbour whose last bit is one, so it can neither be nor
cross a halfway case of the second rounding.

Source: S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
odd", IEEE Trans. Computers 57 (2008); S. A. Figueroa, "When is double rounding innocuous?", SIGNUM 30 (1995); LLVM
Language Reference, "Constrained Floating-Point Intrinsics".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ground.native.text import mangle
from tilewright.simulate.code import Code, Value


@dataclass(frozen=True)
class Format:
    """A binary format's fields; Source: IEEE 754-2019, table 3.5, and the bfloat16 definition."""

    bits: int
    fraction: int

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        """Bits of +inf, which are also the mask of the exponent."""
        return (1 << (self.bits - 1)) - (1 << self.fraction)

    @property
    def nan(self) -> int:
        """The canonical NaN of PTX: all bits but the sign. Source: PTX ISA 9.7.3, 9.7.4."""
        return (1 << (self.bits - 1)) - 1


#: LLVM element type -> format.
FORMATS = {"half": Format(16, 10), "bfloat": Format(16, 7), "float": Format(32, 23), "double": Format(64, 52)}

#: Rounding modifier -> argument of llvm.set.rounding (C's FLT_ROUNDS).
MODES = {"rn": 1, "rz": 0, "rm": 3, "rp": 2}

_INSTRUCTIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def bits_of(code: Code, x: Value) -> Value:
    """A float's bit pattern as an integer."""
    return code.cast("bitcast", x, f"i{x.bits}")


def float_of(code: Code, bits: Value, type_: str) -> Value:
    """A float from its bit pattern."""
    return code.cast("bitcast", bits, type_)


def select_bits(code: Code, condition: Value, pattern: int, x: Value) -> Value:
    """A constant bit pattern where the condition holds, `x` elsewhere."""
    integer = bits_of(code, x)
    chosen = code.select(condition, code.const(integer.type, pattern), integer)
    return float_of(code, chosen, x.type)


def is_nan(code: Code, x: Value) -> Value:
    """Whether a float is a NaN, judged by its bits (no conversion, whatever the type)."""
    format_ = FORMATS[x.type]
    magnitude = code.and_(bits_of(code, x), code.const(f"i{x.bits}", format_.nan))
    return code.icmp("ugt", magnitude, code.const(f"i{x.bits}", format_.infinity))


def canonical(code: Code, x: Value) -> Value:
    """Every NaN replaced by the canonical one."""
    return select_bits(code, is_nan(code, x), FORMATS[x.type].nan, x)


def flush(code: Code, x: Value) -> Value:
    """`.ftz`: subnormals become zeros of the same sign."""
    format_ = FORMATS[x.type]
    bits = bits_of(code, x)
    exponent = code.and_(bits, code.const(bits.type, format_.infinity))
    zero = code.and_(bits, code.const(bits.type, format_.sign))
    return float_of(code, code.select(code.icmp("eq", exponent, code.const(bits.type, 0)), zero, bits), x.type)


def saturate(code: Code, x: Value) -> Value:
    """`.sat`: clamped to [0, 1]; a NaN, and a negative zero, become +0.

    Integers are compared: for floats LLVM would use AArch64's fmaxnm, which passes a signalling NaN on.
    """
    bits = bits_of(code, x)
    zero, one, infinity = (
        code.const(bits.type, pattern) for pattern in (0, one_bits(x.type), FORMATS[x.type].infinity)
    )
    positive = code.select(code.icmp("sgt", bits, zero), bits, zero)
    clamped = code.select(code.icmp("slt", positive, one), positive, one)
    return float_of(code, code.select(code.icmp("sgt", positive, infinity), zero, clamped), x.type)


def one_bits(type_: str) -> int:
    """Bits of 1.0."""
    format_ = FORMATS[type_]
    return (format_.infinity >> 1) & format_.infinity


def relu(code: Code, x: Value) -> Value:
    """`.relu`: a value with its sign set becomes +0; a NaN becomes canonical."""
    bits = bits_of(code, x)
    positive = code.select(code.icmp("slt", bits, code.const(bits.type, 0)), code.const(bits.type, 0), bits)
    return select_bits(code, is_nan(code, x), FORMATS[x.type].nan, float_of(code, positive, x.type))


def rounded(code: Code, operation: str, mode: str, *arguments: Value) -> Value:
    """`add`, `sub`, `mul`, `div`, `fma` or `sqrt` of f32 or f64 in one rounding; no mode means to nearest even."""
    if mode in ("", "rn"):
        if operation in _INSTRUCTIONS:
            return code.binary(_INSTRUCTIONS[operation], *arguments)
        return code.call(f"llvm.{operation}", arguments[0].type, *arguments)
    values = code.match(*arguments)
    type_, lanes, shape = values[0].type, values[0].lanes, values[0].ir_type
    symbol = f"tilewright.{operation}.{mode}.{mangle(type_, lanes)}"
    code.declare(symbol, _switched(code, symbol, operation, mode, values))
    return code.op(f"call {shape} @{symbol}({', '.join(map(str, values))})", type_, lanes)


def _switched(code: Code, symbol: str, operation: str, mode: str, values: tuple[Value, ...]) -> str:
    """The text of a function that performs one operation in another rounding mode and restores the default."""
    shape = values[0].ir_type
    stem = _INSTRUCTIONS.get(operation, operation)
    inner = f"llvm.experimental.constrained.{stem}.{mangle(values[0].type, values[0].lanes)}"
    code.declare("llvm.set.rounding", "declare void @llvm.set.rounding(i32)")
    code.declare(inner, f"declare {shape} @{inner}({', '.join([shape] * len(values))}, metadata, metadata)")
    names = [f"{shape} %x{i}" for i in range(len(values))]
    # Not inlined: the caller is not strictfp, so this body must stay separate.
    attributes = 'noinline nounwind strictfp "prefer-vector-width"="512"'
    return f"""define internal {shape} @{symbol}({", ".join(names)}) {attributes} {{
  call void @llvm.set.rounding(i32 {MODES[mode]}) strictfp
  %r = call {shape} @{inner}({", ".join(names)}, metadata !"round.dynamic", metadata !"fpexcept.ignore") strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  ret {shape} %r
}}"""


def widen(code: Code, x: Value, type_: str) -> Value:
    """An exact conversion to a wider format (or the same)."""
    if x.type == "bfloat" and type_ != "bfloat":
        wide = code.cast("zext", bits_of(code, x), "i32")
        x = float_of(code, code.binary("shl", wide, code.const("i32", 16)), "float")
    elif x.type == "half" and type_ != "half":
        x = code.cast("fpext", x, "float")
    return code.cast("fpext", x, type_)


def narrow(code: Code, x: Value, type_: str, mode: str = "rn") -> Value:
    """A conversion from float or double to a narrower format (or the same) in one rounding; a half NaN is canonical."""
    if x.type == type_:
        return x
    if x.type == "double" and type_ != "float":
        x = narrow_to_odd(code, x)
    nearest = _bfloat(code, x) if type_ == "bfloat" else code.cast("fptrunc", x, type_)
    if mode not in ("", "rn"):
        nearest = _step(code, nearest, x, mode)
    return canonical(code, nearest) if type_ == "half" else nearest


def _bfloat(code: Code, x: Value) -> Value:
    """Narrow float to bfloat, to nearest even, in integers: the instruction that LLVM may choose flushes subnormals."""
    bits = bits_of(code, x)
    last = code.and_(code.binary("lshr", bits, code.const("i32", 16)), code.const("i32", 1))
    sum_ = code.add(bits, code.add(last, code.const("i32", 0x7FFF)))
    short = code.cast("trunc", code.binary("lshr", sum_, code.const("i32", 16)), "i16")
    kept = code.select(is_nan(code, x), code.const("i16", FORMATS["bfloat"].nan), short)
    return float_of(code, kept, "bfloat")


def _step(code: Code, nearest: Value, x: Value, mode: str) -> Value:
    """Move a result rounded to nearest to the neighbour that another mode selects."""
    back = widen(code, nearest, x.type)
    bits = bits_of(code, nearest)
    one, down = code.const(bits.type, 1), code.const(bits.type, -1)
    if mode == "rz":
        magnitude = code.call("llvm.fabs", x.type, back)
        wrong, step = code.fcmp("ogt", magnitude, code.call("llvm.fabs", x.type, x)), down
    else:
        negative = code.icmp("slt", bits, code.const(bits.type, 0))
        wrong = code.fcmp("ogt" if mode == "rm" else "olt", back, x)
        step = code.select(negative, one, down) if mode == "rm" else code.select(negative, down, one)
    return float_of(code, code.select(wrong, code.add(bits, step), bits), nearest.type)


def narrow_to_odd(code: Code, x: Value) -> Value:
    """Double to float, rounded to odd."""
    nearest = code.cast("fptrunc", x, "float")
    back = code.cast("fpext", nearest, "double")
    bits = bits_of(code, nearest)
    even = code.icmp("eq", code.and_(bits, code.const("i32", 1)), code.const("i32", 0))
    beyond = code.fcmp("ogt", code.call("llvm.fabs", "double", back), code.call("llvm.fabs", "double", x))
    step = code.select(beyond, code.const("i32", -1), code.const("i32", 1))
    moved = code.and_(even, code.fcmp("one", back, x))
    return float_of(code, code.select(moved, code.add(bits, step), bits), "float")


def sum_to_odd(code: Code, a: Value, b: Value) -> Value:
    """The sum rounded to odd; neither it nor its parts may overflow or underflow unless an operand is infinite."""
    total = code.binary("fadd", a, b)
    part = code.binary("fsub", total, a)
    error = code.binary("fadd", code.binary("fsub", a, code.binary("fsub", total, part)), code.binary("fsub", b, part))
    bits, width = bits_of(code, total), total.bits
    kind = f"i{width}"
    even = code.icmp("eq", code.and_(bits, code.const(kind, 1)), code.const(kind, 0))
    inexact = code.and_(even, code.fcmp("one", error, code.zero(error)))
    # If the error has the sum's sign, the exact sum is further from zero: step the bit pattern up, else down.
    differ = code.binary("ashr", code.xor(bits, bits_of(code, error)), code.const(kind, width - 1))
    step = code.or_(differ, code.const(kind, 1))
    return float_of(code, code.select(inexact, code.add(bits, step), bits), total.type)


def packed(code: Code, type_: str, meaning: Callable[..., Value], *operands: Value) -> Value:
    """Apply a meaning to both halves of packed operands; `type_` is the LLVM type of one element."""
    half = FORMATS[type_].bits
    short, wide = f"i{half}", f"i{2 * half}"
    shift = code.const(wide, half)
    low = meaning(*(float_of(code, code.cast("trunc", x, short), type_) for x in operands))
    highs = (code.cast("trunc", code.binary("lshr", x, shift), short) for x in operands)
    high = meaning(*(float_of(code, x, type_) for x in highs))
    return join(code, bits_of(code, low), bits_of(code, high))


def join(code: Code, low: Value, high: Value) -> Value:
    """Two integers as the halves of one that is twice as wide."""
    wide = f"i{2 * low.bits}"
    upper = code.binary("shl", code.cast("zext", high, wide), code.const(wide, low.bits))
    return code.or_(code.cast("zext", low, wide), upper)
