"""Kernels of CuTe DSL."""

from types import MappingProxyType

from tilewright.frontends.frontend import Frontend

FRONTEND = Frontend(
    "CuTe",
    MappingProxyType(
        {
            "cutlass": "tilewright.frontends.cute.names",
        }
    ),
    internal=("cutlass",),
    extra="cute",
)
