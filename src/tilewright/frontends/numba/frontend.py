"""Kernels of numba-cuda."""

from types import MappingProxyType

from tilewright.frontends.frontend import Frontend

FRONTEND = Frontend(
    "numba-cuda",
    MappingProxyType(
        {
            "numba.cuda": "tilewright.frontends.numba.names",
        }
    ),
    internal=("numba", "numba.cuda"),
    extra="gpu",
)
