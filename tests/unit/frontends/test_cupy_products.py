"""Products in place of cuBLAS, called as CuPy calls them, without CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright.frontends.cupy.products import CUBLASError, HostProducts
from tilewright.frontends.host_arrays import array_at, write
from tilewright.multiply.problem.dtypes import element
from tilewright.simulate.device.contexts import PRIMARY
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.run.whole_products import whole_product

Array = npt.NDArray[Any]
_TYPES = {"f": 0, "d": 1, "e": 2, "b": 3, "F": 4, "D": 5, "i": 10}


class Device:
    """Arrays by columns on a simulated GPU, and its products."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu, self.products = gpu, HostProducts(gpu)
        gpu.contexts.append(PRIMARY)
        self.handle = self.products.create()
        self._coefficients: list[Array] = []

    def put(self, matrix: Array, leading: int | None = None) -> int:
        """The address of a copy by columns, `leading` elements each."""
        rows, columns = matrix.shape
        leading = leading or rows
        address = self.gpu.allocate(leading * columns * matrix.itemsize)
        strides = (matrix.itemsize, leading * matrix.itemsize)
        write(self.gpu, array_at(self.gpu, address, matrix.dtype, matrix.shape, strides), matrix)
        return address

    def get(self, address: int, dtype: Any, rows: int, columns: int) -> Array:
        item = np.dtype(dtype).itemsize
        return array_at(self.gpu, address, dtype, (rows, columns), (item, rows * item)).copy()

    def number(self, value: complex, dtype: Any) -> int:
        """The host address of a coefficient."""
        self._coefficients.append(np.array(value, dtype))
        return self._coefficients[-1].ctypes.data


@pytest.fixture
def device(gpu: SimulatedGpu) -> Device:
    return Device(gpu)


def drawn(rows: int, columns: int, dtype: str) -> Array:
    values = np.random.default_rng(rows + 7 * columns).integers(-5, 6, (rows, columns))
    return (values + 1j * values[::-1] if dtype in "FD" else values).astype(dtype)


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("transb", [0, 1, 2])
@pytest.mark.parametrize("transa", [0, 1, 2])
def test_gemm_is_what_blas_says(device: Device, letter: str, transa: int, transb: int) -> None:
    dtype = {"s": "f", "d": "d", "c": "F", "z": "D"}[letter]
    op = (lambda one: one, np.transpose, lambda one: one.conj().T)
    m, n, k = 3, 5, 4
    a = drawn(*((k, m) if transa else (m, k)), dtype)
    b = drawn(*((n, k) if transb else (k, n)), dtype)
    c = drawn(m, n, dtype)
    alpha, beta = device.number(2, dtype), device.number(3, dtype)
    at = device.put(c)
    gemm = getattr(device.products, f"{letter}gemm")
    lda, ldb = a.shape[0] + 2, b.shape[0] + 1
    gemm(device.handle, transa, transb, m, n, k, alpha, device.put(a, lda), lda, device.put(b, ldb), ldb, beta, at, m)
    assert np.array_equal(device.get(at, dtype, m, n), 2 * op[transa](a) @ op[transb](b) + 3 * c)


@pytest.mark.parametrize(
    ("row", "kind", "result", "compute", "expected"),
    [([2048, 1, 1], "e", "e", 68, 2050), ([127, 127, 127], "b", "i", 72, 381)],  # halves: 2048 + 1 is 2048
)
def test_sums_are_wider_than_operands(
    device: Device, row: list[int], kind: str, result: str, compute: int, expected: int
) -> None:
    a, b = device.put(np.array([row], kind)), device.put(np.ones((3, 1), kind))
    at, coefficient = device.put(np.zeros((1, 1), result)), "i" if result == "i" else "f"
    one, none = device.number(1, coefficient), device.number(0, coefficient)
    given = (1, 1, 3, one, a, _TYPES[kind], 1, b, _TYPES[kind], 3, none, at, _TYPES[result], 1, compute, -1)
    device.products.gemmEx(device.handle, 0, 0, *given)
    assert device.get(at, result, 1, 1)[0, 0] == expected


@pytest.mark.parametrize("by_addresses", [False, True])
def test_batches(device: Device, by_addresses: bool) -> None:
    a, b = drawn(2, 3 * 4, "f"), drawn(3, 4 * 4, "f")  # four matrices of 2 x 3, and four of 3 x 4, side by side
    at, bt, ct = device.put(a), device.put(b), device.put(np.full((2, 16), np.nan, "f"))
    one, none = device.number(1, "f"), device.number(0, "f")
    if by_addresses:
        steps = np.arange(4, dtype=np.uint64)[None]
        lists = [device.put(start + steps * size) for start, size in ((at, 24), (bt, 48), (ct, 32))]
        device.products.sgemmBatched(device.handle, 0, 0, 2, 4, 3, one, lists[0], 2, lists[1], 3, none, lists[2], 2, 4)
    else:
        device.products.sgemmStridedBatched(device.handle, 0, 0, 2, 4, 3, one, at, 2, 6, bt, 3, 12, none, ct, 2, 8, 4)
    found = device.get(ct, "f", 2, 16)
    for i in range(4):
        assert np.array_equal(found[:, 4 * i : 4 * i + 4], a[:, 3 * i : 3 * i + 3] @ b[:, 4 * i : 4 * i + 4])


def test_nothing_is_read_that_a_coefficient_of_zero_leaves_out(device: Device) -> None:
    nan = device.put(np.full((2, 2), np.nan, "f"))
    at, zero = device.put(np.ones((2, 2), "f")), device.number(0, "f")
    device.products.sgemm(device.handle, 0, 0, 2, 2, 2, zero, nan, 2, nan, 2, device.number(2, "f"), at, 2)
    assert device.get(at, "f", 2, 2).tolist() == [[2, 2], [2, 2]]
    device.products.sgemm(device.handle, 0, 0, 2, 2, 2, device.number(1, "f"), at, 2, at, 2, zero, nan, 2)
    assert device.get(nan, "f", 2, 2).tolist() == [[8, 8], [8, 8]]


@pytest.mark.parametrize(("m", "n", "k"), [(0, 2, 2), (2, 0, 2), (2, 2, 0)])
def test_empty_products(device: Device, m: int, n: int, k: int) -> None:
    a, at = device.put(np.ones((2, 2), "f")), device.put(np.ones((2, 2), "f"))
    one = device.number(1, "f")
    device.products.sgemm(device.handle, 0, 0, m, n, k, one, a, 2, a, 2, device.number(3, "f"), at, 2)
    assert device.get(at, "f", 2, 2).tolist() == ([[3, 3], [3, 3]] if k == 0 else [[1, 1], [1, 1]])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"m": -1}, r"`m` must be at least 0 \(got -1\)"),
        ({"lda": -4}, r"`lda` must be at least 2 \(got -4\)"),
        ({"ldc": 1}, r"`ldc` must be at least 2 \(got 1\)"),
        ({"transb": 3}, "`transb` must be from 0 to 2"),
        ({"alpha": 0}, "`alpha` must be an address"),
    ],
)
def test_wrong_numbers_are_refused(device: Device, change: dict[str, int], says: str) -> None:
    a, one = device.put(np.ones((2, 2), "f")), device.number(1, "f")
    given = {"transa": 0, "transb": 0, "m": 2, "n": 2, "k": 2, "alpha": one, "a": a, "lda": 2, "b": a, "ldb": 2}
    with pytest.raises(CUBLASError, match=says):
        device.products.sgemm(device.handle, *(given | {"beta": one, "c": a, "ldc": 2} | change).values())


def test_matrices_beyond_their_allocation_are_refused(device: Device) -> None:
    a, one = device.put(np.ones((2, 2), "f")), device.number(1, "f")
    with pytest.raises(CUBLASError, match=r"EXECUTION_FAILED.*in one allocation"):
        device.products.sgemm(device.handle, 0, 0, 2, 2, 2, one, a, 1 << 40, a, 2, one, a, 2)


def test_reads_of_unset_memory_are_findings() -> None:
    with tw.simulated_gpu("h100", check=True) as gpu:
        device = Device(gpu)
        unset, at, one = gpu.allocate(16), device.put(np.ones((2, 2), "f")), device.number(1, "f")
        device.products.sgemm(device.handle, 0, 0, 2, 2, 2, one, at, 2, at, 2, one, at, 2)
        assert gpu.findings == ()
        device.products.sgemm(device.handle, 0, 0, 2, 2, 2, one, unset, 2, at, 2, one, at, 2)
        assert {finding.code for finding in gpu.findings} == {"TW205"}


@pytest.mark.parametrize(("kind", "number"), [("float16", 2), ("bfloat16", 14)])
def test_products_of_halves_have_the_bits_of_the_tensor_cores(device: Device, kind: str, number: int) -> None:
    """They truncate where the canonical order rounds: a kernel of tensor cores is judged by equal bits."""
    dtype, random = element(kind).numpy, np.random.default_rng(2)
    a, b = (random.standard_normal(shape, np.float32).astype(dtype) for shape in ((24, 512), (512, 40)))
    one, zero, out = device.number(1, "f"), device.number(0, "f"), device.put(np.zeros((24, 40), np.float32))
    left, right = device.put(a), device.put(b)
    device.products.gemmEx(
        device.handle, 0, 0, 24, 40, 512, one, left, number, 24, right, number, 512, zero, out, 0, 24, 68, 0
    )
    bits = (matrix.view(np.uint16) for matrix in (a, b))
    found = device.get(out, "f", 24, 40)
    assert np.array_equal(found, whole_product(*bits, element(kind).ptx, device.gpu.record))
    assert not np.array_equal(found, tw.matmul(a, b, dtype=np.float32))
