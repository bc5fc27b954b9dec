"""Tracing: what an expression is, its dtypes, and which functions cannot be traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.problem.functions as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError, TilewrightError
from tilewright.multiply.problem.expression import identity
from tilewright.problem.functions import trace


def test_equal_functions_are_equal_expressions() -> None:
    f = trace(lambda x, y: tw.relu(x * 0.5 + y), {"x": "float32", "y": "float32"})
    g = trace(lambda u, v: np.maximum(u * np.float32(0.5) + v, 0), {"x": "float32", "y": "float32"})
    assert (f, hash(f), repr(f)) == (g, hash(g), repr(g))
    assert f != trace(lambda x, y: tw.relu(x * 0.25 + y), {"x": "float32", "y": "float32"})
    assert f != trace(lambda x, y: tw.relu(x * 0.5 + y), {"x": "float64", "y": "float32"})


def test_a_value_used_twice_is_computed_once_and_an_unused_one_never() -> None:
    def f(x: Any) -> Any:
        _ = tw.exp(x)
        return (x + 1) * (x + 1)

    assert trace(f, {"x": "float32"}).text == "x:float32 -> %2 = add(x, 1.0:float32); multiply(%2, %2)"


@pytest.mark.parametrize(
    ("function", "names", "result"),
    [
        (lambda x, y: x + y, ("float32", "float64"), "float64"),
        (lambda x, y: x + y, ("float16", "bfloat16"), "float32"),
        (lambda x, y: x * y, ("int8", "uint8"), "int16"),
        (lambda x, y: x * y, ("int32", "float32"), "float64"),
        (lambda x, y: x / y, ("int32", "int32"), "float64"),
        (lambda x, y: x * 0.5 + y, ("float32", "float32"), "float32"),
        (lambda x, y: x * np.float64(0.5) + y, ("float32", "float32"), "float32"),
        (lambda x, y: x * 0.5, ("int32", "int32"), "float64"),
        (lambda x, y: x * 2, ("uint8", "int8"), "uint8"),
        (lambda x, y: (x < y) & True, ("int8", "float32"), "bool"),
        (lambda x, y: tw.where(x > y, 1, 2), ("float32", "float32"), "int64"),
        (lambda x, y: tw.where(x > y, x, 0), ("float32", "float32"), "float32"),
        (lambda x, y: tw.exp(x), ("int8", "int8"), "float64"),
        (lambda x, y: tw.floor(x), ("int8", "int8"), "int8"),
        (lambda x, y: tw.requantise(x, 0.5, y, "uint8"), ("int32", "int32"), "uint8"),
        (lambda x, y: 1, ("float32", "float32"), "float32"),
        (lambda x, y: y, ("float32", "float64"), "float64"),
        (lambda x, y: (+x).astype(np.int16) - y, ("float32", "int8"), "int16"),
        (lambda x, y: x, ("float32", "float64"), "float32"),
    ],
)
def test_dtypes_are_numpy_s(function: Callable[..., Any], names: tuple[str, str], result: str) -> None:
    assert trace(function, dict(zip("xy", names, strict=True))).dtype == result


def test_returning_a_parameter() -> None:
    first = trace(lambda x, y: x, {"x": "float32", "y": "float64"})
    assert first.evaluate([1, 2], 5).tolist() == [1, 2]
    assert trace(lambda x, y: y, {"x": "float32", "y": "float64"}).evaluate([1, 2], 5).tolist() == [5, 5]
    assert str(first) == "x:float32 y:float64 -> x"
    assert identity("float64", "float16").evaluate(1.0005).dtype == np.float16
    assert trace(lambda x: 3, {"x": "int8"}).evaluate([1, 2]).tolist() == [3, 3]


def test_scalars_are_evaluated_to_scalars() -> None:
    assert tw.exp(0) == 1
    assert isinstance(tw.exp(np.float32(1)), np.float32)
    assert tw.astype(300.7, "uint8") == 255
    np.testing.assert_array_equal(tw.minimum([1, 5], 3), [1, 3])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x if x > 0 else -x, r"a truth value .*write tw.where\(c, x, y\)"),
        (lambda x: 0 < x < 1, "a truth value"),
        (lambda x: max(x, 0), "Python's min and max"),
        (lambda x: x and x, "a truth value"),
        (math.exp, "a function of math.*write tw.exp"),
        (float, "a Python float"),
        (lambda x: [1, 2][x], "a Python integer"),
        (lambda x: x[0], "an index"),
        (len, "a length"),
        (sum, "iteration"),
        (np.sin, r"numpy.sin.*write it with tw"),
        (np.add.reduce, r"numpy.add"),
        (np.sum, r"numpy.sum"),
        (np.asarray, "a NumPy array"),
        (lambda x: x + np.ones(3), "pass arrays as operands"),
        (lambda x: x + "1", r"got str"),
        (lambda x: x + 1j, "real scalars"),
        (lambda x: x + None, "got NoneType"),
        (lambda x: x**2.5, r"tw.exp\(y \* tw.log\(x\)\)"),
        (lambda x: 2**x, "whose exponent is traced"),
        (lambda x: x**x, r"no whole number"),
        (lambda x: x // 2, r"tw.floor\(x / y\)"),
        (lambda x: x % 2, r"rounded down"),
        (lambda x: x << 2, "a shift must be of an integer"),
        (lambda x: x & 1, r"`bitwise_and` must be given"),
        (lambda x: (x > 0) + 1.5 * (x > 1) + ~x, "`invert` must be given"),
        (lambda x: (x > 0) + (x < 0), r"`add` must be given floats .*got bool, bool"),
        (lambda x: tw.where(x, x, 0), "must be a truth value such as"),
        (lambda x: tw.exp(x > 0), "must not be given booleans"),
        (lambda x: tw.astype(x, "complex64"), "must be one of"),
        (lambda x: tw.requantise(x, 1, dtype="float32"), "must be an integer dtype"),
        (lambda x: tw.gelu(x, approximate="fast"), "`approximate` must be"),
        (lambda x: None, "must return what it computed.*got NoneType"),
        (lambda x: (x, x), "got tuple"),
        (lambda x: tw.astype(x, "int8") + 300, r"must be a value of int8.*got 300"),
        (lambda x: x.sum(), r"no attribute 'sum' .*take \.sum\(\) of what matmul returns"),
        (lambda x: x.mean(axis=0), r"take \.mean\(\)"),
        (lambda x: x.relu(), r"write tw\.relu\(x\)"),
        (lambda x: x.abs(), r"write tw\.absolute\(x\)"),
        (lambda x: x.clip(0, 1), r"write tw\.clip\(x\)"),
        (lambda x: x.float(), r'write tw\.astype\(x, "float32"\)'),
        (lambda x: x.shape[0], r"no attribute 'shape' .*one element of the product"),
        (lambda x: len([1]) + str.upper(x), "operators and tw.* functions .*got TypeError: .*upper"),
    ],
)
def test_functions_that_cannot_be_traced(function: Callable[[Any], Any], text: str) -> None:
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match=text):
        trace(function, {"x": "float32"})


def test_hasattr_of_a_missing_attribute_is_false() -> None:
    """Libraries look for protocols by `hasattr`, and users for methods."""
    seen: list[bool] = []
    names = "sum", "__array_interface__", "cast"
    trace(lambda x: seen.extend(hasattr(x, name) for name in names) or x, {"x": "float32"})
    assert seen == [False, False, True]


def test_a_value_of_another_trace_is_refused() -> None:
    kept: list[Any] = []
    trace(lambda x: kept.append(x) or x, {"x": "float32"})
    with pytest.raises(TilewrightError, match="left from another trace"):
        trace(lambda x: x + kept[0], {"x": "float32"})


def test_a_function_s_own_errors_are_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: x * (1 // 0), {"x": "float32"})
