"""Simulated memory that tensors hold: it is freed when none refers to it any more."""

from __future__ import annotations

import atexit
import ctypes
import weakref
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from tilewright.frontends.torch.devices import require_working
from tilewright.ground.native.memo import memo
from tilewright.simulate.device.allocations import cuMemHostAlloc
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.device.host_side import Device
from tilewright.simulate.machine.sizes import size_text

#: NumPy's types; tensors of its arrays take a third of the time of others.
_NAMES = "float16 float32 float64 int8 int16 int32 int64 uint8 bool complex64 complex128".split()
_KINDS = MappingProxyType({getattr(torch, name): np.dtype(name) for name in _NAMES})


def _allocated(gpu: SimulatedGpu, size_bytes: int, *, pinned: bool = False) -> int:
    """The address of new memory.

    Raises OutOfMemoryError, torch's: the GPU has none left.
    """
    require_working(gpu)
    address = 0 if pinned or gpu.observers or not gpu.contexts else gpu.memory.reused(size_bytes)
    if address:
        return address
    with gpu.call():
        Device(gpu).set_current()
        try:
            return cuMemHostAlloc(gpu, size_bytes, 0) if pinned else gpu.allocate(size_bytes)
        except DriverError as error:
            memory = gpu.memory
            free_bytes = memory.capacity_bytes - memory.allocated_bytes
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size_text(size_bytes)}. GPU 0 has a total capacity of "
                f"{size_text(memory.capacity_bytes)} of which {size_text(free_bytes)} is free."
            ) from error


@memo
def _held() -> dict[int, tuple[Any, SimulatedGpu, int]]:
    """Weak references to what holds memory, by their numbers; `weakref.finalize` takes four times as long."""
    found: dict[int, tuple[Any, SimulatedGpu, int]] = {}
    atexit.register(found.clear)
    return found


def _freed_after(holder: Any, gpu: SimulatedGpu, address: int) -> None:
    """Free memory when nothing refers to an object any more."""
    end = weakref.ref(holder, _ended)
    _held()[id(end)] = end, gpu, address


def _ended(end: Any) -> None:
    _, gpu, address = _held().pop(id(end))
    if not gpu.closed and gpu.memory.begins(address):
        gpu.free(address)


def copied(gpu: SimulatedGpu, tensor: torch.Tensor, *, unset: bool = False) -> torch.Tensor:
    """A tensor of the CPU with its storage copied to simulated memory; with `unset`, like one that nobody wrote."""
    storage, dtype = tensor.untyped_storage(), tensor.dtype
    size = storage.nbytes()
    address = _allocated(gpu, size)
    if not unset:
        ctypes.memmove(address, storage.data_ptr(), size)
        gpu.wrote(address, size)
    holder: Any = gpu.memory.buffer(address, size)
    offset, steps = tensor.storage_offset(), tensor.stride()
    made: torch.Tensor
    if steps == (1,) and not offset and tensor.numel() * dtype.itemsize == size:
        made = torch.frombuffer(holder, dtype=dtype)
    elif dtype in _KINDS and not offset and extent_bytes(tensor) == size:
        steps = [step * dtype.itemsize for step in steps]
        holder = np.ndarray(tensor.size(), _KINDS[dtype], holder, 0, steps)
        made = torch.from_numpy(holder)
    else:
        whole = torch.frombuffer(holder, dtype=torch.uint8).untyped_storage()
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            made = torch.empty(0, dtype=dtype, device="cpu").set_(whole, offset, tensor.size(), steps)
    _freed_after(holder, gpu, address)
    return made


def extent_bytes(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first byte to the end of its last element."""
    if not tensor.numel():
        return 0
    steps = sum((extent - 1) * step for extent, step in zip(tensor.size(), tensor.stride(), strict=True))
    return int((steps + 1) * tensor.element_size())


def allocated(gpu: SimulatedGpu, size_bytes: int, *, pinned: bool = False) -> torch.Tensor:
    """Bytes of simulated memory, as a tensor."""
    address = _allocated(gpu, size_bytes, pinned=pinned)
    holder = gpu.memory.buffer(address, size_bytes)
    _freed_after(holder, gpu, address)
    return torch.frombuffer(holder, dtype=torch.uint8)
