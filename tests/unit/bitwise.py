"""Comparing arrays to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np


def same_bits(x: Any, y: Any) -> bool:
    """Whether arrays are equal to the bit; NaN is NaN."""
    x, y = np.atleast_1d(x), np.atleast_1d(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind == "c":
        return same_bits(x.real, y.real) and same_bits(x.imag, y.imag)
    if x.dtype.kind not in "fV":
        return bool((x == y).all())
    words = np.dtype(f"u{x.dtype.itemsize}")
    bits = np.ascontiguousarray(x).view(words) == np.ascontiguousarray(y).view(words)
    wide = [v.astype(np.float64) for v in (x, y)]
    return bool((bits | (np.isnan(wide[0]) & np.isnan(wide[1]))).all())
