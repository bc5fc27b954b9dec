"""Runs functions of `torch.compile` eagerly while a simulated GPU is installed, and warns of it once.

Tensors on the simulated GPU are CPU tensors of a class that computes in the GPU's memory. `torch.compile` traces such a
class with fake tensors, which have no memory, so it would compile the class's internals instead of the operations. The
simulated GPU could not run its machine code either. The operator `tilewright::matmul` launches its kernels as usual.

Source: PyTorch, `torch.compiler.set_stance`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo import eval_frame

from tilewright.ground.native.replaced_names import replaced
from tilewright.simulate.device.gpu import SimulatedGpu

_SAID = (
    "functions of torch.compile run eagerly on the simulated GPU, as written: its Triton kernels are not generated, "
    "so they are not checked, profiled or counted"
)
#: The function of `torch._dynamo.eval_frame` that applies the stance when a compiled function is called.
_APPLIED = "_callback_from_stance"


@contextmanager
def installed(gpu: SimulatedGpu) -> Iterator[None]:
    """Run compiled functions as written in the body of `with`."""
    apply: Any = getattr(eval_frame, _APPLIED, lambda _: None)

    def eager(callback: Any) -> Any:
        if callback not in (None, False) and _SAID not in gpu.said:
            gpu.said.add(_SAID)
            warnings.warn(_SAID, UserWarning, stacklevel=3)
        return apply(callback)

    rows = [("torch._dynamo.eval_frame", _APPLIED, eager)] if hasattr(eval_frame, _APPLIED) else []
    with torch.compiler.set_stance("force_eager"), replaced(rows):
        yield
