"""Products of matrices of integers, bits and float64, which are the same on every GPU."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from fragments import extents, gathered, spread
from matrix_batch import run
from narrow_hosts import use_host

INTEGERS = [
    *itertools.product(("m8n8k16", "m16n8k16", "m16n8k32"), ("s8", "u8"), ("s8", "u8")),
    *itertools.product(("m8n8k32", "m16n8k32", "m16n8k64"), ("s4", "u4"), ("s4", "u4")),
]


def drawn(rng: np.random.Generator, type_: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random integers of a type, its least and greatest among them."""
    bits = int(type_[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)
    found = rng.integers(low, high, shape, endpoint=True)
    ends = rng.random(shape)
    return np.where(ends < 0.1, low, np.where(ends > 0.9, high, found))


def product(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, shape: str, bits: int) -> np.ndarray:
    """D of the simulated GPU, as int32."""
    patterns = [(x & (1 << width) - 1).astype(np.uint64) for x, width in ((a, bits), (b, bits), (c, 32))]
    operands = [spread(x, shape, m, width) for x, m, width in zip(patterns, "abc", (bits, bits, 32), strict=True)]
    return gathered(run(name, operands, operands[2].shape[1], 32), shape, "d", 32).astype(np.uint32).view(np.int32)


@pytest.mark.parametrize("finite", ["", ".satfinite"])
@pytest.mark.parametrize(("shape", "of_a", "of_b"), INTEGERS)
@pytest.mark.parametrize("cases", [4, pytest.param(1600, marks=pytest.mark.volume)])
def test_integers(shape, of_a, of_b, finite, cases):
    m, n, k = extents(shape)
    rng = np.random.default_rng(len(shape) * k)
    a, b = drawn(rng, of_a, (cases, m, k)), drawn(rng, of_b, (cases, k, n))
    c = drawn(rng, "s32", (cases, m, n))
    exact = a @ b + c
    wanted = np.clip(exact, -(2**31), 2**31 - 1) if finite else exact.astype(np.int32)
    assert finite == "" or not np.array_equal(wanted, exact), "some saturate"
    name = f"mma.sync.aligned.{shape}.row.col{finite}.s32.{of_a}.{of_b}.s32"
    np.testing.assert_array_equal(product(name, a, b, c, shape, int(of_a[1:])), wanted)


@pytest.mark.parametrize("operation", ["xor", "and"])
@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
@pytest.mark.parametrize("cases", [4, pytest.param(1600, marks=pytest.mark.volume)])
def test_bits(shape, operation, cases):
    m, n, k = extents(shape)
    rng = np.random.default_rng(k)
    a, b, c = rng.integers(0, 2, (cases, m, k)), rng.integers(0, 2, (cases, k, n)), drawn(rng, "s32", (cases, m, n))
    both = a @ b
    counts = both if operation == "and" else a.sum(axis=2)[:, :, None] + b.sum(axis=1)[:, None, :] - 2 * both
    name = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{operation}.popc"
    np.testing.assert_array_equal(product(name, a, b, c, shape, 1), (counts + c).astype(np.int32))


def fused(a: float, b: float, c: float, mode: str) -> float:
    """A fused multiply-add in fractions."""
    if not all(map(math.isfinite, (a, b, c))):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        alike = math.copysign(1, a) * math.copysign(1, b) == math.copysign(1, c)
        return math.copysign(0.0, c) if alike else -0.0 if mode == "rm" else 0.0
    if exact < 0:
        return -rounded(-exact, {"rm": "rp", "rp": "rm"}.get(mode, mode))
    return rounded(exact, mode)


def rounded(exact: Fraction, mode: str) -> float:
    """A number above 0 as a float64."""
    most = Fraction(2) ** 1024 - Fraction(2) ** 971
    if exact > most:
        beyond = exact >= most + Fraction(2) ** 970 if mode == "rn" else mode == "rp"
        return math.inf if beyond else float(most)
    nearest = float(exact)
    if mode == "rp" and nearest < exact:
        return math.nextafter(nearest, math.inf)
    return math.nextafter(nearest, 0.0) if mode in ("rz", "rm") and nearest > exact else nearest


def doubles(rng: np.random.Generator, shape: tuple[int, ...], *, special: bool) -> np.ndarray:
    """Random float64, with exponents near each other or any."""
    if not special:
        return rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 4, shape)
    found = rng.integers(0, 2**64, shape, dtype=np.uint64, endpoint=False).view(np.float64)
    found = np.where(np.isnan(found), 5e-324, found)
    return np.where(rng.random(shape) < 0.03, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324], shape), found)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("rounding", ["", ".rn", ".rz", ".rm", ".rp"])
@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
@pytest.mark.parametrize("cases", [2, pytest.param(800, marks=pytest.mark.volume)])
def test_doubles_are_chains_of_fused_multiply_adds(shape, rounding, special, cases):
    m, n, k = extents(shape)
    rng = np.random.default_rng(k)
    a, b, c = (doubles(rng, (cases, *x), special=special) for x in ((m, k), (k, n), (m, n)))
    operands = [spread(x.view(np.uint64), shape, letter, 64) for x, letter in zip((a, b, c), "abc", strict=True)]
    name = f"mma.sync.aligned.{shape}.row.col{rounding}.f64.f64.f64.f64"
    d = gathered(run(name, operands, operands[2].shape[1], 64), shape, "d", 64)
    for case, row, column in np.ndindex(d.shape):
        total = float(c[case, row, column])
        for x, y in zip(a[case, row], b[case, :, column], strict=True):
            total = fused(float(x), float(y), total, rounding[1:] or "rn")
        wanted = 0x7FFFFFFFFFFFFFFF if math.isnan(total) else int(np.float64(total).view(np.uint64))
        assert int(d[case, row, column]) == wanted


@pytest.mark.parametrize("host", ["avx2", "sse"])
def test_narrow_hosts_give_the_same(host, monkeypatch):
    use_host(monkeypatch.setattr, host)
    for shape, of_a, of_b in INTEGERS[::5]:
        test_integers(shape, of_a, of_b, ".satfinite", 4)
    test_bits("m16n8k256", "xor", 4)
    for rounding in ("", ".rz", ".rm", ".rp"):
        test_doubles_are_chains_of_fused_multiply_adds("m16n8k16", rounding, True, 3)
