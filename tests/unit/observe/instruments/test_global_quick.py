"""Accesses of global memory that quick tests judge: sums in memory, loads of one address, loads that warps repeat.

Each kernel has a defect that only the cells after such accesses show, and a twin that is correct. Where one lane is
left out, the exact judgement must find the same.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program

THREADS, BLOCKS = 128, 4

SUMS = """
extern "C" __global__ void sums(const TYPE *x, TYPE *sum, TYPE *out, int n)
{
    const int me = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == LEFT_OUT) return;
    for (int i = 0; i < n; i++)
        sum[me] = sum[me] + x[i];
    ORDER
    out[me] = sum[blockIdx.x * blockDim.x + (threadIdx.x OTHER) % blockDim.x];
}
"""

READS = """
extern "C" __global__ void reads(TYPE *x, TYPE *out, int n, TYPE *spare)
{
    if (threadIdx.x == LEFT_OUT) return;
    TYPE sum = 0;
    for (int i = 0; i < n; i++) {
        sum += x[blockIdx.x * 4096 + threadIdx.x / SPAN * STRIDE + i * 16];
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;  // so that no load is moved
    }
    ORDER
    if (threadIdx.x == WRITER)
        x[blockIdx.x * 4096 + CELL] = sum;
}
"""


def found(source: str, entry: str, kind: str, arrays: tuple[int, ...], **names: object) -> set[str]:
    for name, value in ({"TYPE": kind} | names).items():
        source = source.replace(name, str(value))
    program = Program.from_cuda(source, entry, (8, 0))
    dtype = {"float": np.float32, "double": np.float64, "short": np.int16}[kind]
    given = [np.arange(size).astype(dtype) % 11 for size in arrays]
    args = (*given[:3], np.int32(9)) if entry == "sums" else (*given[:2], np.int32(9), given[2])
    return {one.code for one in tw.check(program, BLOCKS, THREADS, args)}


@pytest.mark.parametrize("left_out", [-1, 7])
@pytest.mark.parametrize("kind", ["float", "double", "short"])
def test_a_sum_in_memory_is_not_lost_to_another_thread(kind: str, left_out: int) -> None:
    sizes = (64, BLOCKS * THREADS, BLOCKS * THREADS)

    def codes(order: str, other: str) -> set[str]:
        return found(SUMS, "sums", kind, sizes, LEFT_OUT=left_out, ORDER=order, OTHER=other)

    assert codes("", "+ 32") == {"TW302"}
    assert codes("", "+ 1") == {"TW302"}
    assert codes("", "+ 0") == set()
    if left_out < 0:
        assert codes("__syncthreads();", "+ 32") == set()


@pytest.mark.parametrize("left_out", [-1, 7])
@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize(("span", "stride"), [(1, 1), (8, 2), (16, 1), (32, 4), (128, 1)])
def test_a_write_after_loads_by_other_warps_is_a_race(span: int, stride: int, kind: str, left_out: int) -> None:
    """The written cell was read by lanes of warp 0, or by all warps; warp 3 writes it."""
    sizes = (BLOCKS * 4096, BLOCKS * THREADS, 1)

    def codes(order: str, writer: int) -> set[str]:
        names = {"SPAN": span, "STRIDE": stride, "LEFT_OUT": left_out, "ORDER": order, "WRITER": writer, "CELL": 16}
        return found(READS, "reads", kind, sizes, **names)

    assert codes("", 100) == {"TW302"}
    if left_out < 0:
        assert codes("__syncthreads();", 100) == set()


def test_a_block_that_writes_what_all_warps_of_another_read_is_a_race() -> None:
    source = READS.replace("x[blockIdx.x * 4096 + CELL]", "x[(blockIdx.x + 1) % gridDim.x * 4096 + CELL]")
    names = {"SPAN": 128, "STRIDE": 1, "LEFT_OUT": -1, "ORDER": "__syncthreads();", "WRITER": 0, "CELL": 32}
    assert found(source, "reads", "float", (BLOCKS * 4096, BLOCKS * THREADS, 1), **names) == {"TW303"}
    assert not found(READS, "reads", "float", (BLOCKS * 4096, BLOCKS * THREADS, 1), **names)
