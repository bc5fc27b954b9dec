"""Functions of torch that make one new tensor, and when they need nothing of torch's dispatcher but the CPU's kernel.

The dispatcher records gradients, and runs modes, transforms and traces. For small tensors it takes most of the time.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.autograd import forward_ad

from tilewright.frontends.torch import operators

#: Names of these functions, which are those of their operators.
NAMES = frozenset(
    "abs add bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clone cos div eq erf exp expm1 floor "
    "floor_divide fmod ge gt le log log1p log2 logical_and logical_not logical_or lt matmul maximum mean minimum mm "
    "mul ne neg reciprocal relu remainder round rsqrt sigmoid sign sin sqrt sub sum tan tanh".split()
)
#: Of two matrices; others of torch's operators compute those of other tensors.
PRODUCTS = frozenset({"matmul", "mm"})
#: What a thread's dispatcher calls besides the kernels of the tensors, with no mode, transform or trace.
_ALWAYS = torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.ADInplaceOrView
)


@functools.lru_cache(4096)
def kernels(function: Any) -> frozenset[str] | None:
    """The keys of kernels that a program may register in place of a function's; None if it is another function."""
    name = function.__name__
    if name not in NAMES or function not in (getattr(torch.Tensor, name, None), getattr(torch, name, None)):
        return None
    packets = [getattr(torch.ops.aten, one) for one in ((name, "mm") if name in PRODUCTS else (name,))]
    overloads = [getattr(packet, one) for packet in packets for one in packet.overloads()]
    return frozenset().union(*(operators.facts(one).kernels for one in overloads))


def is_plain() -> bool:
    """Whether no mode, transform or trace is active in this thread."""
    return bool(forward_ad._current_level < 0 and torch._C._dispatch_tls_local_include_set() == _ALWAYS)
