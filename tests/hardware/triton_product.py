"""A product by Triton as its users would write it, with the best of a few tiles."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_TILES = [(128, 256, 64, 3, 8), (128, 128, 64, 4, 4), (128, 128, 32, 4, 8), (64, 64, 32, 4, 4)]


@triton.autotune(
    [
        triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_stages=stages, num_warps=warps)
        for bm, bn, bk, stages, warps in _TILES
    ],
    key=["m", "n", "k"],
)
@triton.jit
def _multiply(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUMS: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), SUMS)
    for start in range(0, k, BK):
        at = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + at, mask=(rows[:, None] < m) & (at < k), other=0.0)
        right = tl.load(b + at[:, None] * n + columns, mask=(at[:, None] < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=SUMS)
    inside = (rows[:, None] < m) & (columns < n)
    tl.store(c + rows[:, None] * n + columns, total.to(c.dtype.element_ty), mask=inside)


def product(a: Any, b: Any) -> Any:
    """C of two contiguous tensors on a GPU; that of 8-bit operands has the dtype of the sums."""
    (m, k), n = a.shape, b.shape[1]
    kind, sums = (torch.float32, tl.float32) if a.is_floating_point() else (torch.int32, tl.int32)
    if a.dtype == torch.float64:
        sums = tl.float64
    c = torch.empty((m, n), dtype=kind if a.itemsize == 1 else a.dtype, device=a.device)
    _multiply[lambda tile: (triton.cdiv(m, tile["BM"]), triton.cdiv(n, tile["BN"]))](a, b, c, m, n, k, SUMS=sums)
    return c
