"""Launches many times from one package, and prints what the process keeps and what a launch takes.

    python benchmarks/launches_leave_nothing.py numba-cuda|cuda.core|cupy|cute|triton [--launches 10000]

The first tenth of the launches warms up caches. During the others the process must grow by less than 2 MiB, and no
allocation of the device may be left; otherwise the exit status is 1.
"""

from __future__ import annotations

import argparse
import gc
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tilewright as tw

SOURCE = 'extern "C" __global__ void add(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] += 1.0f; }'
#: Kernels in Python must be in a file, where their compilers read them.
KERNELS = {
    "cute": """
import cutlass, cutlass.cute as cute
@cute.kernel
def add(x: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    x[thread] = x[thread] + 1.0
@cute.jit
def launched(x: cute.Tensor):
    add(x).launch(grid=[1, 1, 1], block=[32, 1, 1])
""",
    "triton": """
import triton, triton.language as tl
@triton.jit
def add(x, n: tl.constexpr):
    at = x + tl.arange(0, n)
    tl.store(at, tl.load(at) + 1.0)
""",
}
_MOST_KIB = 2048


def numba_cuda(folder: Path) -> Callable[[], None]:
    from numba import cuda

    @cuda.jit
    def add(x):
        i = cuda.threadIdx.x
        if i < x.size:
            x[i] += 1

    return lambda: add[1, 32](cuda.to_device(np.zeros(32, np.float32)))


def cuda_core(folder: Path) -> Callable[[], None]:
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
    kernel, stream = program.compile("cubin").get_kernel("add"), device.create_stream()

    def once() -> None:
        memory = device.allocate(128, stream=stream)
        memory.fill(0, stream=stream)
        launch(stream, LaunchConfig(grid=1, block=32), kernel, memory, np.int32(32))
        stream.sync()
        memory.close()

    return once


def cupy(folder: Path) -> Callable[[], None]:
    import cupy

    add = cupy.RawKernel(SOURCE, "add")
    return lambda: add((1,), (32,), (cupy.zeros(32, "f4"), np.int32(32)))


def cute(folder: Path) -> Callable[[], None]:
    import cutlass.cute
    from cutlass.cute.runtime import from_dlpack

    launched = _kernels(folder, "cute")["launched"]
    compiled = cutlass.cute.compile(launched, from_dlpack(np.zeros(32, np.float32)))
    return lambda: compiled(from_dlpack(np.zeros(32, np.float32)))


def triton(folder: Path) -> Callable[[], None]:
    import torch

    add = _kernels(folder, "triton")["add"]
    return lambda: add[(1,)](torch.zeros(32, device="cuda"), 32)


def _kernels(folder: Path, name: str) -> dict[str, object]:
    file, found = folder / f"{name}_kernels.py", {"__name__": f"{name}_kernels"}
    file.write_text(KERNELS[name])
    exec(compile(file.read_text(), str(file), "exec"), found)
    return found


FRONTS = {"numba-cuda": numba_cuda, "cuda.core": cuda_core, "cupy": cupy, "cute": cute, "triton": triton}


def resident_kib() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("front", choices=FRONTS)
    parser.add_argument("--launches", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tw.simulated_gpu("h100") as gpu:
        once = FRONTS[asked.front](Path(folder))
        for _ in range(asked.launches // 10):
            once()
        before, allocations, start = resident_kib(), len(list(gpu.memory.allocations())), time.perf_counter()
        for _ in range(asked.launches):
            once()
        each = (time.perf_counter() - start) / asked.launches
        grown, left = resident_kib() - before, len(list(gpu.memory.allocations())) - allocations
    print(
        f"{asked.front}: {asked.launches:,} launches, {1e6 * each:.0f} us each; "
        f"the process grew by {grown:,} KiB, {left} allocations are left"
    )
    return int(grown > _MOST_KIB or left > 0)


if __name__ == "__main__":
    raise SystemExit(main())
