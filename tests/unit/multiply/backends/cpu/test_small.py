"""Kernels for exact small extents, over a batch, against the canonical product."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tilewright as tw
from tilewright.multiply.backends.cpu import product
from tilewright.multiply.backends.cpu.choice import kernel_key
from tilewright.multiply.backends.cpu.kernels import Kernel
from tilewright.multiply.backends.cpu.small import SmallKey, small_kernel
from tilewright.multiply.problem.reference import canonical


def _run(small: SmallKey, batch: int, *arrays: np.ndarray, steps: tuple[int, int, int]) -> None:
    """Multiply a batch of matrices at these strides in bytes; the record's offsets correct shifted addresses."""
    record = np.array([batch, *steps, 8, 16, 24], np.int64)
    a, b, out = (x.ctypes.data - offset for x, offset in zip(arrays, (8, 16, 24), strict=True))
    small_kernel(small).call(record.ctypes.data, 0, a, b, out, 0)


EXTENTS = [(1, 1, 1), (4, 4, 4), (9, 9, 9), (3, 64, 2), (33, 17, 20), (32, 32, 32), (64, 50, 64), (2, 7, 0)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(("m", "n", "k"), EXTENTS)
def test_every_matrix_of_a_batch_is_the_canonical_product(dtype: str, m: int, n: int, k: int) -> None:
    random = np.random.default_rng(5)
    a = (random.uniform(-9, 9, (6, k, m)) * 1000).astype(dtype).transpose(0, 2, 1)  # columns of A are contiguous
    b = (random.uniform(-9, 9, (6, k, n + 3)) * 1000).astype(dtype)[:, :, :n]  # rows of B have a gap
    whole = np.full((6, m + 1, n + 2), 7, dtype)
    c = whole[:, :m, :n]
    small = SmallKey(kernel_key(*(dtype,) * 4), m, n, k, a.strides[1], a.strides[2], b.strides[1], c.strides[1])
    _run(small, 6, a, b, c, steps=(a.strides[0], b.strides[0], c.strides[0]))
    for x, y, z in zip(a, b, c, strict=True):
        np.testing.assert_array_equal(z, canonical(x, y))
    assert (whole[:, m:] == 7).all()
    assert (whole[:, :, n:] == 7).all()


def test_a_step_of_zero_repeats_an_operand() -> None:
    a, b = np.ones((1, 2, 2), np.float32), np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    c = np.empty((3, 2, 2), np.float32)
    small = SmallKey(kernel_key(*("float32",) * 4), 2, 2, 2, 8, 4, 8, 8)
    _run(small, 3, a, b, c, steps=(0, 16, 16))
    np.testing.assert_array_equal(c, a @ b)


def test_a_kernels_function_keeps_its_code_loaded() -> None:
    from tilewright.multiply.backends.cpu.kernels import compiled
    from tilewright.multiply.backends.cpu.loops import kernel_text

    key = kernel_key(*("float32",) * 4)
    call = Kernel(compiled("a copy of no cache", lambda: kernel_text(key))).call
    gc.collect()
    record = np.zeros(32, np.int64)  # a product of no extent
    call(record.ctypes.data, np.zeros(3, np.int64).ctypes.data, 0, 0, 0, 0)


def test_a_kernel_is_compiled_after_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SmallKey] = []
    monkeypatch.setattr(product, "small_kernel", lambda key: made.append(key) or small_kernel(key))
    monkeypatch.setattr(product, "is_kept", lambda name: False)
    for n in range(2, 40):
        a = np.ones((20, n, n), np.float32)
        for _ in range(10):
            assert (tw.matmul(a, a) == n).all()
    assert made == []
    a = np.ones((999, 5, 7), np.float32)
    for _ in range(12):
        assert (tw.matmul(a, a.transpose(0, 2, 1).copy()) == 7).all()
    assert len(made) == 1
    monkeypatch.setattr(product, "is_kept", lambda name: True)
    b = np.ones((50, 5, 8), np.float32)
    tw.matmul(b, np.ones((50, 8, 3), np.float32))
    assert len(made) == 2


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_batches_of_matrices_by_vectors(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "_HOT", 32)
    random = np.random.default_rng(0)
    a, x = random.integers(-9, 9, (100, 3, 5)).astype(dtype), random.integers(-9, 9, (100, 5, 1)).astype(dtype)
    assert tw.plan(a.shape, x.shape, dtype).path == "small"
    for _ in range(2):
        assert (tw.matmul(a, x) == np.matmul(a, x)).all()
        assert (tw.matmul(x.transpose(0, 2, 1), a.transpose(0, 2, 1)) == np.matmul(a, x).transpose(0, 2, 1)).all()
