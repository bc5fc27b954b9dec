"""The functions of elementwise expressions, built from the primitive operations.

Each takes traced values. It also takes numbers and arrays: then NumPy computes the same bits as the compiled code.
Integers become float64 for functions with fractional results, as in NumPy.

Accuracy, as the largest error in units in the last place (of float32 and of float64), measured in
`tests/unit/multiply/problem/test_functions.py`: exp 1.1, expm1 1.8, log 0.9, log1p 1.6, tanh 2.6, sigmoid 2.4, erf 1.1.
sqrt, floor, ceil, round, fma and the minima are exact or correctly rounded.

Source: Muller, Elementary Functions, 3rd ed., chapter 11 (range reductions); the polynomials are our own, see
`polynomials`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ground.lazy_exports import public
from tilewright.ground.native.memo import memo
from tilewright.multiply.problem.dtypes import dtype as record_of
from tilewright.multiply.problem.expression import Expression, Functions, as_numpy
from tilewright.multiply.problem.polynomials import LOG2, POLYNOMIALS
from tilewright.multiply.problem.primitives import letter
from tilewright.multiply.problem.tracing import Value, apply, promoted, traced

#: By float dtype: the integer of its width, the exponent's position, its bias, and the factor that makes subnormals
#: normal.
_FORMS = {"float32": ("int32", 23, 127, 24), "float64": ("int64", 52, 1023, 54)}


def trace(function: Callable[..., Any], parameters: Mapping[str, str]) -> Expression:
    """The expression that a Python function computes; see :func:`~tilewright.multiply.problem.tracing.traced`.

    >>> print(trace(relu, {"x": "int32"}))
    x:int32 -> maximum(x, 0:int32)
    """
    return traced(function, parameters, _functions())


#: Dtypes of booleans: they make no dtype wider, so such scalars need not be constants.
_TRUTH = -1


def _rank(x: Any) -> int:
    """The arguments that decide a function's dtype: arrays, else NumPy's scalars, else Python's."""
    if isinstance(x, bool | np.bool_):
        return _TRUTH
    if x is None or (isinstance(x, int | float) and not isinstance(x, np.generic)):
        return 0
    return 2 if np.ndim(x) else 1


def on_arrays(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a traced function with numbers and arrays: trace it with their dtypes, and evaluate it with NumPy.

    Scalars beside arrays are constants, and so are Python's beside NumPy's, as in an epilogue: they do not make the
    result's dtype wider.
    """
    ranks = [_rank(x) for x in args]
    parameters = {f"x{i}": np.asarray(x) for i, x in enumerate(args) if ranks[i] in (_TRUTH, max(ranks))}
    names = {name: x.dtype.name for name, x in parameters.items()}
    for name in names.values():
        if name != "bool":
            record_of(name)  # says what is possible

    def called(*values: Value) -> Any:
        given = dict(zip(names, values, strict=True))
        return function(*(given.get(f"x{i}", x) for i, x in enumerate(args)), **options)

    found = trace(called, names).evaluate(*parameters.values())
    return found if found.ndim else as_numpy(found.dtype.name).type(found[()])


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of traced values take numbers and arrays too.

    A function of one value is traced once for each dtype; later calls insert its instructions.
    """
    named = inspect.signature(function).parameters
    count = sum(p.kind is not p.KEYWORD_ONLY for p in named.values())

    @functools.lru_cache(maxsize=64)
    def of_dtype(dtype: str, options: tuple[tuple[str, Any], ...]) -> Expression:
        return trace(functools.partial(function, **dict(options)), {"x": dtype})

    @functools.wraps(function)
    @public
    def call(*args: Any, **options: Any) -> Any:
        if count == len(args) == 1 and isinstance(args[0], Value):
            x = args[0]
            made = of_dtype(x.dtype, tuple(sorted(options.items())))
            return Value(x.builder, x.builder.insert(made, [x.number]), made.dtype)
        if any(isinstance(x, Value) for x in args):
            return function(*args, **options)
        return on_arrays(function, args[:count], options)

    return call


def _real(x: Any) -> Value:
    """A value as float32 or float64."""
    if letter(x.dtype) == "b":
        raise ArgumentTypeError('a function of numbers must not be given booleans; write tw.astype(x, "float32")')
    return cast(Value, x.cast("float64" if letter(x.dtype) != "f" else promoted(x.dtype, x.dtype)))


def _horner(name: str, x: Value) -> Value:
    """A polynomial, by fused multiply-adds from the highest power."""
    coefficients = POLYNOMIALS[name, x.dtype]
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = apply("fma", total, x, c)
    return total


# Plain operations


@elementwise
def fma(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` with one rounding."""
    return apply("fma", x, y, z)


@elementwise
def minimum(x: Any, y: Any) -> Any:
    """The smaller of two; NaN if either is, and of two zeros the first."""
    return apply("minimum", x, y)


@elementwise
def maximum(x: Any, y: Any) -> Any:
    """The larger of two; NaN if either is, and of two zeros the first."""
    return apply("maximum", x, y)


@elementwise
def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` if the condition is true, else ``y``."""
    if not any(isinstance(v, Value) for v in (x, y)) and isinstance(condition, Value):
        x = condition.like(x) if isinstance(x, bool) and isinstance(y, bool) else _constant(condition, x, y)
    return apply("where", condition, x, y)


def _constant(near: Value, x: Any, y: Any) -> Value:
    """The first of two scalars in the dtype that Python's numbers have."""
    name = "float64" if isinstance(x, float) or isinstance(y, float) else "int64"
    return Value(near.builder, near.builder.constant(x, name), name)


@elementwise
def clip(x: Any, low: Any, high: Any) -> Any:
    """``x`` limited to the range from `low` to `high`, either of which may be None; NaN stays."""
    x = x if low is None else apply("maximum", x, low)
    return x if high is None else apply("minimum", x, high)


@elementwise
def absolute(x: Any) -> Any:
    """The magnitude; the smallest integer stays itself."""
    return abs(x)


@elementwise
def sqrt(x: Any) -> Any:
    """The square root, correctly rounded."""
    return apply("sqrt", _real(x))


def _rounding(name: str, summary: str) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        return x if letter(x.dtype) != "f" else apply(name, _real(x))

    function.__name__, function.__doc__ = name, summary
    return elementwise(function)


floor = _rounding("floor", "The next whole number below; integers stay.")
ceil = _rounding("ceil", "The next whole number above; integers stay.")
round = _rounding("round", "The nearest whole number, ties to the even one; integers stay.")


def astype(x: Any, dtype: npt.DTypeLike | str) -> Any:
    """The value in another dtype.

    A float rounds once. To an integer it is truncated towards zero and saturates; NaN becomes 0. An integer wraps to a
    narrower one.

    Examples
    --------
    >>> astype(np.array([-3.7, 300.0]), "int8")
    array([ -3, 127], dtype=int8)
    """
    return x.astype(dtype) if isinstance(x, Value) else on_arrays(lambda value: value.astype(dtype), (x,), {})


# Exponentials


def _bounded(x: Value, low: float, high: float) -> Value:
    """Clip by two selects, which is shorter than with the NaN rules of minima; NaN stays."""
    return apply("where", x < low, low, apply("where", x > high, high, x))


def _reduced(x: Value) -> tuple[Value, Value]:
    """(n, exp(r) - 1) with x = n log(2) + r, n an integer of x's width; x is far from its largest exponent.

    A number of 1.5 2^52 (2^22 for float32) has no fraction bits: adding it rounds x to an integer, which the low bits
    then hold.
    """
    integer, place, _, _ = _FORMS[x.dtype]
    high, low = LOG2[x.dtype]
    large = 1.5 * 2.0**place
    lifted = apply("fma", x, 1 / float(np.log(2.0)), large)
    n = lifted - large
    whole = lifted.bits(integer) - int(as_numpy(x.dtype).type(large).view(integer))
    r = apply("fma", n, -low, apply("fma", n, -high, x))
    return whole, apply("fma", r * r, _horner("exp", r), r)


def _power_of_two(n: Value, name: str) -> Value:
    """2^n as a float of a dtype, for n within the exponents of normal numbers."""
    _, place, bias, _ = _FORMS[name]
    return ((n + bias) << place).bits(name)


@elementwise
def exp(x: Any) -> Any:
    """The exponential, ``e**x``."""
    x = _real(x)
    form = record_of(x.dtype)
    # Beyond these the result is 0 or infinite.
    n, grown = _reduced(_bounded(x, (form.emin - form.precision - 2) * 0.7, (form.emax + 2) * 0.7))
    # Two factors, which are normal numbers even if the result is not.
    half = n >> 1
    return (grown + 1) * _power_of_two(half, x.dtype) * _power_of_two(n - half, x.dtype)


@elementwise
def expm1(x: Any) -> Any:
    """``exp(x) - 1``, accurate near 0."""
    x = _real(x)
    form = record_of(x.dtype)
    n, grown = _reduced(_bounded(x, -form.precision * 0.75, (form.emax + 2) * 0.7))
    half = n >> 1
    first, second = _power_of_two(half, x.dtype), _power_of_two(n - half, x.dtype)
    # 2^n (1 + grown) - 1; if 2^n would overflow, the 1 does not matter.
    near = apply("fma", grown, first * second, first * second - 1)
    found = where(n < form.precision + 2, near, (grown + 1) * first * second)
    return where(n == 0, where(x == 0, x, grown), found)


@elementwise
def log(x: Any) -> Any:
    """The natural logarithm; minus infinity for 0, NaN below."""
    x = _real(x)
    integer, place, _, lift = _FORMS[x.dtype]
    form = record_of(x.dtype)
    tiny = x < 2.0**form.emin
    scaled = where(tiny, x * 2.0**lift, x)
    # x = 2^e m with m from sqrt(1/2) to sqrt(2): the exponent of x / sqrt(1/2), by integer subtraction.
    root = as_numpy(x.dtype).type(np.sqrt(0.5))
    whole = scaled.bits(integer)
    e = (whole - int(root.view(integer))) >> place
    m = (whole - (e << place)).bits(x.dtype)
    exponent = e.cast(x.dtype) - where(tiny, x.like(float(lift)), 0.0)
    result = _log_of_parts(exponent, m - 1)
    result = where(x == 0, -np.inf, result)
    return where(x < 0, np.nan, where(x < np.inf, result, x))


def _log_of_parts(e: Value, f: Value) -> Value:
    """E log(2) + log(1 + f), by s = f / (2 + f): log(1 + f) = f - (f^2/2 - s (f^2/2 + R)), R = s^2 P(s^2)."""
    high, low = LOG2[f.dtype]
    s = f / (f + 2)
    z = s * s
    half = f * f * 0.5
    rest = apply("fma", s, apply("fma", z, _horner("log", z), half), e * low)
    return apply("fma", e, high, -((half - rest) - f))


@elementwise
def log1p(x: Any) -> Any:
    """``log(1 + x)``, accurate near 0."""
    x = _real(x)
    u = x + 1
    # The relative error of rounding 1 + x. Source: Higham, 2nd ed., section 1.14.1, for why it suffices.
    lost = (x - (u - 1)) / u
    found = log(u)
    return where(u == 1, x, where((u > 0) & (u < np.inf), found + lost, found))


@elementwise
def logaddexp(x: Any, y: Any) -> Any:
    """``log(exp(x) + exp(y))`` without overflow; a term below the smallest normal number counts as 0.

    Such terms would be subnormal, which processors compute with a hundred times slower.
    """
    larger, smaller = _real(maximum(x, y)), _real(minimum(x, y))
    # Equal infinities have no difference; equal values differ by 0.
    difference = where(larger == smaller, 0.0, smaller - larger)
    least = record_of(larger.dtype).emin * float(np.log(2.0))
    term = exp(where(difference < least, least, difference))
    return larger + log1p(where(difference < least, 0.0, term))


# Activations


@elementwise
def relu(x: Any) -> Any:
    """The larger of x and 0; NaN stays."""
    return apply("maximum", x, 0)


@elementwise
def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    x = _real(x)
    e = exp(-abs(x))
    return where(x < 0, e, 1.0) / (e + 1)


@elementwise
def silu(x: Any) -> Any:
    """``x * sigmoid(x)``."""
    x = _real(x)
    return x * sigmoid(x)


@elementwise
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    x = _real(x)
    t = expm1(abs(x) * -2)
    size = -t / (t + 2)
    return where(x < 0, -size, where(x == 0, x, size))


@elementwise
def erf(x: Any) -> Any:
    """The error function."""
    x = _real(x)
    size = abs(x)
    near = apply("fma", x, _horner("erf_near", x * x), x)
    beyond = 4.0 if x.dtype == "float32" else 6.0
    bounded = where(size > beyond, beyond, size)
    far = 1 - _horner("erf_far", (bounded - 2.5) / (bounded + 2.5)) * exp(-(bounded * bounded))
    return where(size < 1, near, where(x < 0, -far, far))


@elementwise
def gelu(x: Any, *, approximate: Literal["none", "tanh"] = "none") -> Any:
    """``x / 2 (1 + erf(x / sqrt(2)))``, or the form by tanh that approximates it.

    Source: Hendrycks, Gimpel, Gaussian Error Linear Units, arXiv 1606.08415, section 2.
    """
    x = _real(x)
    if approximate == "none":
        return x * 0.5 * (erf(x * float(np.sqrt(0.5))) + 1)
    if approximate != "tanh":
        raise ArgumentValueError(f'`approximate` must be "none" or "tanh" (got {approximate!r})')
    inner = (x + x * x * x * 0.044715) * float(np.sqrt(2 / np.pi))
    return x * 0.5 * (tanh(inner) + 1)


def requantise(x: Any, scale: Any, zero_point: Any = 0, dtype: npt.DTypeLike | str = "int8") -> Any:
    """``x * scale`` rounded half to even, plus the zero point, saturated: converts integer sums to narrow integers.

    Parameters
    ----------
    x : value or array
    scale : value, number or array
        The product is computed in float64 if `scale` is float64, else in float32.
    zero_point : value, number or array
        Whole numbers.
    dtype : dtype
        An integer one.

    Source: ONNX, operators QLinearMatMul and QuantizeLinear.

    Examples
    --------
    >>> requantise(np.array([100, 90, 30000], np.int32), 0.05)
    array([  5,   4, 127], dtype=int8)
    """
    record = record_of(dtype)
    if record.is_float:
        raise ArgumentTypeError(f"`dtype` must be an integer dtype (got {record.name}); write tw.astype")

    def quantised(x: Any, scale: Any, zero_point: Any) -> Any:
        value = next(v for v in (x, scale, zero_point) if isinstance(v, Value))
        wide = isinstance(scale, Value) and scale.dtype == "float64"
        name = "float64" if wide else "float32"
        x, scale, zero_point = (value.like(v).cast(name) for v in (x, scale, zero_point))
        return (apply("round", x * scale) + zero_point).cast(record.name)

    if any(isinstance(v, Value) for v in (x, scale, zero_point)):
        return quantised(x, scale, zero_point)
    return on_arrays(lambda value: quantised(value, scale, zero_point), (x,), {})


def of_numpy(function: Any) -> Callable[..., Any] | None:
    """The counterpart of a NumPy function; None if there is none."""
    return _of_numpy().get(function)


def _clamp(x: Any, min: float | None = None, max: float | None = None) -> Any:
    """:func:`clip` by torch's names."""
    return clip(x, min, max)


#: Torch's names of functions -> ours.
_TORCH = {
    "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "tanh": tanh, "sqrt": sqrt, "floor": floor, "ceil": ceil,
    "round": round, "abs": absolute, "absolute": absolute, "minimum": minimum, "maximum": maximum, "where": where,
    "logaddexp": logaddexp, "erf": erf, "relu": relu, "sigmoid": sigmoid, "silu": silu, "gelu": gelu,
    "clamp": _clamp, "clip": _clamp,
}  # fmt: skip


def of_torch(name: str) -> Callable[..., Any] | None:
    """The counterpart of a torch function, by its name; None if there is none."""
    return _TORCH.get(name)


@memo
def _of_numpy() -> dict[Any, Callable[..., Any]]:
    same: dict[Any, Callable[..., Any]] = {
        np.exp: exp, np.expm1: expm1, np.log: log, np.log1p: log1p, np.tanh: tanh, np.sqrt: sqrt, np.floor: floor,
        np.ceil: ceil, np.rint: round, np.absolute: absolute, np.fabs: absolute, np.minimum: minimum,
        np.maximum: maximum, np.logaddexp: logaddexp, np.where: where, np.clip: clip, np.round: round,
    }  # fmt: skip
    import operator

    return same | {
        np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
        np.less: operator.lt, np.greater: operator.gt, np.less_equal: operator.le, np.greater_equal: operator.ge,
        np.equal: operator.eq, np.not_equal: operator.ne, np.negative: operator.neg, np.invert: operator.invert,
        np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor,
        np.power: operator.pow, np.floor_divide: operator.floordiv, np.remainder: operator.mod,
    }  # fmt: skip


@memo
def _functions() -> Functions:
    ours = (name for name, found in globals().items() if getattr(found, "__module__", "") == __name__)
    return Functions(frozenset(name for name in ours if not name.startswith("_")), of_numpy, of_torch)
