"""Arrays with a gap after each row: results of kernels are the same, and accesses past a row are found."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

from tilewright.checking import Checks
from tilewright.frontends.session import simulated_gpu


@cuda.jit
def add_one(x):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] += 1


@cuda.jit
def past_the_row(x, out):
    i = cuda.grid(1)
    if i < x.shape[0] - 1:
        out[i, 0] = x[i, x.shape[1]]


def codes(checks: Checks) -> list[str]:
    return [finding.code for finding in checks.findings]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
def test_host_and_device_arrays_are_copied_back_as_without_gaps(dtype):
    host, checks = np.arange(15).reshape(3, 5).astype(dtype), Checks()
    with simulated_gpu(observers=[checks]):
        device = cuda.to_device(host)
        add_one[(1, 1), (8, 8)](host)
        add_one[(1, 1), (8, 8)](device)
        assert (device.copy_to_host() == host).all()
    assert (host == np.arange(15).reshape(3, 5) + 1).all()
    assert codes(checks) == []


def test_an_index_past_its_row_is_found_inside_the_allocation():
    checks = Checks()
    with simulated_gpu(observers=[checks]):
        past_the_row[1, 32](np.ones((4, 6), np.float32), np.zeros((4, 6), np.float32))
    assert codes(checks) == ["TW107"]


def test_a_kernel_that_asks_for_contiguous_arrays_gets_them():
    @cuda.jit
    def reshaped(x):
        i = cuda.grid(1)
        if i < x.size:
            x.reshape(x.size)[i] *= 2

    checks, x = Checks(), np.ones((3, 5), np.float32)
    with simulated_gpu(observers=[checks]):

        @cuda.jit("void(float32[:, ::1])")
        def contiguous(x):
            i = cuda.grid(1)
            if i < x.size:
                x[i // x.shape[1], i % x.shape[1]] *= 2

        contiguous[1, 32](x)
        reshaped[1, 32](x)
    assert (x == 4).all()
    assert codes(checks) == []


def test_views_that_share_memory_stay_as_they_are():
    @cuda.jit
    def copies(x, y):
        i = cuda.grid(1)
        if i < y.size:
            x[1 + i // x.shape[1], i % x.shape[1]] = 7 + y[i]

    checks = Checks()
    with simulated_gpu(observers=[checks]):
        device = cuda.to_device(np.zeros((3, 4), np.int32))
        copies[1, 32](device, device[0])
        assert device.copy_to_host().tolist() == [[0] * 4, [7] * 4, [0] * 4]
    assert codes(checks) == []


def test_the_copy_does_not_count_as_a_write():
    checks = Checks()
    with simulated_gpu(observers=[checks]):
        device = cuda.device_array((3, 5), np.float32)
        add_one[(1, 1), (8, 8)](device)
        add_one[(1, 1), (8, 8)](device)  # by then it has been written
    assert codes(checks) == ["TW201"]
    assert checks.findings[0].count == 15


def test_device_arrays_of_a_kernel_that_asks_for_contiguous_ones_keep_its_results():
    @cuda.jit
    def numbered(x):
        i = cuda.grid(1)
        if i < x.size:
            x.reshape(x.size)[i] = i + 1

    with simulated_gpu(observers=[Checks()]):
        device = cuda.to_device(np.zeros((2, 2), np.int32))
        numbered[1, 32](device)
        assert device.copy_to_host().tolist() == [[1, 2], [3, 4]]


def test_a_host_array_passed_twice_is_two_arrays():
    @cuda.jit
    def added(x, y):
        i = cuda.grid(1)
        if i < x.shape[0]:
            y[i, 0] = x[i, 1] + 5

    results = []
    for observers in ((), (Checks(),)):
        host = np.arange(8, dtype=np.int32).reshape(4, 2)
        with simulated_gpu(observers=observers):
            added[1, 32](host, host)
        results.append(host.tolist())
    assert results[0] == results[1]


def test_one_gpu_within_another_has_its_own_memory():
    with simulated_gpu():
        outer = cuda.to_device(np.full(100, 7, np.int32))
        with simulated_gpu():
            inner = cuda.to_device(np.full(100, 9, np.int32))
            assert int(inner.device_ctypes_pointer.value) != int(outer.device_ctypes_pointer.value)
        assert outer.copy_to_host().tolist() == [7] * 100


def test_managed_memory_that_outlives_its_gpu_is_not_given_to_the_next():
    with simulated_gpu():
        kept = cuda.managed_array(50, np.int32)
        kept[:] = 3
    with simulated_gpu():
        cuda.to_device(np.full(100, 9, np.int32))
        assert kept.tolist() == [3] * 50
    assert kept.tolist() == [3] * 50
