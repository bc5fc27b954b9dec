"""`tensor.data = other`, by which modules move: the tensor stays the same object, on the other's device.

Source: PyTorch, `Module._apply`, `torch.utils.swap_tensors`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tilewright.frontends.torch.devices import is_traced
from tilewright.frontends.torch.tensors import OWN_ATTRIBUTES, DeviceTensor
from tilewright.ground.native.replaced_names import Row


def rows() -> Iterator[Row]:
    """The names that are replaced."""
    plain = torch.Tensor.data
    yield "torch", "Tensor.data", property(plain.__get__, lambda tensor, other: _set(plain, tensor, other))


def _set(plain: Any, tensor: torch.Tensor, other: torch.Tensor) -> None:
    there = isinstance(other, DeviceTensor)
    if there != isinstance(tensor, DeviceTensor) and not _is_elsewhere(tensor, other):
        _move(tensor, other)
        return
    with torch._C.DisableTorchFunctionSubclass():
        plain.__set__(tensor, other)
    if there:
        tensor.elements = other.elements


def _is_elsewhere(*tensors: torch.Tensor) -> bool:
    """Whether a tensor has no elements."""
    return any(one.is_meta or is_traced(one) for one in tensors)


def _move(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """Make a tensor one over the elements of another, on the other's device.

    Raises RuntimeError: torch's own code or a weak reference has the tensor.
    """
    with torch._C.DisableTorchFunctionSubclass():
        made, needs = other.detach(), tensor.requires_grad
        made = torch.nn.Parameter(made, needs) if isinstance(tensor, torch.nn.Parameter) else made.requires_grad_(needs)
        vars(made).update((name, value) for name, value in vars(tensor).items() if name not in OWN_ATTRIBUTES)
        gradient, tensor.grad = tensor.grad, None
        torch.utils.swap_tensors(tensor, made)
        tensor.grad = None if gradient is None else gradient.to(tensor.dtype)


def replaceable(original: Callable[..., bool]) -> Callable[..., bool]:
    """Replaces torch's check before a module sets one tensor's data to another."""

    def compatible(input: torch.Tensor, from_: torch.Tensor) -> bool:  # torch's names, which it compares
        if input.device == from_.device:
            return original(input, from_)
        known = _is_elsewhere(input, from_) or weakref.getweakrefs(input) or input._use_count() > 1
        return isinstance(input, torch.nn.Parameter) and not known  # a gradient is torch's: it gets another tensor

    return compatible
