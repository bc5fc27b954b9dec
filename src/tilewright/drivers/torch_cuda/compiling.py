"""Compiled functions run eagerly while a simulated GPU is installed.

Its tensors are CPU tensors of a class that computes on the GPU's memory. `torch.compile` traces such a class with fake
tensors, which have no memory, and would compile its inside in place of the operations. The machine code that it makes
for GPUs would not run either. So a function runs as written; the operator `tilewright::matmul` launches its kernels.

Source: PyTorch, `torch.compiler.set_stance`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tilewright.drivers.gpu import SimulatedGpu
from tilewright.programs.numba_names import Row


class Eagerly:
    """Compiled functions run as written until this is destroyed."""

    def __init__(self) -> None:
        self._stance = torch.compiler.set_stance("force_eager")

    def _destroy(self) -> None:
        self._stance.__exit__(None, None, None)


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """No names are replaced."""
    return iter(())


def registered() -> Eagerly:
    """What holds while a simulated GPU is installed."""
    return Eagerly()
