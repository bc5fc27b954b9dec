"""Every record on a real GPU: the same bits as the canonical product, and launches of every kind of argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.errors import DeviceError, LaunchError
from tilewright.ladder import operands
from tilewright.multiply.backends.cuda.device import launch
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.reference import same_bits
from tilewright.programs import Program

pytestmark = pytest.mark.hardware

CASES = [(r, d) for r in catalogue.records() if r.backend == "gpu" and not r.published for d in r.dtypes]
SHAPES = [(1, 1, 1), (7, 9, 8), (31, 33, 32), (64, 64, 64), (100, 37, 61), (256, 256, 256)]


@pytest.mark.parametrize(("record", "dtype"), CASES, ids=[f"{r.name}-{d}" for r, d in CASES])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_a_record_gives_its_reference(
    record: catalogue.Record, dtype: str, m: int, n: int, k: int, compute_capability: tuple[int, int]
) -> None:
    if record.unfit(compute_capability):
        pytest.skip(record.unfit(compute_capability))
    a, b = operands(m, n, k, dtype)
    c = np.full((m, n), 77, a.dtype)
    shape = record.launch_rule(m, n, k)
    run = launch(
        record.program(dtype, compute_capability),
        shape.grid,
        shape.block,
        record.arguments(a, b, c),
        shape.shared_bytes,
    )
    assert run.seconds > 0
    assert record.wrong_elements(c, a, b) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
def test_products_have_the_cpus_bits(dtype: str) -> None:
    a, b = (x.astype(dtype) for x in operands(2 * 70, 50, 33, "float32"))
    assert same_bits(tw.matmul(a, b, device="cuda"), tw.matmul(a, b))
    batch = a.reshape(2, 70, 33)[..., ::-1]
    assert same_bits(tw.matmul(batch, b, device="cuda"), tw.matmul(batch, b))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_published_naive_kernel_has_its_own_order(dtype: str, compute_capability: tuple[int, int]) -> None:
    record = catalogue.find("naive_published")
    a, b = operands(100, 37, 61, dtype)
    c = np.zeros((100, 37), dtype)
    shape = record.launch_rule(100, 37, 61)
    launch(
        record.program(dtype, compute_capability),
        shape.grid,
        shape.block,
        record.arguments(a, b, c),
        shape.shared_bytes,
    )
    assert same_bits(c, record.reference(a, b))


def test_a_step_past_the_edge_keeps_a_negative_zero(compute_capability: tuple[int, int]) -> None:
    a, b = np.full((5, 3), -1e-30, np.float32), np.full((3, 5), 1e-30, np.float32)
    for name in ("tiled", "block_partitioned_16", "shared_memory_8", "results_8"):
        record = catalogue.find(name)
        c = np.ones((5, 5), np.float32)
        shape = record.launch_rule(5, 5, 3)
        launch(
            record.program("float32", compute_capability),
            shape.grid,
            shape.block,
            record.arguments(a, b, c),
            shape.shared_bytes,
        )
        assert np.signbit(c).all(), name


def test_strides_tuples_and_scalars(compute_capability: tuple[int, int]) -> None:
    def kernel(out: Any, pair: Any, flag: Any, z: Any) -> None:
        i = cuda.grid(1)
        if flag and i < out.size:
            out[i] = pair[0] * i + pair[1] + z.imag

    base = np.zeros(20, np.float64)
    launch(kernel, 1, 32, (base[18::-4], (2, 0.5), True, 3j))
    expected = np.zeros(20)
    expected[18::-4] = [2 * i + 3.5 for i in range(5)]
    assert np.array_equal(base, expected)


def test_views_that_share_elements_are_one_memory(compute_capability: tuple[int, int]) -> None:
    def kernel(part: Any, whole: Any) -> None:
        part[cuda.threadIdx.x] = whole[cuda.threadIdx.x] + 1

    x = np.arange(16, dtype=np.float32)
    launch(kernel, 1, 8, (x[8:], x))
    assert x.tolist() == [*range(8), *range(1, 9)]


def test_arrays_on_the_gpu_are_not_copied(compute_capability: tuple[int, int]) -> None:
    array = cuda.to_device(np.arange(8, dtype=np.float32))

    def kernel(x: Any) -> None:
        x[cuda.threadIdx.x] *= 2

    launch(kernel, 1, 8, (array,))
    assert array.copy_to_host().tolist() == [2 * i for i in range(8)]


def test_dynamic_shared_memory_over_48_kib(compute_capability: tuple[int, int]) -> None:
    source = """
    extern "C" __global__ void k(int *out, int last) {
        extern __shared__ int s[];
        s[last] = 5;
        __syncthreads();
        *out = s[last];
    }"""
    out = np.zeros(1, np.int32)
    program = Program.from_cuda(source, "k", compute_capability)
    launch(program, 1, 1, (out, 60 * 256 - 1), shared_bytes=60 * 1024)
    assert out[0] == 5


def test_registers_are_the_assemblers(compute_capability: tuple[int, int]) -> None:
    from tilewright.multiply.backends.cuda import device

    for record in catalogue.records():
        if record.backend == "gpu" and not record.unfit(compute_capability):
            program = record.program(record.dtypes[0], compute_capability)
            kernel = device._loaded(program.ptx, program.entry, device.current().device_id, compute_capability)
            assert kernel.attributes.num_regs == program.resources().registers_per_thread
            assert kernel.attributes.shared_size_bytes == program.shared_bytes


def test_launches_that_the_gpu_refuses(compute_capability: tuple[int, int]) -> None:
    program = Program.from_cuda("__global__ void k(int *x) { *x = 1; }", "k", compute_capability)
    with pytest.raises(LaunchError, match="at most 1,024 threads"):
        launch(program, 1, (64, 64), (np.zeros(1, np.int32),))
    with pytest.raises(DeviceError, match="k failed on"):
        launch(program, 1, 1, (np.zeros(1, np.int32),), shared_bytes=10_000_000)
