"""Comparison of arrays of any dtype to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.multiply.problem import reference


def same_bits(x: Any, y: Any) -> bool:
    """Whether arrays are equal to the bit; NaN is NaN. Complex numbers by their parts."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "c" == y.dtype.kind:
        return x.dtype == y.dtype and same_bits(x.real, y.real) and same_bits(x.imag, y.imag)
    if x.dtype.kind == "b" == y.dtype.kind:
        return bool(x.shape == y.shape and (x == y).all())
    return reference.same_bits(x, y)
