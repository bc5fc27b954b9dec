"""CuPy's arrays and kernels."""

from types import MappingProxyType

from tilewright.frontends.frontend import Frontend

FRONTEND = Frontend(
    "CuPy",
    MappingProxyType(
        {
            "cupy": "tilewright.frontends.cupy.names",
            "cupy.cuda.jitify": "tilewright.frontends.cupy.jitify",
        }
    ),
    internal=("cupy", "cupyx"),
    extra="cupy",
)
