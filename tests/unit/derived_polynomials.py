"""Derives the polynomials of `tilewright.multiply.problem.polynomials`; run it to print them anew.

Each is the interpolant at the Chebyshev points of its interval, which is within a small factor of the best polynomial
of its degree. All arithmetic is decimal, to 70 digits; the functions are `Decimal`'s own and the Maclaurin series of
the error function.

Source: Trefethen, Approximation Theory and Approximation Practice, theorem 16.1 (interpolants are near-best).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal, getcontext

getcontext().prec = 70
D = Decimal
PI = D("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
#: The middle of the map from [1, 6] to an interval about 0; the functions name it too.
ERF_MIDDLE = D("2.5")


def cosine(x: Decimal) -> Decimal:
    total, term, n = D(0), D(1), 0
    while abs(term) > D(10) ** -75:
        total += term
        n += 2
        term = -term * x * x / (n * (n - 1))
    return total


def erf_series(x: Decimal) -> Decimal:
    """2/sqrt(pi) times the sum of (-1)^n x^(2n+1) / (n! (2n+1))."""
    total, power, n = D(0), x, 0
    while n < 10 or abs(power) > D(10) ** -75:
        total += power / (2 * n + 1)
        n += 1
        power = -power * x * x / n
    return total * 2 / PI.sqrt()


def interpolant(f: Callable[[Decimal], Decimal], low: Decimal, high: Decimal, degree: int) -> list[Decimal]:
    """Monomial coefficients, constant first."""
    count = degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * cosine(PI * (2 * i + 1) / (2 * count)) for i in range(count)]
    divided = [f(x) for x in nodes]
    for step in range(1, count):
        for i in range(count - 1, step - 1, -1):
            divided[i] = (divided[i] - divided[i - 1]) / (nodes[i] - nodes[i - step])
    found = [D(0)] * count
    for i in range(count - 1, -1, -1):  # Horner's rule on Newton's form
        found = [(found[j - 1] if j else D(0)) - nodes[i] * found[j] for j in range(count)]
        found[0] += divided[i]
    return found


def exp_tail(r: Decimal) -> Decimal:
    """(exp(r) - 1 - r) / r^2."""
    return (r.exp() - 1 - r) / (r * r) if abs(r) > D("1e-12") else D("0.5")


def log_tail(z: Decimal) -> Decimal:
    """(log((1 + s) / (1 - s)) - 2 s) / s^3 with s^2 = z."""
    s = z.sqrt()
    return (((1 + s) / (1 - s)).ln() - 2 * s) / (s * z)


def erf_near(z: Decimal) -> Decimal:
    """erf(x) / x - 1 with x^2 = z."""
    x = z.sqrt()
    return erf_series(x) / x - 1


def erf_far(t: Decimal) -> Decimal:
    """exp(x^2) (1 - erf(x)) with t = (x - middle) / (x + middle)."""
    x = ERF_MIDDLE * (1 + t) / (1 - t)
    return (1 - erf_series(x)) * (x * x).exp()


def mapped(x: str) -> Decimal:
    return (D(x) - ERF_MIDDLE) / (D(x) + ERF_MIDDLE)


HALF_LOG2 = D(2).ln() / 2
TINY = D("1e-30")
LOG_WIDTH = ((D(2).sqrt() - 1) / (D(2).sqrt() + 1)) ** 2
#: name -> (function, interval, degree in float32, degree in float64)
POLYNOMIALS = {
    "exp": (exp_tail, (-HALF_LOG2, HALF_LOG2), 4, 10),
    "log": (log_tail, (TINY, LOG_WIDTH), 2, 6),
    "erf_near": (erf_near, (TINY, D(1)), 6, 11),
    "erf_far": (erf_far, (mapped("1"), mapped("6")), 7, 15),
}
INTERVAL_FLOAT32 = {"erf_far": (mapped("1"), mapped("4"))}


def derived(name: str, dtype: str) -> list[Decimal]:
    """The coefficients of one polynomial for one dtype, constant first, before rounding."""
    function, interval, short, long = POLYNOMIALS[name]
    if dtype == "float32":
        return interpolant(function, *INTERVAL_FLOAT32.get(name, interval), short)
    return interpolant(function, *interval, long)


def rounded(c: Decimal, dtype: str) -> float:
    """A coefficient in its dtype."""
    return float(struct.unpack("f", struct.pack("f", float(c)))[0]) if dtype == "float32" else float(c)


def error(name: str, dtype: str) -> Decimal:
    """The largest error of a polynomial, unrounded, over 200 points of its interval."""
    function, interval, _, _ = POLYNOMIALS[name]
    if dtype == "float32":
        interval = INTERVAL_FLOAT32.get(name, interval)
    coefficients, worst = derived(name, dtype), D(0)
    for i in range(201):
        x = interval[0] + (interval[1] - interval[0]) * i / 200
        value = D(0)
        for c in reversed(coefficients):
            value = value * x + c
        worst = max(worst, abs(value - function(x)))
    return worst


if __name__ == "__main__":
    for name in POLYNOMIALS:
        for dtype in ("float32", "float64"):
            row = ", ".join(repr(rounded(c, dtype)) for c in derived(name, dtype))
            print(f'    ("{name}", "{dtype}"): ({row}),  # error {float(error(name, dtype)):.1e}')
