"""CuTe DSL on the simulated GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="not run: torch is not installed")
pytest.importorskip("cutlass.cute", reason="not run: CuTe DSL is not installed")

#: One warp computes 16 x 8 of each tile on tensor cores: float16, with float32 sums.
PRODUCT = """
import sys, torch, cutlass, cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def product(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, tiled: cute.TiledMma):
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    panel_a, panel_b = cute.local_tile(a, (32, 16), (x, None)), cute.local_tile(b, (32, 16), (y, None))
    tile, own = cute.local_tile(c, (32, 32), (x, y)), tiled.get_slice(thread)
    from_a, from_b, to_c = own.partition_A(panel_a), own.partition_B(panel_b), own.partition_C(tile)
    in_a = tiled.make_fragment_A(from_a[None, None, None, 0])
    in_b = tiled.make_fragment_B(from_b[None, None, None, 0])
    total = tiled.make_fragment_C(to_c)
    total.fill(0.0)
    for k in range(cute.size(panel_a, mode=[2])):
        cute.autovec_copy(from_a[None, None, None, k], in_a)
        cute.autovec_copy(from_b[None, None, None, k], in_b)
        cute.gemm(tiled, total, in_a, in_b, total)
    cute.autovec_copy(total, to_c)

@cute.jit
def launched(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, across: cutlass.Constexpr):
    kind = cute.nvgpu.warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16))
    tiled = cute.make_tiled_mma(kind, cute.make_layout((2, 2, 1)))
    product(a, b, c, tiled).launch(grid=[c.shape[0] // 32, across, 1], block=[128, 1, 1])

a, b = (torch.randint(-4, 5, (64, 32), device="cuda").half() for _ in range(2))
c = torch.zeros(64, 64, device="cuda")
across = int(sys.argv[1])
given = [from_dlpack(one) for one in (a, b, c)]
compiled = cute.compile(launched, *given, across)
compiled(*given)
assert torch.equal(c, a.float() @ b.float().T)
print(compiled.__ptx__.split(".target ")[1].split()[0], compiled.__ptx__.count("mma.sync"))
"""


@pytest.mark.parametrize(("gpu", "target"), [("a100", "sm_80"), ("h100", "sm_90a")])
def test_a_product_on_tensor_cores(tmp_path: Path, gpu: str, target: str) -> None:
    script = tmp_path / "product.py"
    script.write_text(PRODUCT)
    command = [sys.executable, "-m", "tilewright", "check", "--gpu", gpu, str(script), "2"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.startswith(f"{target} 4\n") and "no findings in 1 launch" in ran.stdout, ran.stdout + ran.stderr


def test_a_fault_is_the_programs_error_at_the_kernels_line(tmp_path: Path) -> None:
    script = tmp_path / "product.py"
    script.write_text(PRODUCT)
    command = [sys.executable, "-m", "tilewright", "run", str(script), "3"]  # one column of blocks too many
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    line = 1 + PRODUCT.splitlines().index("        cute.autovec_copy(from_b[None, None, None, k], in_b)")
    assert ran.returncode == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in ran.stderr, ran.stdout + ran.stderr
    assert f"{script}:{line}" in ran.stderr, ran.stderr
