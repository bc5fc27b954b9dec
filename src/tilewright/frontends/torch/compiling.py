"""Compiled functions run eagerly while a simulated GPU is installed.

Its tensors are CPU tensors of a class that computes on the GPU's memory. `torch.compile` traces such a class with fake
tensors, which have no memory, and would compile its inside in place of the operations. The machine code that it makes
for GPUs would not run either. So a function runs as written; the operator `tilewright::matmul` launches its kernels.

Source: PyTorch, `torch.compiler.set_stance`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from tilewright.simulate.device.gpu import SimulatedGpu


def installed(gpu: SimulatedGpu) -> AbstractContextManager[None]:
    """Run compiled functions as written in the body of `with`."""
    stance: AbstractContextManager[None] = torch.compiler.set_stance("force_eager")
    return stance
