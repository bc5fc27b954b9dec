"""NVIDIA's products in CuTe DSL on the simulated GPU: a program for `tilewright run` and `check`.

    pip download --no-deps nvidia-cutlass-operators && unzip nvidia_cutlass_operators-*.whl -d operators
    tilewright check --gpu a100 benchmarks/cute_products.py operators 128 128 64
    tilewright check --gpu h100 benchmarks/cute_products.py operators 256 256 128

The extents are m, n and k. On sm_80 the product uses `cp.async` and `mma.sync`. From sm_90a on it is persistent, with
copies of boxes, clusters of two blocks with multicast, and `wgmma`. torch confirms the result. If the calls of
`cp_async_wait_group` or `consumer_wait` are removed from the package's files, check finds reads of tiles in flight.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack
from cutlass.testing import JitArguments, benchmark

FILES = "cutlass/operators/providers/cutedsl/gemm/implementations"


def module(folder: Path, name: str):
    """A file of the package, by itself."""
    spec = importlib.util.spec_from_file_location(name, folder / FILES / f"{name}.py")
    sys.modules[name] = found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def main() -> None:
    folder, (m, n, k) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    a, b = (torch.randint(-2, 3, (1, x, k), device="cuda").half() for x in (m, n))
    c = torch.zeros(1, m, n, device="cuda").half()
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    given = [from_dlpack(x, assumed_align=16) for x in (a, b.permute(0, 2, 1), c)]
    if torch.cuda.get_device_capability()[0] < 9:
        half = cutlass.Float16
        kernel = module(folder, "sm80_tensorop_gemm_impl").Sm80TensorOpGemmKernel(half, half, half, cutlass.Float32)
        fixed = ()
    else:
        implementation = module(folder, "sm90_static_persistent_impl").Sm90StaticPersistentGemmKernel
        kernel = implementation(cutlass.Float32, (128, 128), (2, 1))
        fixed = (cutlass.utils.HardwareInfo().get_max_active_clusters(2),)
    compiled = cute.compile(kernel, *given, *fixed, stream)
    compiled(*given, stream)
    torch.testing.assert_close(c.float(), torch.einsum("lmk,lnk->lmn", a.float(), b.float()), atol=0.1, rtol=1e-3)
    microseconds = benchmark(compiled, kernel_arguments=JitArguments(*given, stream))
    print(f"{m} x {n} x {k}: as torch has it; predicted {microseconds:.2f} us")


if __name__ == "__main__":
    main()
