"""Storages in simulated memory: their device is `cuda:0`, so torch saves and loads tensors as those of any GPU.

For torch's C++ code they are CPU storages. Their address shows that they are on the GPU; an empty storage, which has no
address, has a mark.

Source: PyTorch, `torch.serialization`, `torch._utils._rebuild_tensor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tilewright.frontends.torch.devices import CUDA, MARK, marked, require_only_gpu
from tilewright.frontends.torch.memory import allocated
from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device.gpu import SimulatedGpu


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The names that are replaced."""
    place = torch.UntypedStorage.device

    def device(storage: Any) -> torch.device:
        address = storage.data_ptr() if place.__get__(storage).type == "cpu" else 0
        extent = gpu.memory.extent(address) if address else None
        there = extent is not None and extent[0] not in gpu.pinned
        return CUDA if there or hasattr(storage, MARK) else place.__get__(storage)

    to = torch.UntypedStorage.to

    def moved(storage: Any, *, device: Any, non_blocking: bool = False) -> Any:
        device = torch.device(device)
        if device.type != "cuda":
            return to(storage, device=device, non_blocking=non_blocking)
        require_only_gpu(device)
        return storage if storage.device == CUDA else copied(gpu, storage)

    clone = torch.UntypedStorage.clone
    yield "torch", "UntypedStorage.device", property(device)
    yield "torch", "UntypedStorage.clone", lambda one: copied(gpu, one) if one.device == CUDA else clone(one)
    yield "torch", "UntypedStorage.to", moved
    yield "torch", "UntypedStorage.cuda", lambda storage, device=None, non_blocking=False: moved(storage, device=CUDA)


def copied(gpu: SimulatedGpu, storage: Any) -> Any:
    """A copy of a host storage on the device."""
    size = storage.nbytes()
    if not size:
        return marked(torch.UntypedStorage(0))
    made = allocated(gpu, size).untyped_storage()
    made.copy_(storage)
    gpu.wrote(made.data_ptr(), size)
    return made
