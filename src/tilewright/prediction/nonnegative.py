"""Least squares in numbers that are not negative.

Source: Lawson, Hanson, Solving Least Squares Problems, 1974, chapter 23, algorithm NNLS.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Vector = npt.NDArray[np.float64]


def least_squares(a: _Vector, b: _Vector, near: _Vector | None = None) -> _Vector:
    """The x >= 0 for which |a x - b| is least.

    Parameters
    ----------
    a : ndarray of float64, shape (rows, n)
    b : ndarray of float64, shape (rows,)
    near : ndarray of float64, shape (n,), optional
        An x >= 0 to begin with; what is positive of the solution in all numbers, by default.

    Examples
    --------
    >>> least_squares(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([2.0, -3.0])).tolist()
    [2.0, 0.0]
    """
    x = np.maximum(np.linalg.lstsq(a, b, rcond=None)[0], 0.0) if near is None else near
    free = x > 0
    if free.any():
        x = _inside(a, b, x, free)
    tolerance = 1e-12 * max(1.0, float(np.abs(a.T @ b).max(initial=0.0)))
    for _ in range(3 * len(x)):
        gradient = np.where(free, -np.inf, a.T @ (b - a @ x))
        if gradient.max(initial=-np.inf) <= tolerance:
            break
        free[gradient.argmax()] = True
        x = _inside(a, b, x, free)
    return x


def _inside(a: _Vector, b: _Vector, x: _Vector, free: npt.NDArray[np.bool_]) -> _Vector:
    """From x towards the solution in the free numbers; those that would become negative are fixed at 0."""
    while free.any():
        solution = np.zeros(len(x))
        solution[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
        falling = free & (solution <= 0)
        if not falling.any():
            return solution
        step = np.min(x[falling] / np.maximum(x[falling] - solution[falling], 1e-300))
        x = x + step * (solution - x)
        free &= ~(falling & (x <= 1e-12))
        x[~free] = 0
    return x
