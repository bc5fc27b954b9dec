"""Pinned memory and random generators by the names of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _device

from tilewright.frontends.torch.generators import Generator, require_of
from tilewright.frontends.torch.layouts import require_host
from tilewright.frontends.torch.tensors import DeviceTensor, is_pinned, pinned
from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device.installed_gpu import current_gpu

#: Factories with `pin_memory` that programs use.
_FACTORIES = (
    "empty",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "randint",
    "randperm",
    "arange",
    "empty_like",
    "zeros_like",
    "empty_strided",
)


def rows() -> Iterator[Row]:
    """The names that are replaced."""
    _device._device_constructors()  # torch caches these; `with device:` needs torch's own factories
    yield "torch", "Generator", Generator
    yield "torch", "Tensor.pin_memory", _pinned
    yield "torch", "Tensor.is_pinned", lambda tensor, device=None: is_pinned(current_gpu(), tensor)
    yield from (("torch", name, _factory(getattr(torch, name))) for name in _FACTORIES)


def _pinned(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """Replaces `Tensor.pin_memory`: it returns a copy, since changes to the pinned copy must not change the tensor.

    Raises RuntimeError: the tensor is on the device, as in torch.
    """
    if isinstance(tensor, DeviceTensor):
        raise RuntimeError(f"cannot pin 'torch.cuda.{tensor.dtype}' only dense CPU tensors can be pinned")
    gpu = current_gpu()
    return tensor if is_pinned(gpu, tensor) else pinned(gpu, tensor)


def _factory(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Replaces a factory that takes `pin_memory`."""

    @functools.wraps(original)
    def make(*args: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("layout", torch.strided) not in (torch.strided, None):
            require_host(kwargs["layout"], args, kwargs)
        made = original(*args, **kwargs)
        require_of(made.device, kwargs.get("generator"))
        return made.pin_memory() if pin_memory else made

    return make
