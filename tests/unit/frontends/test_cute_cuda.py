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

#: Each block doubles 16 x 64 of a matrix of NumPy's, which a copy of a box loads; or does not wait for it, and
#: continues one row too far.
BOXES = """
import sys
import numpy as np, cutlass, cutlass.cute as cute, cutlass.testing as testing
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

ROWS, COLUMNS, WAITS = 16, 64, sys.argv[1] == "waits"
OVER = 0 if WAITS else 1

@cute.kernel
def doubled(load: cute.CopyAtom, source: cute.Tensor, target: cute.Tensor, tiles: cute.ComposedLayout):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    memory = cutlass.memory.SmemAllocator()
    tile = memory.allocate_tensor(cutlass.Float16, tiles.outer, 1024, swizzle=tiles.inner)
    barrier = memory.allocate_array(cutlass.Int64, 1)
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    panel = cute.local_tile(source, (ROWS, COLUMNS), (block, 0))
    own, parts = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(panel, 0, 2))
    if thread < 32:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, 2 * ROWS * COLUMNS)
        cute.copy(load, parts, own, tma_bar_ptr=barrier)
    if cutlass.const_expr(WAITS):
        cute.arch.mbarrier_wait(barrier, 0)
    for row in range(ROWS):
        target[block * ROWS + row + OVER, thread] = cutlass.Float32(tile[row, thread]) * 2.0

@cute.jit
def launched(source: cute.Tensor, target: cute.Tensor):
    tiles = cute.make_composed_layout(
        cute.make_swizzle(3, 4, 3), 0, cute.make_ordered_layout((ROWS, COLUMNS), order=(1, 0)))
    load, coordinates = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), source, tiles, (ROWS, COLUMNS))
    doubled(load, coordinates, target, tiles).launch(
        grid=[source.shape[0] // ROWS, 1, 1], block=[COLUMNS, 1, 1])

x = np.random.default_rng(0).random((64, COLUMNS)).astype(np.float16)
y = np.zeros_like(x, np.float32)
given = from_dlpack(x, assumed_align=16), from_dlpack(y)
compiled = cute.compile(launched, *given)
compiled(*given)
assert not WAITS or (y == 2 * x.astype(np.float32)).all()
print(testing.benchmark(compiled, kernel_arguments=testing.JitArguments(*given)) if WAITS else "raced")
"""


@pytest.mark.parametrize(("command", "gpu", "target", "says"), [
    ("run", "a100", "sm_80", ""), ("check", "h100", "sm_90a", "no findings in 1 launch"),
    ("profile", "h100", "sm_90a", "cute.gemm(tiled, total,"),
])  # fmt: skip
def test_a_product_on_tensor_cores(tmp_path: Path, command: str, gpu: str, target: str, says: str) -> None:
    script = tmp_path / "product.py"
    script.write_text(PRODUCT)
    words = [sys.executable, "-m", "tilewright", command, "--gpu", gpu, str(script), "2"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.stdout.startswith(f"{target} 4\n") and says in ran.stdout, ran.stdout + ran.stderr
    assert ran.returncode == 0


def checked(tmp_path: Path, *argument: str) -> str:
    script = tmp_path / "boxes.py"
    script.write_text(BOXES)
    command = [sys.executable, "-m", "tilewright", "check", "--format", "brief", str(script), *argument]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_copies_of_boxes_between_arrays_of_numpy_and_their_predicted_time(tmp_path: Path) -> None:
    *_, microseconds, found = checked(tmp_path, "waits").splitlines()
    assert found == "no findings in 2 launches of 1 kernel"
    assert 1 < float(microseconds) < 10  # of a launch that waits for memory once


def test_findings_are_at_the_kernels_line_and_name_its_arguments(tmp_path: Path) -> None:
    found = checked(tmp_path, "races")
    line = {text: at for at, text in enumerate(BOXES.splitlines(), 1)}
    copy = line["        cute.copy(load, parts, own, tma_bar_ptr=barrier)"]
    used = next(at for text, at in line.items() if "tile[row, thread]" in text)
    assert f":{used}: TW306 error: read of 2 bytes in shared memory into which the asynchronous copy" in found, found
    assert f"boxes.py:{copy} may be writing" in found, found
    assert f":{used}: TW101 error: store of 4 bytes" in found and "`target` of shape (64, 64)" in found, found


def test_a_fault_is_the_programs_error_at_the_kernels_line(tmp_path: Path) -> None:
    script = tmp_path / "product.py"
    script.write_text(PRODUCT)
    command = [sys.executable, "-m", "tilewright", "run", str(script), "3"]  # one column of blocks too many
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    line = 1 + PRODUCT.splitlines().index("        cute.autovec_copy(from_b[None, None, None, k], in_b)")
    assert ran.returncode == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in ran.stderr, ran.stdout + ran.stderr
    assert f"{script}:{line}" in ran.stderr, ran.stderr
