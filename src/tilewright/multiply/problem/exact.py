"""Rounding and fused multiply-add by exact rationals, one scalar at a time: simple and slow.

Source: IEEE 754-2019, sections 4.3.1 (roundTiesToEven), 5.4.1 (fusedMultiplyAdd), 6.3 (the sign of zero) and
7.4 (overflow).
"""

from __future__ import annotations

import math
from fractions import Fraction

from tilewright.multiply.problem.dtypes import Dtype


def round_to(value: Fraction, format_: Dtype) -> float:
    """The nearest value of a floating-point format, ties to even; beyond the range infinity, or NaN if there is none.

    >>> import numpy as np
    >>> from tilewright.multiply.problem.dtypes import dtype
    >>> round_to(Fraction(1, 3), dtype("float16")) == float(np.float16(1 / 3))
    True
    >>> round_to(Fraction(65520), dtype("float16"))
    inf
    """
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    quantum = max(exponent, format_.emin) - (format_.precision - 1)
    steps = round(magnitude / Fraction(2) ** quantum)  # Python rounds halves of a Fraction to even
    beyond = steps * Fraction(2) ** quantum > Fraction(format_.largest)
    rounded = (math.inf if format_.infinite else math.nan) if beyond else math.ldexp(steps, quantum)
    return -rounded if value < 0 else rounded


def fma(x: float, y: float, z: float, format_: Dtype) -> float:
    """`x * y + z` with one rounding to a format.

    >>> from tilewright.multiply.problem.dtypes import dtype
    >>> fma(2.0**-30, 2.0**-30, 1.0, dtype("float32"))
    1.0
    >>> fma(-1.0, 0.0, -0.0, dtype("float32"))
    -0.0
    """
    if math.isnan(x) or math.isnan(y) or math.isnan(z):
        return math.nan
    negative = math.copysign(1.0, x) != math.copysign(1.0, y)
    if math.isinf(x) or math.isinf(y):
        product = -math.inf if negative else math.inf
        if 0.0 in (x, y) or (math.isinf(z) and z != product):
            return math.nan
        return product
    if math.isinf(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return -0.0 if negative and math.copysign(1.0, z) < 0 else 0.0
    rounded = round_to(exact, format_)
    return math.copysign(rounded, -1.0) if exact < 0 else rounded
