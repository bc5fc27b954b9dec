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
extern "C" __global__ void reads(TYPE *x, TYPE *out, const int *at, int n)
{
    if (threadIdx.x == LEFT_OUT) return;
    const int first = FIRST, me = blockIdx.x * blockDim.x + threadIdx.x;
    TYPE sum = 0;
    for (int i = 0; i < n; i++) {
        sum += x[blockIdx.x * 4096 + first + i * 16];
        out[me] = sum;  // so that no load is moved
    }
    ORDER
    if (threadIdx.x == WRITER)
        x[BLOCK * 4096 + CELL] = sum;
}
"""
DTYPES = {"float": np.float32, "double": np.float64, "short": np.int16}


def found(source: str, entry: str, *arrays: np.ndarray, **names: object) -> set[str]:
    for name, value in names.items():
        source = source.replace(name, str(value))
    program = Program.from_cuda(source, entry, (8, 0))
    return {one.code for one in tw.check(program, BLOCKS, THREADS, (*arrays, np.int32(9)))}


@pytest.mark.parametrize("left_out", [-1, 7])
@pytest.mark.parametrize("kind", DTYPES)
def test_a_sum_in_memory_is_not_lost_to_another_thread(kind: str, left_out: int) -> None:
    x, sums, out = (
        np.arange(size).astype(DTYPES[kind]) % 11 for size in (BLOCKS * THREADS + 9, *[BLOCKS * THREADS] * 2)
    )

    def codes(order: str, other: str) -> set[str]:
        return found(SUMS, "sums", x, sums, out, TYPE=kind, LEFT_OUT=left_out, ORDER=order, OTHER=other)

    assert codes("", "+ 32") == {"TW302"}
    assert codes("", "+ 1") == {"TW302"}
    assert codes("", "+ 0") == set()
    if left_out < 0:
        assert codes("__syncthreads();", "+ 32") == set()


def reads(order: str, writer: int, span: int, stride: int, kind: str = "float", **names: object) -> set[str]:
    """Findings of `reads`, where each `span` threads load one address, `stride` cells after those before them."""
    x, out = np.ones(BLOCKS * 4096, DTYPES[kind]), np.zeros(BLOCKS * THREADS, DTYPES[kind])
    at = np.arange(THREADS, dtype=np.int32) // span * stride
    cell = int(at[64]) + 16  # of warp 2, or of all warps
    given = {"FIRST": "at[threadIdx.x]", "LEFT_OUT": -1, "BLOCK": "blockIdx.x", "CELL": cell} | names
    return found(READS, "reads", x, out, at, TYPE=kind, ORDER=order, WRITER=writer, **given)


@pytest.mark.parametrize("first", ["at[threadIdx.x]", "threadIdx.x / SPAN * STRIDE"])
@pytest.mark.parametrize("left_out", [-1, 7])
@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize(("span", "stride"), [(1, 1), (8, 2), (16, 1), (32, 4), (128, 1)])
def test_a_write_after_loads_by_other_warps_is_a_race(
    span: int, stride: int, kind: str, left_out: int, first: str
) -> None:
    """Lanes of warp 2, or of all warps, read the cell that a thread of another warp writes before or after them."""
    names = {"FIRST": first.replace("SPAN", str(span)).replace("STRIDE", str(stride)), "LEFT_OUT": left_out}
    for writer in (0, 100):
        assert reads("", writer, span, stride, kind, **names) == {"TW302"}
        if left_out < 0:
            assert reads("__syncthreads();", writer, span, stride, kind, **names) == set()


@pytest.mark.parametrize("writer", [0, 32, 64, 96])
def test_all_warps_that_read_a_cell_race_with_the_one_that_writes(writer: int) -> None:
    """The lanes of the writing warp are ordered, so the race is with another warp, which may have read first."""
    assert reads("__syncwarp();", writer, 128, 1) == {"TW302"}


def test_lanes_that_load_one_address_race_with_each_of_them() -> None:
    assert reads("", 64, 32, 4) == {"TW304"}
    assert reads("__syncwarp();", 64, 32, 4) == set()


def test_a_block_that_writes_what_all_warps_of_another_read_is_a_race() -> None:
    assert reads("__syncthreads();", 0, 128, 1, BLOCK="(blockIdx.x + 1) % gridDim.x") == {"TW303"}
    assert reads("__syncthreads();", 0, 128, 1) == set()
