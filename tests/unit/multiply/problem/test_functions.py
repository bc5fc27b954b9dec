"""The elementary functions: accuracy, special values, and their polynomials."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import derived_polynomials
import numpy as np
import pytest

import tilewright.problem.functions as tw
from tilewright.errors import ArgumentTypeError
from tilewright.multiply.problem.polynomials import LOG2, POLYNOMIALS
from tilewright.problem.functions import trace

Array = np.ndarray[Any, Any]
COUNT = 20_000
FLOATS = ("float32", "float64")


def near(seed: int) -> Array:
    random = np.random.default_rng(seed)
    return np.asarray(random.normal(size=COUNT) * random.choice([1e-6, 1e-3, 0.1, 1, 5], COUNT))


def wide(name: str, seed: int) -> Array:
    low, high = (-103, 88.7) if name == "float32" else (-745, 709.7)
    return np.random.default_rng(seed).uniform(low, high, COUNT)


def ulps(found: Array, truth: Array) -> float:
    """The largest error, in units in the last place; the truth has a wider type than the result."""
    unit = np.spacing(np.abs(truth).astype(found.dtype)).astype(truth.dtype)
    return float(np.max(np.abs(found.astype(truth.dtype) - truth) / unit))


#: function -> (in long double, inputs, bound). The bounds are those that `functions` states.
ACCURACY: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], str, float]] = {
    "exp": (tw.exp, np.exp, "wide", 1.1),
    "exp near 0": (tw.exp, np.exp, "near", 1.1),
    "expm1": (tw.expm1, np.expm1, "near", 1.8),
    "expm1 far": (tw.expm1, np.expm1, "wide", 1.8),
    "log": (tw.log, np.log, "positive", 0.9),
    "log near 1": (tw.log, np.log, "about 1", 0.9),
    "log1p": (tw.log1p, np.log1p, "above -1", 1.6),
    "tanh": (tw.tanh, np.tanh, "near", 2.6),
    "sigmoid": (tw.sigmoid, lambda x: 1 / (1 + np.exp(-x)), "near", 2.4),
    "sigmoid far": (tw.sigmoid, lambda x: 1 / (1 + np.exp(-x)), "wide", 2.4),
}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="the host has no longer double to compare with")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("label", ACCURACY)
def test_accuracy(label: str, name: str) -> None:
    function, truth, inputs, bound = ACCURACY[label]
    x = {
        "near": near(1),
        "wide": wide(name, 2),
        "positive": np.exp(np.clip(wide(name, 3), None, 88 if name == "float32" else 709)),
        "about 1": 1 + np.clip(near(4) / 6, -0.9, 9),
        "above -1": np.maximum(near(5), -0.99),
    }[inputs].astype(name)
    with np.errstate(all="ignore"):
        exact = truth(x.astype(np.longdouble))
    assert ulps(function(x), exact) <= bound


@pytest.mark.parametrize("name", FLOATS)
def test_accuracy_of_the_error_function(name: str) -> None:
    x = np.concatenate([np.linspace(-6.5, 6.5, 150), near(6)[:50], [1e-30, -1e-300 if name == "float64" else 1e-40]])
    x = x.astype(name)
    found, unit = tw.erf(x), np.spacing(np.abs(tw.erf(x)))
    for i, value in enumerate(x):
        exact = derived_polynomials.erf_series(Decimal(float(value)))
        assert abs(Decimal(float(found[i])) - exact) <= Decimal("1.1") * Decimal(float(unit[i])), value


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(
    ("function", "of"),
    [
        (tw.exp, [1, 1, np.inf, 0]), (tw.expm1, [0, -0.0, np.inf, -1]), (tw.log, [-np.inf, -np.inf, np.inf, np.nan]),
        (tw.log1p, [0, -0.0, np.inf, np.nan]), (tw.tanh, [0, -0.0, 1, -1]), (tw.sigmoid, [0.5, 0.5, 1, 0]),
        (tw.erf, [0, -0.0, 1, -1]), (tw.relu, [0, -0.0, np.inf, 0]), (tw.sqrt, [0, -0.0, np.inf, np.nan]),
        (tw.round, [0, -0.0, np.inf, -np.inf]),
    ],
)  # fmt: skip
def test_special_values(function: Callable[[Array], Array], of: list[float], name: str) -> None:
    found = function(np.array([0.0, -0.0, np.inf, -np.inf, np.nan], name))
    np.testing.assert_array_equal(found, np.array([*of, np.nan], name))
    assert (np.signbit(found[:2]) == np.signbit(of[:2])).all()


def test_extremes_underflow_and_overflow_where_they_should() -> None:
    x = np.array([-104, -103, -87.5, 88.7, 88.8], np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(tw.exp(x), np.exp(x.astype(float)).astype(np.float32), rtol=1e-6, atol=1.5e-45)
    assert tw.exp(np.float64(-745.2)) == 0 < tw.exp(np.float64(-745.1))
    assert tw.log(np.float32(1e-45)) == np.float32(np.log(np.float64(np.float32(1e-45))))
    assert tw.logaddexp(np.float64(1000), np.float64(1000)) == 1000 + np.log(2)
    assert tw.logaddexp(np.float64(-np.inf), np.float64(3)) == 3
    assert tw.logaddexp(np.float64(0), np.float64(-800)) == 0
    assert tw.logaddexp(np.float32(0), np.float32(-80)) == np.exp(np.float64(-80)).astype(np.float32)
    assert tw.logaddexp(np.float64(-np.inf), np.float64(-np.inf)) == -np.inf
    assert np.isnan(tw.logaddexp(np.float32(np.nan), np.float32(-1000)))


def test_gelu_is_its_formula() -> None:
    x = near(7)
    from math import erf

    truth = np.array([0.5 * v * (1 + erf(v / np.sqrt(2))) for v in x[:2000]])
    np.testing.assert_allclose(tw.gelu(x[:2000]), truth, rtol=1e-13, atol=1e-15)
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(tw.gelu(x, approximate="tanh"), tanh, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(tw.silu(x), x / (1 + np.exp(-x)), rtol=1e-13)


def test_minima_of_nan_and_zeros() -> None:
    x, y = np.array([np.nan, 1, 0.0, -0.0]), np.array([1, np.nan, -0.0, 0.0])
    for f in (tw.minimum, tw.maximum):
        found = f(x, y)
        assert np.isnan(found[:2]).all()
        assert np.signbit(found[2:]).tolist() == [False, True]


def test_requantising_rounds_half_to_even_and_saturates() -> None:
    sums = np.array([-3000, -25, -5, 5, 15, 25, 3000], np.int32)
    assert tw.requantise(sums, 0.1).tolist() == [-128, -2, 0, 0, 2, 2, 127]
    assert tw.requantise(sums, 0.1, 128, "uint8").tolist() == [0, 126, 128, 128, 130, 130, 255]


@pytest.mark.parametrize("key", sorted(POLYNOMIALS))
def test_the_polynomials_are_derived(key: tuple[str, str]) -> None:
    exact = derived_polynomials.derived(*key)
    assert list(POLYNOMIALS[key]) == [derived_polynomials.rounded(c, key[1]) for c in exact]
    bound = {"float32": 2e-7, "float64": 4e-16}[key[1]]
    assert derived_polynomials.error(*key) < bound


def test_the_parts_of_log_2() -> None:
    log2 = Decimal(2).ln()
    for name, (high, low) in LOG2.items():
        assert float(high * 2.0 ** (16 if name == "float32" else 33)).is_integer()
        assert abs(Decimal(high) + Decimal(low) - log2) < Decimal(2) ** (-60 if name == "float32" else -86)


def test_numpy_s_functions_are_traced_as_ours() -> None:
    ours = trace(
        lambda x, y: tw.maximum(tw.exp(x) * 2, tw.where(x < y, x, tw.clip(y, 0, 1))), {"x": "float32", "y": "float32"}
    )
    theirs = trace(
        lambda x, y: np.maximum(np.float64(2) * np.exp(x), np.where(x < y, x, np.clip(y, 0, 1))),
        {"x": "float32", "y": "float32"},
    )
    arrays = [near(8).astype("float32"), near(9).astype("float32")]
    np.testing.assert_array_equal(ours.evaluate(*arrays), theirs.evaluate(*arrays))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tw.maximum(x, 0), lambda x: tw.minimum(0.5, x), lambda x: tw.logaddexp(x, 0),
        lambda x: tw.clip(x, 0, None), lambda x: tw.where(x > 0, x, 0.0), lambda x: tw.fma(x, 2, 1),
        lambda x: tw.maximum(x[0], 2), lambda x: tw.minimum(x, np.float64(0.1)),
    ],
)  # fmt: skip
def test_scalars_beside_arrays_make_no_dtype_wider(call: Any) -> None:
    assert call(np.float32([1, -2])).dtype == np.float32


def test_a_function_of_torch_that_takes_a_list_is_refused_by_name() -> None:
    def stack(tensors: Any) -> None:
        """Has the name of torch's."""

    with pytest.raises(ArgumentTypeError, match="torch's stack"):
        trace(lambda x: type(x).__torch_function__(stack, (), ([x],)), {"x": "float32"})
