"""Intrinsics in kernels of numba-cuda-mlir, on the simulated GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda_mlir", reason="not run: numba-cuda-mlir is not installed")

PRODUCT = """import numpy as np
from numba_cuda_mlir import cuda

from tilewright.simulate.intrinsics.numba_cuda_mlir import (
    cp_async_cg_16, cp_async_wait_all, ldmatrix_x4, ldmatrix_x4_trans,
)
from tilewright.simulate.intrinsics.numba_cuda_mlir import mma_m16n8k16_f32_f16 as mma


@cuda.jit
def product(a, b, c):
    tile_a = cuda.shared.array((16, 24), np.float16, alignment=16)
    tile_b = cuda.shared.array((16, 24), np.float16, alignment=16)
    zero = np.float32(0)
    left_sums = (zero, zero, zero, zero)
    right_sums = (zero, zero, zero, zero)
    lane, top, left = cuda.threadIdx.x, 16 * cuda.blockIdx.y, 16 * cuda.blockIdx.x
    row, half = lane % 16, 8 * (lane // 16)
    for k in range(0, a.shape[1], 16):
        cp_async_cg_16(tile_a, (row, half), a, (top + row, k + half))
        cp_async_cg_16(tile_b, (row, half), b, (k + row, left + half))
        cp_async_wait_all()
        cuda.syncwarp()
        of_a = ldmatrix_x4(tile_a, (row, half))
        of_b = ldmatrix_x4_trans(tile_b, (row, half))
        left_sums = mma(of_a, (of_b[0], of_b[1]), left_sums)
        right_sums = mma(of_a, (of_b[2], of_b[3]), right_sums)
        cuda.syncwarp()
    y, x = top + lane // 4, left + lane % 4 * 2
    c[y, x], c[y, x + 1], c[y + 8, x], c[y + 8, x + 1] = left_sums
    c[y, x + 8], c[y, x + 9], c[y + 8, x + 8], c[y + 8, x + 9] = right_sums


a, b = np.random.default_rng(0).random((2, 64, 64)).astype(np.float16)
product[(4, 4), 32](a, b, c := np.zeros((64, 64), np.float32))
np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5)
"""

TURNED = """import numpy as np
from numba_cuda_mlir import cuda

from tilewright.simulate.intrinsics.numba_cuda_mlir import (
    cp_async_ca_4, cp_async_commit_group, cp_async_wait_group, ld_global_v4_b32, mbarrier_arrive, mbarrier_init,
    mbarrier_test_wait_parity,
)


@cuda.jit
def turned(x, out):
    tile = cuda.shared.array(64, np.int32)
    barrier = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        mbarrier_init(barrier, 0, 64)
    cuda.syncthreads()
    cp_async_ca_4(tile, t, x, t)
    cp_async_commit_group()
    cp_async_wait_group(0)
    mbarrier_arrive(barrier, 0)
    while not mbarrier_test_wait_parity(barrier, 0, 0):
        pass
    out[t] = tile[63 - t] + ld_global_v4_b32(x, 4)[1]


x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
turned[1, 64](x, out)
assert (out == x[::-1] + 5).all()
"""


def checked(script: Path, text: str) -> str:
    """What `tilewright check` says of a program."""
    script.write_text(text)
    arguments = [sys.executable, "-m", "tilewright", "check", "--format", "brief", str(script)]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    return run.stdout + run.stderr


@pytest.mark.parametrize("text", [PRODUCT, TURNED], ids=["product", "turned"])
def test_kernels_are_right_and_nothing_is_found(tmp_path: Path, text: str) -> None:
    assert "no findings in 1 launch of 1 kernel" in checked(tmp_path / "kernel.py", text)


def test_a_copy_that_nothing_waits_for_is_found_at_its_line(tmp_path: Path) -> None:
    text = PRODUCT.replace("        cp_async_wait_all()\n", "")
    line = text[: text.index("of_a = ldmatrix_x4")].count("\n") + 1
    assert f"kernel.py:{line}: TW306" in checked(tmp_path / "kernel.py", text)


def test_a_constant_that_the_instruction_has_no_place_for_is_refused(tmp_path: Path) -> None:
    found = checked(tmp_path / "kernel.py", TURNED.replace("wait_group(0)", "wait_group(t)"))
    assert "cp_async_wait_group(pending): `pending` must be a constant of 0 to" in found
