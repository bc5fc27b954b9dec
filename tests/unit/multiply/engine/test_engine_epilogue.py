"""Epilogues: every kind of operand, dtype, stride and path, against the expression of canonical sums by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from folded import finished, folded
from hypothesis import given, settings, strategies as st

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.problem.dtypes import dtype as record_of
from tilewright.multiply.problem.reference import same_bits

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    values = np.random.default_rng(seed).normal(size=shape) * 3
    return values.astype(record_of(dtype).numpy)


def same(found: Array, expected: Array) -> bool:
    if found.dtype == bool:
        return expected.dtype == bool and bool((found == expected).all())
    return same_bits(np.ascontiguousarray(found), np.ascontiguousarray(expected))


def sums(a: Array, b: Array) -> Array:
    return folded(a, b, acc_dtype=record_of(a.dtype).accumulator)


A, B = normal(37, 70, seed=1), normal(70, 53, seed=2)
OPERANDS = {
    "row": normal(53, seed=3),
    "column": normal(37, 1, seed=4),
    "full": normal(37, 53, seed=5),
    "columns": np.asfortranarray(normal(37, 53, seed=5)),
    "reversed": normal(37, 53, seed=6)[::-1, ::-1],
    "spread": normal(74, 159, seed=7)[::2, ::3],
    "spread row": normal(106, seed=8)[::2],
    "one row": normal(1, 53, seed=9),
    "scalar array": np.float32(0.75),
    "half": normal(53, seed=10, dtype="float16"),
    "brain": normal(37, 1, seed=11, dtype="bfloat16"),
    "double": normal(53, seed=12, dtype="float64"),
    "byte": np.arange(53, dtype=np.int8),
    "truth": normal(37, 53, seed=13) > 0,
    "foreign": normal(53, seed=14).astype(">f4"),
}


@pytest.mark.parametrize("kind", OPERANDS)
def test_every_kind_of_operand(kind: str) -> None:
    x = OPERANDS[kind]

    def epilogue(total: Any, x: Any) -> Any:
        return tw.where(x, total, -total) if kind == "truth" else tw.relu(total * 0.5 + x)

    expected = finished(sums(A, B), epilogue, [x.astype(x.dtype.newbyteorder("="))])
    for threads in (1, 2, 3):
        found = tw.matmul(A, B, epilogue=epilogue, epilogue_args=[x], threads=threads)
        assert same(found, expected)
    assert same(tw.matmul(A, B, epilogue=epilogue, epilogue_args={"x": x}), expected)


EPILOGUES: dict[str, Callable[[Any, Any], Any]] = {
    "bias and relu": lambda total, x: tw.relu(total + x),
    "bias and gelu": lambda total, x: tw.gelu(total + x),
    "silu": lambda total, x: tw.silu(total) * x,
    "tanh": lambda total, x: tw.tanh(total / 10) - x,
    "scale by an operand": lambda total, x: tw.clip(tw.round(total * x), -100, 100),
    "nothing": lambda total, x: total,
    "only the operand": lambda total, x: x,
    "a constant": lambda total, x: 1,
    "truth": lambda total, x: total > x,
    "whole": lambda total, x: tw.astype(total * x, "int16"),
}


@pytest.mark.parametrize(
    ("label", "dtype"),
    [
        *((label, "float32") for label in EPILOGUES),
        *((label, dtype) for label in ("bias and gelu", "truth", "whole") for dtype in ("float64", "int32")),
    ],
)
def test_epilogues(label: str, dtype: str) -> None:
    a, b = normal(19, 33, seed=1, dtype=dtype), normal(33, 40, seed=2, dtype=dtype)
    x = normal(40, seed=3, dtype=dtype)
    expected = finished(sums(a, b), EPILOGUES[label], [x])
    assert same(tw.matmul(a, b, epilogue=EPILOGUES[label], epilogue_args=[x]), expected)


def test_dtypes_of_results() -> None:
    a, b = np.arange(6, dtype=np.int8).reshape(2, 3), np.ones((3, 4), np.int8)
    half, brain = A.astype(np.float16), A.astype(ml_dtypes.bfloat16)
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (a, b, {"epilogue": lambda total: total}, "int8"),
        (a, b, {"epilogue": lambda total: total * 0.5}, "float64"),
        (a, b, {"epilogue": lambda total: tw.astype(total, "float32") * 0.5}, "float32"),
        (a, b, {"epilogue": lambda total: tw.requantise(total, 0.1, 3, "uint8")}, "uint8"),
        (a, b, {"epilogue": tw.relu, "dtype": "int32"}, "int32"),
        (half, half.T, {"epilogue": tw.relu}, "float16"),
        (half, half.T, {"epilogue": tw.relu, "dtype": "float32"}, "float32"),
        (brain, brain.T, {"epilogue": lambda total: total + 1}, "bfloat16"),
        (A, B, {"epilogue": lambda total: tw.astype(total, "bfloat16")}, "bfloat16"),
        (A, B, {"epilogue": lambda total: tw.astype(total, "float16")}, "float16"),
        (A, B, {"epilogue": lambda total: total > 0}, "bool"),
        (A, B, {"epilogue": lambda total: total > 0, "dtype": "float32"}, "float32"),
        (A, B, {"epilogue": lambda total, x: total + x, "epilogue_args": [np.float64(1)]}, "float64"),
        (A, B, {"epilogue": lambda total, x: total + x, "epilogue_args": [1.0]}, "float32"),
        (A, B, {"epilogue": tw.relu, "acc_dtype": "float64"}, "float32"),
    ]
    for number, (left, right, options, name) in enumerate(cases):
        plan = tw.plan(left.shape, right.shape, left.dtype, right.dtype, **options)
        assert plan.dtype.name == name, (left.dtype, options)
        if number % 3 == 0:  # the plan keeps its word
            assert tw.matmul(left, right, **options).dtype.name == name, (left.dtype, options)


def test_sums_are_whole_before_they_are_narrowed() -> None:
    a, b = np.full((3, 9), 100, np.int8), np.full((9, 5), 100, np.int8)
    assert (tw.matmul(a, b, epilogue=lambda total: total // 1000) == 90).all()
    assert (tw.matmul(a, b, epilogue=lambda total: tw.requantise(total, 0.001)) == 90).all()
    words = np.full((3, 9), 60000, np.uint16)
    exact = np.full((3, 3), 9 * 60000**2 % 2**32, np.uint32)
    assert (tw.matmul(words, words.T, epilogue=lambda total: total >> 20) == (exact >> 20).astype(np.uint16)).all()
    assert (tw.matmul(a, b, acc_dtype="int8", epilogue=lambda total: total) == np.int64(90000).astype(np.int8)).all()
    low = np.full((2, 2), 200, np.uint8)
    assert (tw.matmul(low, low, dtype="int8", epilogue=lambda total: total // 1000) == 2 * 56**2 // 1000).all()


def test_outputs_of_any_strides_and_dtype() -> None:
    expected = finished(sums(A, B), tw.gelu, [])
    for out in (np.zeros((53, 37), np.float32).T, np.zeros((37, 106), np.float32)[:, ::2], np.zeros((37, 53))[::-1]):
        assert tw.matmul(A, B, out, epilogue=tw.gelu) is out
        assert (out == expected).all()
    rounded = np.zeros((37, 106), ml_dtypes.bfloat16)[:, ::2]
    tw.matmul(A, B, rounded, epilogue=tw.gelu, dtype="float32")
    assert same(rounded, expected.astype(ml_dtypes.bfloat16))
    many = np.zeros((2, 37, 53), np.float32)
    tw.matmul(A, B, many, epilogue=tw.gelu)
    assert (many == expected).all()


def test_an_output_that_is_also_an_operand() -> None:
    x = normal(37, 53, seed=5)
    expected = finished(sums(A, B), lambda total, x: total - x, [x])
    out = x.copy()
    tw.matmul(A, B, out, epilogue=lambda total, x: total - x, epilogue_args=[out])
    assert same(out, expected)
    flipped = x.copy()
    tw.matmul(A, B, flipped[::-1], epilogue=lambda total, x: total - x, epilogue_args=[flipped])
    assert same(np.ascontiguousarray(flipped[::-1]), expected)


def test_alpha_and_beta_come_first() -> None:
    out, bias = normal(37, 53, seed=5), OPERANDS["row"]

    def epilogue(total: Any, x: Any) -> Any:
        return tw.relu(total + x)

    scaled = sums(A, B) * np.float32(2) + out * np.float32(3)
    expected = finished(scaled, epilogue, [bias])
    for target in (out.copy(), np.asfortranarray(out), out[::-1].copy()[::-1]):
        tw.matmul(A, B, target, alpha=2, beta=3, epilogue=epilogue, epilogue_args={"x": bias})
        assert same(target, expected)


def test_beta_scales_each_entry_of_a_longer_output() -> None:
    out = normal(2, 37, 53, seed=5)
    expected = sums(A, B) + out * np.float32(3)
    tw.matmul(A, B, out, beta=3)
    assert same(out, expected)
    wide = normal(37, 53, seed=6).astype(">f8")
    expected = (sums(A, B) + wide.astype(np.float32)).astype(">f8")
    tw.matmul(A, B, wide, beta=1)
    assert (wide == expected).all()


def test_vectors_and_batches() -> None:
    a, b = normal(3, 1, 5, 6, seed=1), normal(4, 6, 7, seed=2)
    bias = normal(3, 1, 1, 7, seed=3)
    found = tw.matmul(a, b, epilogue=lambda total, x: tw.relu(total + x), epilogue_args=[bias], threads=2)
    assert found.shape == (3, 4, 5, 7)
    for i in range(3):
        for j in range(4):
            expected = finished(sums(a[i, 0], b[j]), lambda total, x: tw.relu(total + x), [bias[i, 0]])
            assert same(found[i, j], expected)
    v = normal(6, seed=4)
    line = tw.matmul(v, b[0], epilogue=lambda total, x: total * x, epilogue_args=[np.arange(7, dtype=np.float32)])
    assert same(line, sums(v[None], b[0])[0] * np.arange(7, dtype=np.float32))
    column = tw.matmul(a[0, 0], v, epilogue=lambda total, x: total + x, epilogue_args=[np.arange(5, dtype=np.float32)])
    assert same(column, sums(a[0, 0], v[:, None])[:, 0] + np.arange(5, dtype=np.float32))
    assert tw.matmul(v, v, epilogue=lambda total: -total) == -sums(v[None], v[:, None])[0, 0]
    shared = tw.matmul(normal(8, 5, 6), b[0], epilogue=lambda t, x: t + x, epilogue_args=[np.ones((8, 5, 7), "f4")])
    assert shared.shape == (8, 5, 7)


def test_more_than_one_block_of_every_extent() -> None:
    a, b = normal(30, 700, seed=1), normal(700, 1100, seed=2)
    x = normal(30, 1, seed=3)
    expected = finished(sums(a, b), lambda total, x: tw.sigmoid(total * x), [x])
    for out in (None, np.zeros((1100, 30), np.float32).T):
        found = tw.matmul(a, b, out, epilogue=lambda total, x: tw.sigmoid(total * x), epilogue_args=[x], threads=2)
        assert same(found, expected)
    bytes_ = np.random.default_rng(4).integers(-128, 128, (40, 2000)).astype(np.int8)
    total = bytes_.astype(np.int64) @ bytes_.astype(np.int64).T
    found = tw.matmul(bytes_, bytes_.T, epilogue=lambda t: t, dtype="int32")
    assert (found == total).all()
    found = tw.matmul(bytes_, bytes_.T, epilogue=lambda t: tw.astype(t, "float64"))
    assert (found == total).all()


def test_skinny_products_are_finished_too() -> None:
    a, b = normal(2, 600, seed=1), normal(600, 500, seed=2)
    for left, right in ((a, b), (a, np.asfortranarray(b)), (b.T, a.T)):
        expected = finished(sums(left, right), lambda total: tw.tanh(total / 20), [])
        assert same(tw.matmul(left, right, epilogue=lambda total: tw.tanh(total / 20), threads=2), expected)
        assert same(tw.matmul(left, right, algebra="min-plus"), folded(left, right, "min-plus", acc_dtype="float32"))


def test_no_steps() -> None:
    a, b = np.zeros((4, 0), np.float32), np.zeros((0, 5), np.float32)
    found = tw.matmul(a, b, epilogue=lambda total, x: total + x, epilogue_args=[np.arange(5, dtype=np.float32)])
    assert (found == np.arange(5)).all()
    assert tw.matmul(np.zeros((0, 3)), np.zeros((3, 4)), epilogue=tw.relu).shape == (0, 4)
    assert (tw.matmul(a, b, algebra="min-plus", epilogue=lambda total: -total) == -np.inf).all()


def test_an_epilogue_of_a_semiring() -> None:
    expected = finished(folded(A, B, "max-plus", acc_dtype="float32"), lambda t, x: t * 2 - x, [OPERANDS["row"]])
    found = tw.matmul(A, B, algebra="max-plus", epilogue=lambda t, x: t * 2 - x, epilogue_args=[OPERANDS["row"]])
    assert same(found, expected)
    out = np.ones((37, 53), np.float32)
    tw.matmul(A, B, out, algebra="max-plus", alpha=2, beta=1)
    assert same(out, folded(A, B, "max-plus", acc_dtype="float32") * np.float32(2) + np.float32(1))


def test_functions_are_traced_again_when_their_closure_changes() -> None:
    scale = 2.0
    total = sums(A, B)
    assert same(tw.matmul(A, B, epilogue=lambda t: t * scale), total * np.float32(2))
    scale = 3.0
    assert same(tw.matmul(A, B, epilogue=lambda t: t * scale), total * np.float32(3))


def test_a_plan_keeps_its_epilogue() -> None:
    plan = tw.plan((37, 70), (70, 53), "float32", epilogue=lambda t, x: tw.relu(t + x), epilogue_args=[OPERANDS["row"]])
    assert plan.epilogue == "sum:float32 x0:float32 -> %2 = add(sum, x0); maximum(%2, 0.0:float32)"
    assert same(plan(A, B), finished(sums(A, B), lambda t, x: tw.relu(t + x), [OPERANDS["row"]]))
    assert tw.plan((2, 2), (2, 2)).epilogue == ""
    calls = []
    noted = tw.plan((37, 70), (70, 53), "float32", epilogue=lambda t: calls.append(1) or tw.gelu(t))
    assert same(noted(A, B), noted(A, B))
    assert len(calls) == 1
    half = tw.plan((4, 4), (4, 4), "int8", epilogue=lambda t: tw.requantise(t, 0.5))
    assert half.dtype == np.int8
    assert half(np.ones((4, 4), np.int8), np.ones((4, 4), np.int8))[0, 0] == 2


ONE = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"epilogue": 3}, ArgumentTypeError, "`epilogue` must be a function"),
        ({"epilogue_args": [1]}, ArgumentTypeError, "`epilogue_args` must be left out"),
        ({"epilogue": lambda t: None}, ArgumentTypeError, "must return what it computed"),
        ({"epilogue": lambda t: t if t > 0 else 0}, ArgumentTypeError, r"write tw.where"),
        ({"epilogue": lambda t, x: t, "epilogue_args": [np.ones(4)]}, ArgumentValueError, r"epilogue_args\[0\].*shape"),
        ({"epilogue": lambda t, x: t, "epilogue_args": {"x": 1j}}, ArgumentTypeError, r"epilogue_args\['x'\].*complex"),
        ({"epilogue": lambda t, x: t, "epilogue_args": ["a"]}, ArgumentTypeError, "must be of booleans, integers"),
        ({"epilogue": lambda t: t > 0, "out": np.zeros((2, 2), "f4"), "dtype": "int8"}, ArgumentTypeError, "same_kind"),
        ({"epilogue": lambda t: t + 0.5, "out": np.zeros((2, 2), int)}, ArgumentTypeError, "`out.dtype` must take"),
        ({"epilogue": lambda t: t, "beta": 1}, ArgumentValueError, "`beta` must be 0 without"),
    ],
)
def test_arguments_that_are_refused(options: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        tw.matmul(ONE, ONE.T, **options)


@pytest.mark.parametrize("dtype", ["complex64", "bool"])
def test_dtypes_without_epilogues(dtype: str) -> None:
    a = ONE.astype(dtype)
    with pytest.raises(ArgumentTypeError, match=r"epilogue"):
        tw.matmul(a, a.T, epilogue=lambda t: t)


@pytest.mark.parametrize(
    ("epilogue", "arguments", "text"),
    [
        (lambda t, x: t + x, (), "1 by position and none by name .*missing a required argument: 'x'"),
        (lambda t: t, (1,), "2 by position .*too many positional"),
        (lambda t, x: t + x, {"y": 1}, "1 by position and y by name"),
        (lambda t, x: t + x, ONE[0], "must be a sequence or a mapping of operands .*got ndarray"),
        (lambda t: t + 10**400, (), "a constant must be a value of float32"),
        (lambda t: t ** float("inf"), (), "a power that is no whole number"),
    ],
)
def test_functions_and_arguments_that_do_not_go_together(epilogue: Any, arguments: Any, text: str) -> None:
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match=text):
        tw.matmul(ONE, ONE.T, epilogue=epilogue, epilogue_args=arguments)


def test_narrower_vectors_give_the_same_bits(narrow: Callable[[], None]) -> None:
    x, y = OPERANDS["row"], OPERANDS["reversed"]

    def epilogue(total: Any, x: Any, y: Any) -> Any:
        return tw.gelu(total + x) * y

    wide = tw.matmul(A, B, epilogue=epilogue, epilogue_args=[x, y])
    quantised = tw.matmul(A, B, epilogue=lambda t: tw.requantise(t, 3.0))
    narrow()
    assert same(tw.matmul(A, B, epilogue=epilogue, epilogue_args=[x, y]), wide)
    assert same(tw.matmul(A, B, epilogue=lambda t: tw.requantise(t, 3.0)), quantised)
    out = np.zeros((53, 37), np.float16).T
    tw.matmul(A, B, out, dtype="float16", epilogue=tw.relu)
    assert same(out, sums(A.astype("f2"), B.astype("f2")).clip(0).astype(np.float16))


LAYOUTS = st.sampled_from(["rows", "columns", "reversed", "repeated"])


def laid(x: Array, layout: str) -> Array:
    if layout == "columns":
        return np.asfortranarray(x)
    if layout == "reversed":
        return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]
    if layout == "repeated" and x.shape[-2]:
        return np.broadcast_to(x[..., :1, :], x.shape)
    return x


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(0, 40), st.integers(0, 70), st.integers(0, 30), st.integers(1, 3)),
    st.sampled_from(["float32", "int16"]),
    st.tuples(LAYOUTS, LAYOUTS, LAYOUTS),
    st.sampled_from(["row", "column", "full", "scalar"]),
    st.sampled_from([(1, 0), (-2, 0), (2, -1)]),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_anything(
    shape: tuple[int, int, int, int],
    dtype: str,
    layouts: tuple[str, str, str],
    kind: str,
    scale: tuple[int, int],
    threads: int,
    seed: int,
) -> None:
    m, n, k, count = shape
    a, b = (
        laid(normal(count, m, k, seed=seed, dtype=dtype), layouts[0]),
        laid(normal(k, n, seed=seed, dtype=dtype), layouts[1]),
    )
    x = normal(*{"row": (n,), "column": (m, 1), "full": (count, m, n), "scalar": ()}[kind], seed=seed, dtype=dtype)
    out = normal(count, m, n, seed=seed + 1, dtype=dtype)
    out = out if layouts[2] == "repeated" else laid(out, layouts[2])
    total = record_of(dtype).accumulator
    factors = [np.dtype(total).type(s) for s in scale]
    wide = np.stack([sums(y, b) for y in a]) * factors[0]
    if scale[1]:
        wide = wide + out.astype(total) * factors[1]
    with np.errstate(all="ignore"):
        expected = finished(wide, lambda t, x: tw.maximum(t - x, x), [x], out_dtype=dtype)
    tw.matmul(
        a,
        b,
        out,
        alpha=scale[0],
        beta=scale[1],
        epilogue=lambda t, x: tw.maximum(t - x, x),
        epilogue_args=[x],
        threads=threads,
    )
    assert same(out, expected)
