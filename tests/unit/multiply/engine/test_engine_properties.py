"""tw.matmul over random shapes, strides, dtypes, scales and outputs, against the canonical product."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

import tilewright as tw
from tilewright.multiply.problem.dtypes import dtype as record_of
from tilewright.multiply.problem.narrow import convert
from tilewright.multiply.problem.reference import canonical, same_bits

Array = np.ndarray[Any, Any]
REAL = [
    "float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64",
]  # fmt: skip
Extents = tuple[int, int, int]
Two = tuple[str, str]
LAYOUTS = ["rows", "columns", "reversed", "spread", "repeated"]
extents = st.integers(0, 40)
seeds = st.integers(0, 2**32 - 1)
two_layouts = st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS))


def matrix(random: np.random.Generator, shape: tuple[int, ...], name: str, layout: str) -> Array:
    """A random array; "repeated" repeats one row, by a stride of 0."""
    kind = record_of(name)
    if kind.is_float:
        x = random.uniform(-1, 1, shape).astype(kind.numpy)
    else:
        low, high = kind.exact_range
        x = random.integers(max(low, -(2**63)), min(high, 2**64 - 1), shape, kind.numpy, endpoint=True)
    return laid(x, layout)


def laid(x: Array, layout: str) -> Array:
    if layout == "columns":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "reversed":
        return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]
    if layout == "spread":
        wide = np.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), x.dtype)
        wide[..., ::2, 1::3] = x
        return wide[..., ::2, 1::3]
    if layout == "repeated" and x.shape[-2] > 0:
        return np.broadcast_to(x[..., :1, :], x.shape)
    return x


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(extents, extents, extents),
    st.sampled_from(REAL),
    two_layouts,
    seeds,
)
def test_every_layout_gives_the_canonical_bits(shape: Extents, name: str, layouts: Two, seed: int) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    a, b = matrix(random, (m, k), name, layouts[0]), matrix(random, (k, n), name, layouts[1])
    assert same_bits(tw.matmul(a, b), canonical(a, b))


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(extents, extents, extents),
    st.sampled_from([("int8", "int32"), ("uint8", "int64"), ("int16", "int64"), ("float16", "float32"),
                     ("bfloat16", "float32"), ("float32", "float64"), ("float16", "float64")]),
    seeds,
)  # fmt: skip
def test_a_wider_result_is_that_of_wider_operands(shape: Extents, names: Two, seed: int) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    a, b = (matrix(random, s, names[0], "rows") for s in ((m, k), (k, n)))
    wide = canonical(a.astype(names[1]), b.astype(names[1]))
    assert same_bits(tw.matmul(a, b, dtype=names[1]), wide)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(extents, extents, extents),
    st.sampled_from([("float16", "float64"), ("bfloat16", "float64"), ("float32", "float64"), ("int8", "int64")]),
    seeds,
)
def test_an_accumulator_by_request(shape: Extents, names: Two, seed: int) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    a, b = (matrix(random, s, names[0], "rows") for s in ((m, k), (k, n)))
    assert same_bits(tw.matmul(a, b, acc_dtype=names[1]), canonical(a, b, acc_dtype=names[1]))


@settings(max_examples=80, deadline=None)
@given(
    st.tuples(extents, extents, extents),
    st.sampled_from(REAL),
    st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
    st.sampled_from(["rows", "columns", "reversed", "spread"]),
    seeds,
)
def test_scaled_sums_are_rounded_step_by_step(
    shape: Extents, name: str, scale: tuple[int, int], layout: str, seed: int
) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    a, b, out = (matrix(random, s, name, "rows") for s in ((m, k), (k, n), (m, n)))
    out = laid(out, layout)
    total = record_of(record_of(name).accumulator).numpy
    alpha, beta = (np.array(x).astype(total) for x in scale)
    with np.errstate(all="ignore"):
        sums = canonical(a, b, out_dtype=total) * alpha
        if scale[1]:
            sums = sums + out.astype(total) * beta
    assert tw.matmul(a, b, out, alpha=scale[0], beta=scale[1]) is out
    assert same_bits(np.ascontiguousarray(out), convert(np.asarray(sums, total), record_of(name)))


def complex_truth(a: Array, b: Array) -> Array:
    """The chains of the complex product, one step after the other, as real canonical products of one or two steps."""
    m, n = a.shape[0], b.shape[1]
    real = a.real.dtype
    out = np.zeros((m, n), a.dtype)
    for i in range(m):
        for j in range(n):
            x, y = a[i], b[:, j]
            left = np.stack([x.real, x.imag], 1).reshape(1, -1)
            re = np.stack([y.real, -y.imag], 1).reshape(-1, 1)
            im = np.stack([y.imag, y.real], 1).reshape(-1, 1)
            out[i, j] = complex(canonical(left, re)[0, 0], canonical(left, im)[0, 0])
    assert out.real.dtype == real
    return out


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 12)),
    st.sampled_from(["complex64", "complex128"]),
    two_layouts,
    seeds,
)
def test_complex_products_have_canonical_parts(shape: Extents, name: str, layouts: Two, seed: int) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    a, b = ((random.normal(size=s) + 1j * random.normal(size=s)).astype(name) for s in ((m, k), (k, n)))
    a, b = laid(a, layouts[0]), laid(b, layouts[1])
    np.testing.assert_array_equal(tw.matmul(a, b), complex_truth(a, b))


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(extents, extents, st.integers(0, 400)),
    two_layouts,
    seeds,
)
def test_booleans_are_or_of_and(shape: Extents, layouts: Two, seed: int) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    a, b = (laid(random.random(s) < 0.1, x) for s, x in zip(((m, k), (k, n)), layouts, strict=True))
    truth = (a[:, :, None] & b[None]).any(1)
    np.testing.assert_array_equal(tw.matmul(a, b), truth)


batches = st.sampled_from(
    [
        ((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (3,)), ((2, 3), (1, 3)), ((1, 1), ()), ((0,), ()),
        ((2, 2, 2), (2, 1, 1)),
    ]
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12)),
    batches,
    st.sampled_from(["float32", "int8", "float16", "complex64", "bool", "int64"]),
    st.sampled_from(LAYOUTS),
    st.integers(1, 3),
    seeds,
)
def test_a_batch_is_its_matrices(
    shape: Extents,
    batch: tuple[tuple[int, ...], tuple[int, ...]],
    name: str,
    layout: str,
    threads: int,
    seed: int,
) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    a = laid(random.integers(-9, 9, (*batch[0], m, k)).astype(name), layout)
    b = laid(random.integers(-9, 9, (*batch[1], k, n)).astype(name), layout)
    found = tw.matmul(a, b, threads=threads)
    np.testing.assert_array_equal(found, np.matmul(a, b))
    assert found.dtype == a.dtype
    if found.ndim > 2 and found.size:
        left, right = np.broadcast_to(a, (*found.shape[:-2], m, k)), np.broadcast_to(b, (*found.shape[:-2], k, n))
        first = (0,) * (found.ndim - 2)
        np.testing.assert_array_equal(found[first], tw.matmul(left[first], right[first]))
