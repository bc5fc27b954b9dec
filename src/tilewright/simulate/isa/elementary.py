"""Elementary functions in double, lane-wise, from IEEE 754 operations only: the same bits on every host.

Arguments come from a narrower format, and results go back to one. Relative errors are below 2**-38, so nearly all of
the error after rounding to float comes from the rounding.

Source: the series are Taylor's, M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 4.1.27 (logarithm),
4.2.1 (exponential), 4.3.65 and 4.3.66 (sine, cosine), 4.5.64 (hyperbolic tangent); the reduction by a multiple of pi/2
in two parts is W. J. Cody and W. Waite's, "Software Manual for the Elementary Functions" (1980), chapter 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

from tilewright.simulate.code import Code, Value

#: ln 2 and its reciprocal, nearest doubles.
_LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_LOG2E = float.fromhex("0x1.71547652b82fep+0")
#: 2/pi; pi/2 as the nearest double and the nearest double of the rest.
_TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
_HALF_PI = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))

_FRACTION = (1 << 52) - 1
_ONE = 0x3FF0000000000000


def _powers(base: float, count: int) -> list[float]:
    """base**0 to base**(count - 1), by multiplication, which rounds the same on every host."""
    values = [1.0]
    for _ in range(count - 1):
        values.append(values[-1] * base)
    return values


_EXPONENTIAL = [power / factorial(k) for k, power in enumerate(_powers(_LN2, 13))]
_SINE = [(-1) ** k / factorial(2 * k + 1) for k in range(8)]
_COSINE = [(-1) ** k / factorial(2 * k) for k in range(8)]
_LOGARITHM = [2 * _LOG2E / (2 * k + 1) for k in range(9)]


def _constant(code: Code, value: float) -> Value:
    return code.float_const("double", value)


def _fma(code: Code, a: Value, b: Value, c: Value) -> Value:
    return code.call("llvm.fma", "double", a, b, c)


def _polynomial(code: Code, coefficients: Sequence[float], x: Value) -> Value:
    """Sum of coefficients[k] * x**k by Horner's rule."""
    total = _constant(code, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = _fma(code, total, x, _constant(code, coefficient))
    return total


def _keep_nan(code: Code, x: Value, result: Value) -> Value:
    """`result`, or the argument itself if that is a NaN."""
    return code.select(code.fcmp("uno", x, x), x, result)


def _clamp(code: Code, x: Value, limit: float) -> Value:
    """`x` limited to [-limit, limit]; a NaN becomes the lower end."""
    low = code.select(code.fcmp("ogt", x, _constant(code, -limit)), x, _constant(code, -limit))
    return code.select(code.fcmp("olt", low, _constant(code, limit)), low, _constant(code, limit))


def _nearest(code: Code, x: Value) -> tuple[Value, Value]:
    """The integer nearest to x (|x| < 2**51), as a double and in the low bits of an i64."""
    # Adding 1.5 * 2**52 leaves the integer in the low bits of the fraction; the 0.5 absorbs the borrow of a negative x.
    shift = _constant(code, 1.5 * 2.0**52)
    moved = code.binary("fadd", x, shift)
    return code.binary("fsub", moved, shift), code.cast("bitcast", moved, "i64")


def power_of_two(code: Code, x: Value) -> Value:
    """2**x, for results that are then narrowed: 0 below -1000, huge above 1000."""
    limited = _clamp(code, x, 1000.0)
    whole, bits = _nearest(code, limited)
    mantissa = _polynomial(code, _EXPONENTIAL, code.binary("fsub", limited, whole))
    scale = code.binary("shl", bits, code.const("i64", 52))
    scaled = code.add(code.cast("bitcast", mantissa, "i64"), scale)
    return _keep_nan(code, x, code.cast("bitcast", scaled, "double"))


def logarithm(code: Code, x: Value) -> Value:
    """Binary logarithm of a zero, a normal double, an infinity or a NaN."""
    bits = code.cast("bitcast", x, "i64")
    mantissa = code.or_(code.and_(bits, code.const("i64", _FRACTION)), code.const("i64", _ONE))
    # For a mantissa above the square root of two, halve it and add one to the exponent: the series' argument stays
    # small.
    high = code.icmp("ugt", code.and_(bits, code.const("i64", _FRACTION)), code.const("i64", 0x6A09E667F3BCD))
    less = code.select(high, code.const("i64", 1), code.const("i64", 0))
    m = code.cast("bitcast", code.sub(mantissa, code.binary("shl", less, code.const("i64", 52))), "double")
    field = code.and_(code.binary("lshr", bits, code.const("i64", 52)), code.const("i64", 0x7FF))
    exponent = code.cast("trunc", code.add(code.sub(field, code.const("i64", 1023)), less), "i32")
    one = _constant(code, 1.0)
    s = code.binary("fdiv", code.binary("fsub", m, one), code.binary("fadd", m, one))
    series = _polynomial(code, _LOGARITHM, code.binary("fmul", s, s))
    result = _fma(code, s, series, code.cast("sitofp", exponent, "double"))
    infinity = code.float_bits("double", 0x7FF0000000000000)
    result = code.select(code.fcmp("oeq", x, infinity), x, result)
    minus = code.float_bits("double", 0xFFF0000000000000)
    result = code.select(code.fcmp("oeq", x, code.zero(x)), minus, result)
    nan = code.float_bits("double", 0x7FFFFFFFFFFFFFFF)
    return _keep_nan(code, x, code.select(code.fcmp("olt", x, code.zero(x)), nan, result))


def _reduced(code: Code, x: Value) -> tuple[Value, Value]:
    """`x` minus the nearest multiple of pi/2, and that multiple's low bits; zero from 2**48 on."""
    magnitude = code.call("llvm.fabs", "double", x)
    x = code.select(code.fcmp("olt", magnitude, _constant(code, 2.0**48)), x, code.zero(x))
    multiple, bits = _nearest(code, code.binary("fmul", x, _constant(code, _TWO_OVER_PI)))
    negative = code.op(f"fneg {multiple}", "double", multiple.lanes)
    first = _fma(code, negative, _constant(code, _HALF_PI[0]), x)
    return _fma(code, negative, _constant(code, _HALF_PI[1]), first), bits


def _circular(code: Code, x: Value, quarter: int) -> Value:
    """Sine of x plus a number of quarter turns."""
    reduced, bits = _reduced(code, x)
    bits = code.add(bits, code.const("i64", quarter))
    square = code.binary("fmul", reduced, reduced)
    sine = code.binary("fmul", reduced, _polynomial(code, _SINE, square))
    odd = code.icmp("ne", code.and_(bits, code.const("i64", 1)), code.const("i64", 0))
    result = code.select(odd, _polynomial(code, _COSINE, square), sine)
    sign = code.binary("shl", code.and_(bits, code.const("i64", 2)), code.const("i64", 62))
    signed = code.cast("bitcast", code.xor(code.cast("bitcast", result, "i64"), sign), "double")
    # An infinite argument gives inf - inf, a NaN; for other arguments x - x is not used.
    wrong = code.fcmp("uno", code.binary("fsub", x, x), code.zero(x))
    return code.select(wrong, code.binary("fsub", x, x), signed)


def sine(code: Code, x: Value) -> Value:
    """Sine of radians; keeps the sign of a zero."""
    return code.select(code.fcmp("oeq", x, code.zero(x)), x, _circular(code, x, 0))


def cosine(code: Code, x: Value) -> Value:
    """Cosine of radians."""
    return _circular(code, x, 1)


def hyperbolic_tangent(code: Code, x: Value) -> Value:
    """(e**2x - 1) / (e**2x + 1), and x - x**3 / 3 where the difference would cancel."""
    limited = _clamp(code, x, 40.0)
    power = power_of_two(code, code.binary("fmul", limited, _constant(code, 2 * _LOG2E)))
    one = _constant(code, 1.0)
    ratio = code.binary("fdiv", code.binary("fsub", power, one), code.binary("fadd", power, one))
    square = code.binary("fmul", limited, limited)
    small = code.binary("fmul", x, _fma(code, square, _constant(code, -1 / 3), one))
    near = code.fcmp("olt", square, _constant(code, 2.0**-20))
    return _keep_nan(code, x, code.select(near, small, ratio))
