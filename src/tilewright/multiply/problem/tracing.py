"""The values that a traced function gets: they record operations and compute nothing.

Dtypes follow NumPy's promotion; Python's and NumPy's scalars take the dtype of the other operand (as Python's do in
NumPy 2). Arithmetic on float16 and bfloat16 is in float32.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.problem.dtypes import dtype as record_of, element
from tilewright.multiply.problem.expression import Builder, Expression, Functions, check_arity, number
from tilewright.multiply.problem.primitives import PRIMITIVES, letter

_INSTEAD = {
    "__bool__": ("a truth value (by if, while, and, or, not, or Python's min and max)", "write tw.where(c, x, y)"),
    "__len__": ("a length", "it is one element; write what happens to each"),
    "__iter__": ("iteration", "it is one element; write what happens to each"),
    "__getitem__": ("an index", "it is one element; pass the part as an operand of its own"),
    "__float__": ("a Python float (by float() or a function of math)", "write tw.exp, tw.sqrt and so on"),
    "__int__": ("a Python integer", 'write tw.astype(x, "int32")'),
    "__index__": ("a Python integer", 'write tw.astype(x, "int32")'),
    "__complex__": ("a complex number", "expressions are real"),
    "__rpow__": ("a power whose exponent is traced", "write tw.exp(x * log_of_the_base)"),
    "__array__": ("a NumPy array", "write tw.exp, tw.where and so on"),
}


def _refusing(what: str, instead: str) -> Callable[..., NoReturn]:
    def method(self: Value, *_: Any, **__: Any) -> NoReturn:
        self._refuse(what, instead)

    return method


_Method = Callable[["Value", Any], "Value"]


def _both(function: Callable[[Any, Any], Value]) -> tuple[_Method, _Method]:
    """A method of the left operand, and one of the right."""
    return function, lambda self, other: function(other, self)


def _binary(op: str) -> tuple[_Method, _Method]:
    return _both(lambda x, y: apply(op, x, y))


def _power(self: Value, exponent: Any) -> Value:
    """Whole powers by squaring, from the lowest bit of the exponent; square roots."""
    if isinstance(exponent, np.generic):
        exponent = exponent.item()
    if isinstance(exponent, float) and exponent == 0.5:
        return apply("sqrt", self)
    whole = isinstance(exponent, int) or (isinstance(exponent, float) and exponent.is_integer())
    if isinstance(exponent, bool) or not whole:
        self._refuse("a power that is no whole number", "write tw.exp(y * tw.log(x))")
    count = abs(int(exponent))
    if count > 1024 or (exponent < 0 and letter(self.dtype) != "f"):
        self._refuse(f"the power {exponent}", "write a product, or convert to a float")
    value = self.cast(promoted(self.dtype, self.dtype))
    result: Value | None = None
    square = value
    while count:
        if count & 1:
            result = square if result is None else apply("multiply", result, square)
        count >>= 1
        if count:
            square = apply("multiply", square, square)
    result = value.like(1).cast(value.dtype) if result is None else result
    return apply("divide", 1, result) if exponent < 0 else result


def _shift(op: str) -> Callable[[Value, Any], Value]:
    def method(self: Value, amount: Any) -> Value:
        if isinstance(amount, bool) or not isinstance(amount, int | np.integer):
            self._refuse("a shift whose amount is no constant", "write a product by a power of two")
        if letter(self.dtype) not in "su" or not 0 <= amount < record_of(self.dtype).bits:
            raise ArgumentTypeError(
                f"a shift must be of an integer by 0 to its bits less 1 (got {self.dtype} by {amount}); convert with "
                "tw.astype(x, dtype)"
            )
        return apply(op, self, int(amount))

    return method


def _floor_divide(x: Any, y: Any) -> Value:
    """Rounds towards minus infinity: the truncated quotient, less 1 if signs differ and the remainder is not 0."""
    for value in (x, y):
        if isinstance(value, Value) and letter(value.dtype) not in "su":
            value._refuse("a quotient of floats that is rounded down", "write tw.floor(x / y)")
    quotient = apply("quotient", x, y)
    if letter(quotient.dtype) == "u":
        return quotient
    divisor = quotient.like(y)
    rest = quotient.like(x) - quotient * divisor
    below = (rest != 0) & ((rest < 0) ^ (divisor < 0)) & (divisor != 0)
    return apply("where", below, quotient - 1, quotient)


def _remainder(x: Any, y: Any) -> Value:
    """The remainder of the floored quotient; 0 if the divisor is 0."""
    quotient = _floor_divide(x, y)
    divisor = quotient.like(y)
    return apply("where", divisor == 0, 0, quotient.like(x) - quotient * divisor)


class TracedAttributeError(ArgumentTypeError, AttributeError):
    """A method or property that arrays have and a traced element lacks."""


#: Methods of arrays and tensors that combine several elements.
_REDUCTIONS = frozenset(
    "sum mean max min amax amin prod std var any all argmax argmin cumsum cumprod sort argsort softmax log_softmax "
    "norm dot matmul trace ptp".split()
)
#: Conversion methods -> their dtype.
_CONVERSIONS = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64"}
#: Methods -> functions with another name here.
_RENAMED = {"abs": "absolute", "clamp": "clip", "to": "astype", "type": "astype"}


def _attribute(value: Value, name: str) -> str:
    """The error for a missing attribute, with what to write instead."""
    has = _RENAMED.get(name, name)
    if name in _REDUCTIONS:
        instead = f"it is one element of the product; take .{name}() of what matmul returns"
    elif name in _CONVERSIONS:
        instead = f'write tw.astype(x, "{_CONVERSIONS[name]}")'
    elif has in value.builder.functions.names:
        instead = f"write tw.{has}(x)"
    else:
        instead = "it is one element of the product, with operators and tw.* functions alone"
    return f"a value of a traced expression has no attribute {name!r} (got one of {value.dtype}); {instead}"


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """A value of an expression that is being traced."""

    builder: Builder  #: The builder of the expression.
    number: int  #: Number of the instruction.
    dtype: str
    __hash__ = None  # type: ignore[assignment]

    def like(self, value: Any) -> Value:
        """A scalar as a constant of this value's dtype.

        Raises ArgumentTypeError, ArgumentValueError: it is not a real scalar, or out of range.
        """
        if isinstance(value, Value):
            if value.builder is not self.builder:
                raise ArgumentTypeError(
                    "a value must come from the function that is traced (this one is left from another trace); pass "
                    "it as an operand"
                )
            return value
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, bool | int | float):
            raise ArgumentTypeError(
                f"a traced value can be combined with traced values and real scalars (got {type(value).__name__}); "
                "pass arrays as operands of the epilogue"
            )
        name = self.dtype
        if isinstance(value, float) and letter(name) != "f":
            name = "float64"
        elif not isinstance(value, bool) and letter(name) == "b":
            name = "int64"
        if letter(name) == "f" and isinstance(value, int) and abs(value) > sys.float_info.max:
            raise ArgumentValueError(
                f"a constant must be a value of {name}, the dtype of the other operand (got an "
                f"integer out of its range)"
            )
        if letter(name) in "su":
            info = np.iinfo(name)
            if not info.min <= value <= info.max:
                raise ArgumentValueError(
                    f"a constant must be a value of {name}, the dtype of the other operand (got {value}); write "
                    f"tw.astype(x, ...) first"
                )
        return Value(self.builder, self.builder.constant(value, name), name)

    def cast(self, to: str) -> Value:
        """Convert to another dtype."""
        if to == self.dtype:
            return self
        step = self.builder.instructions[self.number]
        if step.op == "constant" and letter(to) == "f" and letter(self.dtype) != "b":
            return Value(self.builder, self.builder.constant(number(step), to), to)
        return Value(self.builder, self.builder.add("cast", (self.number,), to), to)

    def astype(self, dtype: npt.DTypeLike | str) -> Value:
        """Convert as :func:`tilewright.astype` does."""
        return self.cast("bool" if dtype in ("bool", bool) else record_of(dtype).name)

    def bits(self, to: str) -> Value:
        """The value's bits as another dtype of the width."""
        return Value(self.builder, self.builder.add("bits", (self.number,), to), to)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Value:
        result: Value = self._ours(ufunc, method == "__call__" and not options)(*[self.like(x) for x in inputs])
        return result

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Value:
        result: Value = self._ours(function)(*args, **options)
        return result

    def _ours(self, function: Any, plain: bool = True) -> Callable[..., Any]:
        """The function that traces one of NumPy's."""
        found = self.builder.functions.of_numpy(function)
        if found is None or not plain:
            self._refuse(
                f"numpy.{function.__name__}", "write it with tw.* functions; numpy's are traced where tw has them"
            )
        return found

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), options: Any = None) -> Value:
        name = getattr(function, "__name__", str(function))
        given = [*args, *(options or {}).values()]
        given += [item for x in given if isinstance(x, list | tuple) for item in x]  # `torch.stack` takes a list
        value = next(x for x in given if isinstance(x, Value))
        found = value.builder.functions.of_torch(name)
        options = {key: x for key, x in (options or {}).items() if (key, x) != ("inplace", False)}
        if found is None or not options.keys() <= inspect.signature(found).parameters.keys():
            value._refuse(f"torch's {name}", "write it with tw.* functions; torch's are traced where tw has them")
        result: Value = found(*args, **options)
        return result

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # optional protocols, which may be missing
            raise AttributeError(name)
        raise TracedAttributeError(_attribute(self, name))

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise ArgumentTypeError(
            f"a value of a traced expression has no number yet, so it cannot be traced through {what} (got one of "
            f"{self.dtype}); {instead}"
        )

    def __repr__(self) -> str:
        return f"<traced {self.dtype}>"

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return self if letter(self.dtype) == "u" else apply("absolute", self)

    def __neg__(self) -> Value:
        return apply("negative", self)

    def __invert__(self) -> Value:
        return apply("invert", self)

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _both(_floor_divide)
    __mod__, __rmod__ = _both(_remainder)
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lt__, __gt__ = _binary("less")
    __le__, __ge__ = _binary("less_equal")
    __eq__ = _binary("equal")[0]  # type: ignore[assignment]
    __ne__ = _binary("not_equal")[0]  # type: ignore[assignment]
    __pow__ = _power
    __lshift__ = _shift("left_shift")
    __rshift__ = _shift("right_shift")


for _name, _texts in _INSTEAD.items():
    setattr(Value, _name, _refusing(*_texts))


def apply(op: str, *operands: Any) -> Value:
    """Apply a primitive to values and scalars, at least one a value, after promotion to one dtype.

    Raises ArgumentTypeError: the operation does not take that dtype.
    """
    row = PRIMITIVES[op]
    first = next(x for x in operands if isinstance(x, Value))
    values = [x if isinstance(x, Value) else None for x in operands]
    condition = values[0] if op == "where" else None
    if op == "where":
        if condition is None or condition.dtype != "bool":
            raise ArgumentTypeError(
                f"the first argument of `where` must be a truth value such as x > 0 (got {_named(operands[0])})"
            )
        operands, values = operands[1:], values[1:]
        first = next((x for x in values if x is not None), first)
    met = [first.like(x) for x in operands]
    name = functools.reduce(promoted, (x.dtype for x in met))
    if row.kinds == "f" and letter(name) in "su":
        name = "float64"  # as NumPy: the quotient or root of integers is a float64
    if letter(name) not in row.kinds:
        raise ArgumentTypeError(
            f"`{op}` must be given {_allowed(row.kinds)} (got {', '.join(x.dtype for x in met)}); convert with "
            "tw.astype(x, dtype)"
        )
    args = tuple(x.cast(name).number for x in met)
    if condition is not None:
        args = (first.like(condition).number, *args)
    result = "bool" if row.result == "bool" else name
    return Value(first.builder, first.builder.add(op, args, result), result)


def _named(x: Any) -> str:
    return x.dtype if isinstance(x, Value) else type(x).__name__


def _allowed(kinds: str) -> str:
    words = {"f": "floats", "s": "signed integers", "u": "unsigned integers", "b": "booleans"}
    return " or ".join(words[k] for k in kinds)


@functools.lru_cache(maxsize=512)
def promoted(a: str, b: str) -> str:
    """The dtype in which two values are combined.

    >>> promoted("float32", "int16"), promoted("float16", "float16"), promoted("int32", "float32")
    ('float32', 'float32', 'float64')
    """
    wide = [element(x).computed for x in (a, b)]
    return np.promote_types(*wide).name


def traced(function: Callable[..., Any], parameters: Mapping[str, str], functions: Functions) -> Expression:
    """The expression that a Python function computes.

    The function is called once, with a :class:`Value` for each parameter, by position.

    Raises ArgumentTypeError: an operation cannot be traced, or the result is not a traced value.
    """
    builder = Builder(functions)
    values = [Value(builder, builder.add("parameter", (), d, name), d) for name, d in parameters.items()]
    check_arity(function, values, {})
    try:
        result = function(*values)
    except TypeError as error:
        if isinstance(error, ArgumentTypeError):
            raise
        raise ArgumentTypeError(
            f"a traced function must compute with operators and tw.* functions (got {type(error).__name__}: {error}); "
            "other libraries' functions cannot be traced"
        ) from error
    if isinstance(result, Value) and result.builder is builder:
        return builder.finished(result.number, len(values))
    if isinstance(result, bool | int | float | np.generic) and values:
        return builder.finished(values[0].like(result).number, len(values))
    raise ArgumentTypeError(
        f"a traced function must return what it computed from its parameters (got {type(result).__name__} from "
        f"{getattr(function, '__name__', 'the function')}); return one expression"
    )
