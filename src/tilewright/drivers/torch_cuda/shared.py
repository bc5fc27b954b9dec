"""Tensors of other libraries' arrays on the simulated GPU, and of files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from tilewright.drivers.torch_cuda.tensors import CUDA, DeviceTensor, on_gpu
from tilewright.programs.arguments import array_shape


def viewed(array: Any) -> DeviceTensor:
    """A tensor over the memory of an array with the CUDA array interface, which it keeps alive."""
    described, address = array_shape(array), array.__cuda_array_interface__["data"][0] or 0
    assert described is not None
    kind = described.dtype
    words = np.dtype(f"i{kind.itemsize}") if kind.kind == "V" else kind  # bfloat16: its library names it
    memory = SimpleNamespace(owner=array, __array_interface__={
        "data": (address, False), "shape": described.shape, "strides": described.strides, "typestr": words.str,
        "version": 3,
    })  # fmt: skip
    found = torch.from_numpy(np.asarray(memory))
    return on_gpu(found.view(getattr(torch, str(array.dtype))) if kind.kind == "V" else found)


def from_dlpack(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Replaces `torch.from_dlpack`, which would make a tensor for torch's own code for GPUs."""

    @functools.wraps(original)
    def made(ext_tensor: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        if isinstance(ext_tensor, torch.Tensor) or not hasattr(ext_tensor, "__cuda_array_interface__"):
            return original(ext_tensor, *args, **kwargs)
        return viewed(ext_tensor)

    return made


def load(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `torch.load`: it reads on the host, and copies tensors and modules to the device if asked."""

    @functools.wraps(original)
    def read(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(map_location, str | torch.device) or torch.device(map_location).type != "cuda":
            return original(f, map_location, *args, **kwargs)
        return _pytree.tree_map(_there, original(f, "cpu", *args, **kwargs))

    return read


def _there(one: Any) -> Any:
    if isinstance(one, torch.nn.Parameter):
        return torch.nn.Parameter(one.detach().to(CUDA), one.requires_grad)
    if isinstance(one, torch.Tensor):
        return one.detach().to(CUDA).requires_grad_(one.requires_grad)
    return one.to(CUDA) if isinstance(one, torch.nn.Module) else one
