"""Lets kernels of `torch.compile` run without CUDA graphs: torch's C++ would record them, with its own allocator.

Source: `torch._inductor.cudagraph_trees` of the installed package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.frontends.torch.compiling import say
from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device.gpu import SimulatedGpu


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The names that are replaced."""

    def without(model: Callable[..., Any], inputs: Any, *_: Any, **__: Any) -> Callable[..., Any]:
        say(gpu, "torch.compile: its kernels run one by one on the simulated GPU, not as CUDA graphs")
        return model

    yield "torch._inductor.cudagraph_trees", "cudagraphify_impl", without
