"""Floats to integers of every width: truncated, saturated, 0 for NaN, in vectors and one by one."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw


def truncated(value: float, dtype: str) -> int:
    ends = np.iinfo(dtype)
    if np.isnan(value):
        return 0
    if np.isinf(value):
        return int(ends.max if value > 0 else ends.min)
    return min(max(int(value), int(ends.min)), int(ends.max))


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_floats_saturate(source: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    ends = np.iinfo(dtype)
    edges = [np.nan, np.inf, -np.inf, 0, -0.0, -0.5, 0.5, -1, -0.99, 2.0**63, 2.0**64, -(2.0**63), -(2.0**70)]
    near = [float(end) + step for end in (ends.min, ends.max) for step in (-2, -1, -0.5, 0, 0.5, 1, 2)]
    sizes = random.normal(size=300) * 10.0 ** random.integers(-3, 22, 300)
    values = np.concatenate([sizes, edges, near]).astype(source)
    found = tw.matmul(np.ones((2, 1), source), values[None, :], epilogue=lambda acc: tw.astype(acc, dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found[1], np.array([truncated(v, dtype) for v in values.tolist()], dtype))
