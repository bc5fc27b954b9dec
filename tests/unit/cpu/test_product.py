"""The engine's products, in every dtype, layout, width and number of threads, against the canonical product."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.cpu.choice import REGISTERS, kernel_key, parts
from tilewright.cpu.contexts import KernelKey, tile_of
from tilewright.cpu.loops import kernel_text
from tilewright.cpu.product import THREAD_WORK, Kind, multiply_into
from tilewright.problem.reference import canonical, same_bits

SHAPES = [(1, 1, 1), (7, 9, 8), (31, 33, 32), (64, 64, 64), (100, 37, 61), (13, 530, 300), (6, 64, 0), (0, 5, 3)]
FLOATS = ["float32", "float64", "float16"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def matrix(random: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return random.uniform(-1, 1, shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same matrix, stored in several ways."""
    wide = np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)
    return [x, np.asfortranarray(x), wide[::2, ::3], x[::-1, ::-1].copy()[::-1, ::-1]]


def expected(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return canonical(a, b, acc_dtype="float32" if dtype == "float16" else dtype, out_dtype=dtype)
    return _wrapped(a, b)


def _wrapped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers modulo 2^64, then cut: an order-free truth."""
    wide = a.astype(np.int64).astype(np.uint64) @ b.astype(np.int64).astype(np.uint64)
    return wide.astype(a.dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_every_dtype_gives_the_canonical_bits_in_every_layout(dtype: str) -> None:
    random = np.random.default_rng(1)
    for m, n, k in SHAPES:
        a, b = matrix(random, (m, k), dtype), matrix(random, (k, n), dtype)
        truth = expected(a, b, dtype)
        for index, (x, y) in enumerate(zip(layouts(a), reversed(layouts(b)), strict=True)):
            out = np.empty((m, n), dtype) if index % 2 else np.empty((n, m), dtype).T
            multiply_into(x, y, out, Kind(*(dtype,) * 3, dtype), threads=2 if index else 1)
            np.testing.assert_array_equal(out, truth)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_threads_do_not_change_a_bit(dtype: str) -> None:
    random = np.random.default_rng(2)
    a, b = matrix(random, (70, 600), dtype), matrix(random, (600, 333), dtype)
    found = []
    for threads in (1, 2, 3, 8):
        out = np.empty((70, 333), dtype)
        multiply_into(a, b, out, Kind(*(dtype,) * 3, dtype), threads=threads)
        found.append(out.tobytes())
    assert len(set(found)) == 1


def test_nan_infinity_and_negative_zero_are_as_ieee_says() -> None:
    a = np.array([[np.inf, 1, -0.0], [np.nan, 0, 1]], np.float32)
    b = np.array([[0, 1], [2, -0.0], [3, np.inf]], np.float32)
    out = np.empty((2, 2), np.float32)
    multiply_into(a, b, out, Kind(*("float32",) * 3, "float32"), threads=1)
    np.testing.assert_array_equal(out, canonical(a, b))


def test_a_wider_output_holds_the_exact_sums() -> None:
    random = np.random.default_rng(3)
    a, b = matrix(random, (20, 500), "int8"), matrix(random, (500, 90), "int8")
    out = np.empty((20, 90), np.int32)
    multiply_into(a, b, out, Kind(*("int8", "int8", "int32"), "int32"), threads=1)
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("vector_bytes", [64, 32, 16])
@pytest.mark.parametrize("register", ["float", "double", "i32", "i64"])
def test_every_vector_width_makes_a_module(vector_bytes: int, register: str) -> None:
    name = {"float": "float32", "double": "float64", "i32": "int32", "i64": "int64"}[register]
    key = KernelKey(name, name, name, register, "integer" if register.startswith("i") else "fma", vector_bytes)
    assert f"<{tile_of(key).width} x {register}>" in kernel_text(key)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("in_place", [True, False])
def test_parts_cover_c_once(threads: int, in_place: bool) -> None:
    tile = tile_of(kernel_key("float32", "float32", "float32", "float32"))
    for m, n in [(1, 1), (5000, 70), (6, 4000), (999, 1001)]:
        seen = np.zeros((m, n), np.int8)
        for p in parts(m, n, tile, threads, in_place=in_place, sum_bytes=4):
            seen[p.row : p.row + p.rows, p.column : p.column + p.columns] += 1
        assert (seen == 1).all()


def test_every_accumulator_has_a_register() -> None:
    assert set(REGISTERS) >= {*FLOATS, *INTEGERS, "bfloat16"}


@pytest.mark.parametrize("names", [("int8", "uint8"), ("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("k", [1, 3, 4, 130, 1500])
def test_bytes_of_any_signs_are_summed_exactly(names: tuple[str, str], k: int) -> None:
    random = np.random.default_rng(4)
    a, b = matrix(random, (13, k), names[0]), matrix(random, (k, 70), names[1])
    truth = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    for x, y in zip(layouts(a), layouts(b), strict=True):
        out = np.empty((13, 70), np.int32)
        multiply_into(x, y, out, Kind(*(*names, "int32"), "int32"), threads=1)
        np.testing.assert_array_equal(out, truth)


def test_words_at_the_end_of_their_range_wrap_only_modulo_the_sum() -> None:
    a = np.full((3, 600), -32768, np.int16)
    out = np.empty((3, 5), np.int32)
    multiply_into(a, a[:1].T.repeat(5, axis=1), out, Kind(*("int16", "int16", "int32"), "int32"), threads=1)
    assert (out == np.int64(600 * 32768**2).astype(np.int32)).all()


@pytest.mark.parametrize("extents", [(4, 4, 4), (40, 30, 20), (90, 70, 80)])
def test_threads_share_a_batch_of_every_size(extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    kind = Kind(*("float32",) * 4)
    batch = 2 * THREAD_WORK // (m * n * k) + 3
    random = np.random.default_rng(2)
    a, b = random.normal(size=(batch, m, k)).astype(np.float32), random.normal(size=(batch, k, n)).astype(np.float32)
    first = np.empty((batch, m, n), np.float32)
    multiply_into(a, b, first, kind, 1)
    for _ in range(2):  # the second has the kernel of exact extents
        out = np.zeros_like(first)
        multiply_into(a, b, out, kind, 3)
        assert same_bits(out, first)
    assert same_bits(first[-1], canonical(a[-1], b[-1]))
