"""Launches that look as if something were missing: kernels that write nothing, and launches of one dimension.

A kernel without statements, or with assertions alone, is meant to write nothing: it measures what a launch costs,
or checks its input. One that computes and stores nowhere is a defect (TW501). A kernel that uses its y index runs
with one dimension too, where y is 0. That is a defect (TW503) if it leaves out a part of an array that it uses; it
is meant where it has done all, or where the launch says that the other extents are 1.
"""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cassert>
#define N 30

__global__ void empty(const float *a, float *out, int rows) {}

__global__ void empty_with_comment(const float *a, float *out, int rows)
{
    // Measures a launch.
    return;
}

__global__ void asserts(const float *a, float *out, int rows) {
    assert(a[threadIdx.x] > 0);  // that the input is positive
    assert(rows > 0);
}

__global__ void computes(const float *a, float *out, int rows) {
    float sum = 0;
    for (int i = 0; i < rows; i++) sum += a[i];
}

__global__ void stores_locally(const float *a, float *out, int rows) {
    __shared__ float s[N];
    if (threadIdx.x < N) s[threadIdx.x] = a[threadIdx.x];
}

__global__ void image(const float *a, float *out, int rows) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < N) out[row * N + column] = a[row * N + column] + 1;
}

__global__ void image_in_place(float *a, float *out, int rows) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < N) a[row * N + column] += 1;
}

__global__ void column_sums(const float *a, float *out, int rows) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < N) atomicAdd(out + column, a[row * N + column]);
}
"""


def _case(
    name: str, entry: str, why: str, *codes: str, rows: int = 1, to: int = 0, grid: int | tuple[int, int] = 1
) -> Case:
    """`a` has rows of 30 elements, `out` as many or `to` of them."""

    def arguments(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.int32]:
        return np.ones((rows, 30), np.float32), np.zeros((to or rows, 30), np.float32), np.int32(rows)

    block = (32, 1) if isinstance(grid, tuple) else 32
    return Case(
        f"meant_{name}", cuda_cpp(__file__, SOURCE, entry, "-DNDEBUG"), grid, block, arguments, why=why, codes=codes
    )


CASES = (
    _case("empty", "empty", "There is nothing that it could have lost."),
    _case("empty_with_comment", "empty_with_comment", "Nor here."),
    _case("asserts", "asserts", "Assertions that the compiler leaves out are all that it does."),
    _case("computes", "computes", "The sum goes nowhere.", "TW501"),
    _case("stores_locally", "stores_locally", "Shared memory ends with the block.", "TW501"),
    _case("one_row", "image", "The arrays have one row, which row 0 of threads processes."),
    _case("one_row_in_place", "image_in_place", "The same in place; the other array is not used."),
    _case("one_row_explicit", "image", "The launch says that there is one row.", grid=(1, 1)),
    _case("rows", "image", "Row 0 alone is processed, of three.", "TW503", rows=3),
    _case("rows_in_place", "image_in_place", "The same in place.", "TW503", rows=3),
    _case("second_row_of_output", "image", "Row 1 of the output is left out.", "TW503", to=2),
    _case("sums", "column_sums", "All sums are written, but of the first row alone.", "TW503", rows=3, to=1),
    _case("sums_of_one_row", "column_sums", "There is no other row.", to=1),
    _case("rows_explicit", "image", "The launch says that there is one row of threads.", rows=3, grid=(1, 1)),
    _case("rows_by_rows", "image", "There is a row of blocks for each.", rows=3, grid=(1, 3)),
)  # fmt: skip
