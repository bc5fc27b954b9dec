"""Programs of `cuda.bindings` and `cuda.core`, and of numba-cuda-mlir, which uses them."""

from types import MappingProxyType

from tilewright.frontends.frontend import Frontend

FRONTEND = Frontend(
    "CUDA Python",
    MappingProxyType(
        {
            "cuda.bindings.driver": "tilewright.frontends.cuda_python.driver",
            "cuda.bindings.nvrtc": "tilewright.frontends.cuda_python.nvrtc",
            "cuda.bindings.runtime": "tilewright.frontends.cuda_python.runtime",
            "cuda.core": "tilewright.frontends.cuda_python.compiling",
            "numba_cuda_mlir.cuda": "tilewright.frontends.cuda_python.mlir",
        }
    ),
    internal=("cuda.core", "cuda.bindings", "numba_cuda_mlir"),
    extra="compilers",
)
