"""Products of whole matrices: each result against sums of integers, truncated as the GPU truncates them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tilewright import machine
from tilewright.simulate.run.whole_products import whole_product

#: How many products a GPU adds together, and its fraction bits below the largest exponent (MMA-Sim, table 4).
GPUS = {"v100": (4, 23), "a100": (8, 24), "h100": (16, 25)}


def exponent(x: Fraction) -> int:
    return math.frexp(x)[1] - 1


def summed(terms: list[tuple[Fraction, int]], fraction: int) -> Fraction:
    """A sum of terms by their exponents: each is truncated below the largest one's bits, the result to 23 bits."""
    unit = Fraction(2) ** (max((e for x, e in terms if x), default=0) - fraction)
    whole = sum(math.trunc(x / unit) for x, _ in terms) * unit
    if not whole:
        return whole
    unit = Fraction(2) ** (exponent(whole) - 23)
    return math.trunc(whole / unit) * unit


def expected(a: np.ndarray, b: np.ndarray, group: int, fraction: int) -> float:
    total = Fraction(0)
    for first in range(0, len(a), group):
        pairs = [
            (Fraction(float(x)), Fraction(float(y))) for x, y in zip(a[first:][:group], b[first:][:group], strict=True)
        ]
        terms = [(x * y, exponent(x) + exponent(y) if x and y else 0) for x, y in pairs]
        total = summed([*terms, (total, exponent(total) if total else 0)], fraction)
    return float(total)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 9, 40), (3, 25, 129)])
def test_sums_are_truncated_as_on_the_gpu(gpu: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    random = np.random.default_rng(m)
    a = (random.random((k, m)) - 0.3).astype(np.float16).T  # by columns
    b = (random.random((k, n)) * 2.0 ** random.integers(-3, 4, (k, 1))).astype(np.float16)
    found = whole_product(a.view(np.uint16), b.view(np.uint16), "f16", machine.gpu(gpu))
    for row, column in {(0, 0), (m - 1, n - 1), (m // 2, n // 3)}:
        assert found[row, column] == expected(a[row], b[:, column], *GPUS[gpu]), (row, column)


def test_brain_floats_and_specials() -> None:
    one, nan, infinite = 0x3F80, 0x7FC0, 0x7F80
    a = np.full((2, 20), one, np.uint16)
    b = np.full((20, 3), one, np.uint16)
    b[4, 1], b[7, 2] = nan, infinite
    found = whole_product(a, b, "bf16", machine.gpu("a100"))
    assert found[:, 0].tolist() == [20, 20] and np.isnan(found[:, 1]).all() and np.isposinf(found[:, 2]).all()


def test_no_k_gives_zeros() -> None:
    nothing = np.empty((3, 0), np.uint16)
    assert not whole_product(nothing, nothing.T, "f16", machine.gpu("h100")).any()
