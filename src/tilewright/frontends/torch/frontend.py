"""Torch's tensors and operators."""

from types import MappingProxyType

from tilewright.frontends.frontend import Frontend

FRONTEND = Frontend(
    "PyTorch",
    MappingProxyType(
        {
            "torch": "tilewright.frontends.torch.names",
            "torch._dynamo": "tilewright.frontends.torch.compiling",
        }
    ),
    internal=("torch",),
    extra="compilers",
)
