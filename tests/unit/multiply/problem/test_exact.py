"""Arithmetic of the scalar oracle, against the hardware's where both apply."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scalar_product import canonical_scalar, convert, wrap

from tilewright.multiply.problem.dtypes import dtype
from tilewright.multiply.problem.exact import fma, round_to

doubles = st.floats(allow_nan=True, allow_infinity=True)


def same(x, y):
    return (math.isnan(x) and math.isnan(y)) or (x == y and math.copysign(1, x) == math.copysign(1, y))


@given(doubles, st.sampled_from(["float16", "float32"]))
def test_convert_is_the_hardware_conversion(value, name):
    with np.errstate(all="ignore"):
        assert same(convert(value, dtype(name)), float(np.float64(value).astype(name)))


@given(doubles, doubles)
def test_fma_with_a_neutral_operand_is_an_addition_or_a_product(x, y):
    double = dtype("float64")
    with np.errstate(all="ignore"):
        assert same(fma(x, 1.0, y, double), float(np.float64(x) + np.float64(y)))
        assert same(fma(x, y, -0.0, double), float(np.float64(x) * np.float64(y)))


@pytest.mark.parametrize(
    ("x", "y", "z", "expected"),
    [
        (math.inf, 0.0, math.nan, math.nan),
        (math.inf, 0.0, 1.0, math.nan),
        (math.inf, 1.0, -math.inf, math.nan),
        (math.inf, -1.0, -math.inf, -math.inf),
        (1.0, 1.0, -math.inf, -math.inf),
        (-1.0, 0.0, 0.0, 0.0),
        (-1.0, 0.0, -0.0, -0.0),
        (-1.0, 1.0, 1.0, 0.0),
        (2.0**-149, -0.25, 0.0, -0.0),
        (2.0**-149, 0.5, 0.0, 0.0),  # a tie, to even
        (2.0**-149, 0.75, 0.0, 2.0**-149),
        (2.0**127, 2.0, 0.0, math.inf),
        (2.0**127, 2.0, -(2.0**127), 2.0**127),  # no overflow between product and sum
        (1 + 2.0**-12, 1 + 2.0**-12, -1.0, 2.0**-11 + 2.0**-24),  # the product's last bit survives
    ],
)
def test_fma_in_float32(x, y, z, expected):
    assert same(fma(x, y, z, dtype("float32")), expected)


def test_round_to_ties_and_limits():
    half = dtype("float16")
    assert round_to(Fraction(2049), half) == 2048
    assert round_to(Fraction(2051), half) == 2052
    assert round_to(Fraction(65520) - Fraction(1, 10**9), half) == 65504
    assert round_to(-Fraction(65520), half) == -math.inf
    assert round_to(Fraction(1, 2**25), half) == 0
    assert round_to(Fraction(1, 2**25) * Fraction(10001, 10000), half) == 2.0**-24


def test_wrap():
    rng = random.Random(0)
    for name in ("int8", "uint8", "int32", "uint64"):
        for _ in range(200):
            value = rng.getrandbits(70) - (1 << 69)
            expected = np.array([value & (2**64 - 1)], np.uint64).astype(name)[0]
            assert wrap(value, dtype(name)) == expected


def test_order_of_k():
    """Ascending, the large pair cancels before the small term is added; descending, the small term is lost."""
    row = np.array([[2.0**30, -(2.0**30), 1.0]], np.float32)
    ones = np.ones((3, 1), np.float32)
    assert canonical_scalar(row, ones)[0, 0] == 1.0
    assert canonical_scalar(row[:, ::-1].copy(), ones)[0, 0] == 0.0
