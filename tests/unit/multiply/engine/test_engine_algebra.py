"""Semirings: every algebra over dtypes, shapes, strides, threads and batches, against a fold by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from folded import folded
from hypothesis import given, settings, strategies as st

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends.cpu import product
from tilewright.multiply.backends.cpu.choice import kernel_key
from tilewright.multiply.problem.algebra import ALGEBRAS
from tilewright.multiply.problem.reference import same_bits

Array = np.ndarray[Any, Any]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
WHOLE = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
NO_FLOATS, NO_INTEGERS = ("or-and", "xor-and"), ("log-sum-exp",)
#: Every algebra on a float and an integer, and one on every kind and width.
PAIRS = [
    *((name, "float32") for name in ALGEBRAS if name not in NO_FLOATS),
    *((name, "uint8") for name in ALGEBRAS if name not in NO_INTEGERS),
    *(("min-plus", dtype) for dtype in ("float16", "bfloat16", "float64", "int16", "int64", "uint64")),
    ("log-sum-exp", "float64"),
    ("max-min", "int8"),
]
SHAPES = [(1, 1, 1), (7, 70, 5), (1, 33, 12), (40, 1, 12), (5, 4, 0), (13, 130, 40)]
#: A multiplication that does not commute and an addition that is not associative.
CROOKED = tw.Algebra(add=lambda s, p: tw.maximum(s - 1, p), multiply=lambda x, y: x - 2 * y, zero=-9)


def numbers(shape: tuple[int, ...], name: str, seed: int) -> Array:
    random = np.random.default_rng(seed)
    if name == "bool":
        return random.random(shape) < 0.2
    if name in FLOATS:
        x = random.normal(size=shape) * 4
        x[random.random(shape) < 0.02] = np.inf
        x[random.random(shape) < 0.01] = np.nan
        x[random.random(shape) < 0.02] = -0.0
        import ml_dtypes

        return x.astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    info = np.iinfo(name)
    return random.integers(max(info.min, -200), min(info.max, 200), shape, endpoint=True).astype(name)


def truth(a: Array, b: Array, algebra: str | tw.Algebra) -> Array:
    """Integers are summed in their own dtype, 16-bit floats in float32."""
    total = "float32" if a.dtype.name in ("float16", "bfloat16") else a.dtype.name
    return folded(a, b, algebra, acc_dtype=total).astype(a.dtype)


def same(found: Array, expected: Array) -> bool:
    if found.dtype == bool:
        return found.dtype == expected.dtype and found.shape == expected.shape and bool((found == expected).all())
    return same_bits(np.ascontiguousarray(found), expected)


@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_every_algebra_is_its_fold(name: str, dtype: str) -> None:
    for seed, (m, n, k) in enumerate(SHAPES):
        a, b = numbers((m, k), dtype, seed), numbers((k, n), dtype, 100 + seed)
        with np.errstate(all="ignore"):
            assert same(tw.matmul(a, b, algebra=name), truth(a, b, name)), (m, n, k)


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
def test_more_than_one_block_of_every_extent(dtype: str) -> None:
    a, b = numbers((20, 600), dtype, 1), numbers((600, 70), dtype, 2)
    for algebra in ("min-plus", CROOKED):
        expected = truth(a, b, algebra)
        for threads in (1, 2, 3, 4):
            assert same(tw.matmul(a, b, algebra=algebra, threads=threads), expected)
    a, b = numbers((3, 20), dtype, 3), numbers((20, 5000), dtype, 4)
    assert same(tw.matmul(a, b, algebra="max-plus", threads=2), truth(a, b, "max-plus"))


def laid(x: Array, layout: str) -> Array:
    if layout == "columns":
        return np.asfortranarray(x)
    if layout == "reversed":
        return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    if layout == "spread":
        wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
        wide[::2, 1::3] = x
        return wide[::2, 1::3]
    return x


LAYOUTS = st.sampled_from(["rows", "columns", "reversed", "spread"])
OWN: dict[str, tw.Algebra | str] = {
    "distance": tw.Algebra(add=lambda s, p: s + p, multiply=lambda x, y: abs(x - y), zero=0),
    "unfused": tw.Algebra(add=lambda s, p: s + p, multiply=lambda x, y: x * y, zero=0),
    "crooked": CROOKED,
    "min-plus": "min-plus",
    "max-times": "max-times",
}


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(0, 40), st.integers(0, 70), st.integers(0, 30)),
    st.sampled_from(list(OWN)),
    st.sampled_from(["float32", "int16"]),
    st.tuples(LAYOUTS, LAYOUTS, LAYOUTS),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
def test_any_shape_and_strides(
    shape: tuple[int, int, int], name: str, dtype: str, layouts: tuple[str, str, str], threads: int, seed: int
) -> None:
    m, n, k = shape
    a, b = laid(numbers((m, k), dtype, seed), layouts[0]), laid(numbers((k, n), dtype, seed + 1), layouts[1])
    out = laid(np.zeros((m, n), dtype), layouts[2])
    with np.errstate(all="ignore"):
        expected = truth(a, b, OWN[name])
        assert same(tw.matmul(a, b, algebra=OWN[name], threads=threads), expected)
        assert tw.matmul(a, b, out, algebra=OWN[name], threads=threads) is out
    assert same(out, expected)


@pytest.mark.parametrize("algebra", ["or-and", "xor-and", "max-min", "min-max", "crooked"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 65, 300), (65, 33, 9), (3, 1000, 7), (1, 40, 0), (200, 1, 31)])
def test_booleans_in_words(shape: tuple[int, int, int], algebra: str) -> None:
    m, n, k = shape
    logic = tw.Algebra(add=lambda s, p: s ^ (s & p), multiply=lambda x, y: x & ~y, zero=True)
    chosen = logic if algebra == "crooked" else algebra
    a, b = numbers((m, k), "bool", 1), numbers((k, n), "bool", 2)
    expected = truth(a, b, chosen)
    for x, y in ((a, b), (np.asfortranarray(a), b[:, ::-1].copy()[:, ::-1])):
        assert same(tw.matmul(x, y, algebra=chosen, threads=2), expected)
    if algebra == "or-and":
        assert same(tw.matmul(a, b), expected)


def test_batches_broadcast_and_vectors_are_rows_and_columns() -> None:
    a, b = numbers((3, 1, 5, 6), "float32", 1), numbers((4, 6, 7), "float32", 2)
    found = tw.matmul(a, b, algebra="min-plus")
    assert found.shape == (3, 4, 5, 7)
    for i in range(3):
        for j in range(4):
            assert same(found[i, j], truth(a[i, 0], b[j], "min-plus"))
    assert same(tw.matmul(a[0, 0], b[0, :, 0], algebra="min-plus"), truth(a[0, 0], b[0, :, :1], "min-plus")[:, 0])
    x = np.array([1, 2, 5])
    assert tw.matmul(x, x, algebra="max-plus") == 10
    z = numbers((2, 9, 8), "bool", 3)
    many = tw.matmul(z, z.swapaxes(1, 2), algebra="xor-and")
    assert all(same(many[i], truth(z[i], z[i].T, "xor-and")) for i in range(2))


def test_a_multiplication_that_does_not_commute_in_a_transposed_product(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers((9, 4), "int32", 1), numbers((4, 6), "int32", 2)
    out = np.zeros((6, 9), np.int32).T
    assert same(tw.matmul(a, b, out, algebra=CROOKED), truth(a, b, CROOKED))
    monkeypatch.setattr(product, "_HOT", 32)
    for _ in range(40):  # small products get their own kernel after many calls
        assert same(tw.matmul(a, b[:, :1], algebra=CROOKED), truth(a, b[:, :1], CROOKED))


def test_integers_wrap_and_zero_is_the_identity() -> None:
    a, b = np.full((1, 2), 100, np.int8), np.full((2, 1), 100, np.int8)
    assert tw.matmul(a, b, algebra="min-plus") == np.int8(-56)
    assert tw.matmul(a, b, algebra="min-plus", dtype="int32") == 200
    assert tw.matmul(a, b, algebra="min-plus", acc_dtype="int32").dtype == np.int8
    none = np.zeros((1, 0), np.int8), np.zeros((0, 1), np.int8)
    assert [int(tw.matmul(*none, algebra=x)[0, 0]) for x in ("min-plus", "max-plus", "or-and")] == [127, -128, 0]
    assert tw.matmul(np.zeros((1, 0)), np.zeros((0, 1)), algebra="log-sum-exp") == -np.inf


def test_operands_are_converted_to_the_dtype_before_they_are_summed_in_a_wider_one() -> None:
    a = np.array([[200]], np.uint8)
    found = tw.matmul(a, a, dtype="int8", acc_dtype="int32", algebra="max-plus", epilogue=lambda s: s // 2)
    assert found == 2 * (200 - 256) // 2


def test_log_sum_exp_is_stable() -> None:
    a, b = numbers((20, 30), "float64", 1), np.random.default_rng(2).normal(size=(30, 10)) * 300
    a = np.where(np.isfinite(a), a, 0.0)
    exact = np.logaddexp.reduce(a[:, :, None] + b[None], 1)
    np.testing.assert_allclose(tw.matmul(a, b, algebra="log-sum-exp"), exact, rtol=1e-13)


def test_shortest_paths() -> None:
    random = np.random.default_rng(5)
    d = np.where(random.random((40, 40)) < 0.1, random.random((40, 40)), np.inf)
    np.fill_diagonal(d, 0)
    floyd = d.copy()
    for k in range(40):
        floyd = np.minimum(floyd, floyd[:, k, None] + floyd[None, k])
    for _ in range(6):
        d = tw.matmul(d, d, algebra="min-plus")
    np.testing.assert_allclose(d, floyd)


ONE, BITS = np.ones((2, 2)), np.ones((2, 2), bool)


@pytest.mark.parametrize(
    ("operand", "options", "error", "text"),
    [
        (ONE, {"algebra": "min-times"}, ArgumentValueError, "`algebra` must be one of plus-times, min-plus"),
        (ONE, {"algebra": 3}, ArgumentTypeError, "`algebra` must be a name or a tw.Algebra"),
        (ONE, {"algebra": "or-and"}, ArgumentTypeError, "`bitwise_or` must be given .*got float64, float64"),
        (ONE.astype(complex), {"algebra": "min-plus"}, ArgumentTypeError, "must have no algebra"),
        (BITS, {"algebra": "min-plus"}, ArgumentTypeError, "`add` must be given floats"),
        (BITS, {"algebra": "or-and", "alpha": 2}, ArgumentTypeError, "left out for an algebra of booleans"),
        (BITS, {"algebra": "or-and", "epilogue": lambda s: ~s}, ArgumentTypeError, "left out for an algebra of bool"),
        (ONE, {"algebra": tw.Algebra(tw.minimum, lambda x, y: x > y, 0)}, ArgumentTypeError, "must stay in .*got bool"),
        (ONE, {"algebra": tw.Algebra(min, lambda x, y: x + y, 0)}, ArgumentTypeError, "write tw.where"),
        (ONE, {"algebra": tw.Algebra(tw.minimum, tw.minimum, "0")}, ArgumentTypeError, "`zero` must be a real"),
        (ONE.astype("i1"), {"algebra": tw.Algebra(tw.minimum, tw.minimum, 300)}, ArgumentValueError, "`zero` must be"),
        (ONE, {"algebra": "max-min", "acc_dtype": "float32"}, ArgumentTypeError, "`acc_dtype` must hold"),
    ],
)  # fmt: skip
def test_arguments_that_are_refused(operand: Array, options: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        tw.matmul(operand, operand, **options)


def test_a_plan_names_the_algebra() -> None:
    plan = tw.plan((64, 48), (48, 32), "float32", algebra="min-plus")
    assert (plan.algebra, plan.kernel.family, plan.flops) == ("min-plus", "semiring", 2 * 64 * 48 * 32)
    a, b = numbers((64, 48), "float32", 1), numbers((48, 32), "float32", 2)
    assert same(plan(a, b), truth(a, b, "min-plus"))
    words = tw.plan((64, 48), (48, 32), "bool", algebra="xor-and")
    assert words.lowering == "words" and "bool" in (words.kernel.a, words.kernel.b)
    assert tw.plan((2, 2), (2, 2), algebra=CROOKED).algebra == "of its own"


@pytest.mark.parametrize("chosen", ["min-plus", "max-times", "log-sum-exp"])
def test_narrower_vectors_give_the_same_bits(chosen: str, narrow: Callable[[], None]) -> None:
    narrow()
    assert kernel_key("float32", "float32", "float32", "float32").vector_bytes == 32
    for dtype in ("float32", "float64") if chosen == "log-sum-exp" else ("float32", "int8", "int64"):
        a, b = numbers((15, 40), dtype, 1), numbers((40, 75), dtype, 2)
        with np.errstate(all="ignore"):
            assert same(tw.matmul(a, b, algebra=chosen), truth(a, b, chosen))
