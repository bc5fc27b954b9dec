"""Kernels of Triton."""

from types import MappingProxyType

from tilewright.frontends.frontend import Frontend

FRONTEND = Frontend(
    "Triton",
    MappingProxyType(
        {
            "triton": "tilewright.frontends.triton.names",
        }
    ),
    internal=("triton",),
    extra="triton",
)
