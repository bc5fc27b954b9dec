"""Few results of long sums by `order="fast"`: their bits, their bound, and where they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.multiply.backends.cpu.lanes import EXTENT_MAX, STEPS_MIN
from tilewright.multiply.backends.cpu.product import multiply_into
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import canonical, error_bound, same_bits

Array = np.ndarray[Any, Any]
#: Products with their own chains: m, n, k. Segments of 4,096 steps, of which the last is cut off a chain's end.
SHAPES = [(1, 1, 1024), (1, 1, 4096), (1, 1, 13_001), (3, 5, 9000), (8, 8, 4100), (1, 8, 1057)]
TOTALS = {"float16": "float32", "float32": "float32", "float64": "float64"}


def drawn(dtype: str, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def in_chains(a: Array, b: Array, total: str) -> Array:
    """The product as the definition says: chains of 256 bytes by the scalar oracle, halved, then segment by segment."""
    found = np.zeros((a.shape[0], b.shape[1]), total)
    chains = 256 // found.itemsize
    for start in range(0, a.shape[1], 4096):
        x, y = (v.astype(total) for v in (a[:, start : start + 4096], b[start : start + 4096]))
        sums = np.stack([canonical(x[:, c::chains], y[c::chains]) for c in range(chains)])
        while len(sums) > 1:
            half = len(sums) // 2
            sums = sums[:half] + sums[half:]
        found += sums[0]
    return found.astype(a.dtype)


@pytest.mark.parametrize("dtype", TOTALS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_bits_are_those_of_the_chains(dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = drawn(dtype, m, k), drawn(dtype, k, n, seed=1)
    truth = in_chains(a, b, TOTALS[dtype])
    wide = np.repeat(np.repeat(b, 2, axis=0), 3, axis=1)
    for x, y in ((a, b), (np.asfortranarray(a), np.asfortranarray(b)), (a[:, ::-1].copy()[:, ::-1], wide[::2, ::3])):
        for threads in (1, 2):
            assert same_bits(tw.matmul(x, y, order="fast", threads=threads), truth)
    stacked = tw.matmul(np.stack([a, a]), b, order="fast")
    assert all(same_bits(one, truth) for one in stacked)


@pytest.mark.parametrize("dtype", TOTALS)
def test_the_error_is_within_the_bound_and_below_the_canonical_order_s(dtype: str) -> None:
    x, y = np.abs(drawn(dtype, 1, 200_000)), np.abs(drawn(dtype, 200_000, 1, seed=1))
    if dtype == "float16":
        x, y = x / 64, y / 64  # the sum must not overflow
    exact = float(np.sum(x[0].astype(np.longdouble) * y[:, 0].astype(np.longdouble)))
    fast, chain = (abs(float(tw.matmul(x, y, order=order, dtype=TOTALS[dtype])[0, 0]) - exact)  # type: ignore[call-overload]
                   for order in ("fast", "canonical"))  # fmt: skip
    assert fast <= error_bound(x, y, out_dtype=TOTALS[dtype])[0, 0]
    assert fast < chain


def test_an_epilogue_and_another_result_s_dtype() -> None:
    a, b = drawn("float32", 2, 5000), drawn("float32", 5000, 3, seed=1)
    plain = tw.matmul(a, b, order="fast")
    assert same_bits(tw.matmul(a, b, order="fast", epilogue=lambda x: x * 2 + 1), plain * 2 + 1)
    assert same_bits(
        tw.matmul(a, b, order="fast", dtype="float64"), in_chains(a.astype("f8"), b.astype("f8"), "float64")
    )
    out = np.full((2, 3), 7, np.float32)
    tw.matmul(a, b, order="fast", out=out, alpha=0.5, beta=2)
    assert np.allclose(out, plain * 0.5 + 14, rtol=1e-6)


def test_sums_are_continued_at_the_end_of_a_segment() -> None:
    a, b = drawn("float32", 2, 9000), drawn("float32", 9000, 3, seed=1)
    kind, sums = Kind("float32", "float32", "float32", "float32", order="fast"), np.full((2, 3), 7, np.float32)
    multiply_into(a[:, :4096], b[:4096], sums, kind)
    multiply_into(a[:, 4096:], b[4096:], sums, kind._replace(continues=True))
    assert same_bits(sums, in_chains(a, b, "float32"))


def test_values_that_are_not_finite() -> None:
    x = np.ones(5000, np.float32)
    for at, value in ((4999, np.nan), (64, np.inf), (4096, -np.inf)):
        y = x.copy()
        y[at] = value
        assert np.array_equal(tw.matmul(x, y, order="fast"), value, equal_nan=True)


def test_the_plan_says_where_lanes_are_used() -> None:
    def path(m: int, n: int, k: int, dtype: str = "float32", **options: Any) -> tuple[str, str]:
        plan = tw.plan((m, k), (k, n), dtype, **options)
        return plan.path, plan.order

    most = EXTENT_MAX
    assert path(most, most, STEPS_MIN, order="fast") == ("lanes", "fast")
    assert path(1, 1, 10**6, "float64", order="fast") == ("lanes", "fast")
    for other in ((most + 1, 1, STEPS_MIN), (1, most + 1, STEPS_MIN), (1, 1, STEPS_MIN - 1)):
        assert path(*other, order="fast")[1] == "canonical"
    assert path(1, 1, 10**6)[1] == path(1, 1, 10**6, order="tf32x3")[1] == "canonical"
    assert path(1, 1, 10**6, "int32", order="fast")[1] == "canonical"
    assert path(1, 1, 10**6, order="fast", algebra="min-plus")[1] == "canonical"
