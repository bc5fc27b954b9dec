"""Tensors of other libraries' arrays on the simulated GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tilewright.frontends.torch.tensors import DeviceTensor, is_pinned, on_gpu
from tilewright.simulate.device.installed_gpu import current_gpu
from tilewright.simulate.programs.array_arguments import array_shape


def is_array(given: Any) -> bool:
    """Whether something is another library's array on a GPU."""
    return not isinstance(given, torch.Tensor) and hasattr(given, "__cuda_array_interface__")


def viewed(array: Any) -> DeviceTensor:
    """A tensor over the memory of an array with the CUDA array interface, which it keeps alive."""
    described, address = array_shape(array), array.__cuda_array_interface__["data"][0] or 0
    assert described is not None
    kind = described.dtype
    words = np.dtype(f"i{kind.itemsize}") if kind.kind == "V" else kind  # bfloat16: its library names it
    memory = SimpleNamespace(
        owner=array,
        __array_interface__={
            "data": (address, False),
            "shape": described.shape,
            "strides": described.strides,
            "typestr": words.str,
            "version": 3,
        },
    )
    found = torch.from_numpy(np.asarray(memory))
    return on_gpu(found.view(getattr(torch, str(array.dtype).removeprefix("torch."))) if kind.kind == "V" else found)


def from_dlpack(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Replaces `torch.from_dlpack`, which would make a tensor for torch's own code for GPUs."""

    @functools.wraps(original)
    def made(ext_tensor: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        if isinstance(ext_tensor, DeviceTensor):
            return ext_tensor.detach()
        if isinstance(ext_tensor, torch.Tensor):
            return original(ext_tensor, *args, **kwargs)
        if is_array(ext_tensor):
            return viewed(ext_tensor)
        found, gpu = original(ext_tensor, *args, **kwargs), current_gpu()
        if found.is_cuda:  # a capsule of another library
            return viewed(found)
        there = found.numel() and gpu.memory.extent(found.data_ptr()) is not None and not is_pinned(gpu, found)
        return on_gpu(found) if there else found  # torch's own

    return made
