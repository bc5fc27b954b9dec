"""Torch's tensors and operators."""

from types import MappingProxyType

from tilewright.frontends.frontend import Frontend

FRONTEND = Frontend(
    "PyTorch",
    MappingProxyType(
        {
            "torch": "tilewright.frontends.torch.names",
            "torch._dynamo": "tilewright.frontends.torch.compiling",
            "torch._inductor.compile_fx": "tilewright.frontends.torch.inductor",
            "torch._inductor.cudagraph_trees": "tilewright.frontends.torch.inductor_graphs",
        }
    ),
    internal=("torch",),
    extra="compilers",
)
