"""Array arguments of CuTe DSL, which are always marked as GPU memory.

Through DLPack a tensor on torch's simulated device is host memory, as other libraries require. CuTe compiles different
code for host addresses, so CuTe gets such a tensor as GPU memory. A host array, of NumPy or another library, is mapped:
each launch reads its contents and writes its results to it.

Source: `dlpack.h`, DLTensor.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from ctypes import POINTER, Structure, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontends.libcuda.runtime import current
from tilewright.simulate.device import allocations
from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.observer import ArgumentFact

_CUDA = 2  # kDLCUDA
#: NumPy's letters of DLDataTypeCode; a boolean is a byte there too.
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class _Tensor(Structure):
    _fields_ = (
        ("data", c_size_t),
        ("device", c_int32),
        ("number", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("offset", c_uint64),
    )


@dataclass(frozen=True, eq=False)
class _Array:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: In bytes.

    @classmethod
    def of(cls, tensor: _Tensor) -> _Array:
        size = max(1, tensor.bits * tensor.lanes // 8)
        kind = _KINDS.get(tensor.code)
        dtype = np.dtype(f"{kind}{size}" if kind else (np.void, size))
        return cls(dtype, tuple(tensor.shape[: tensor.ndim]), tuple(size * step for step in _steps(tensor)))


class Arrays:
    """The arrays of one simulated GPU that CuTe has tensors of, with the host memory that launches access."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self._users: dict[int, int] = {}  # start of host memory -> number of tensors
        self._known: weakref.WeakValueDictionary[int, _Array] = weakref.WeakValueDictionary()  # by address

    def fact(self, name: str, address: int) -> ArgumentFact:
        """The fact of a kernel's argument, from the address at its start; 0 if it has none."""
        if not address or self._gpu.memory.extent(address) is None:
            return ArgumentFact(name)
        known = self._known.get(address)
        if known is None:
            return ArgumentFact(name, address=address)
        return ArgumentFact(name, known.dtype, known.shape, known.strides, address)

    def place(self, owner: Any, capsule: Any) -> None:
        """Change a DLPack capsule that `owner` holds to one of the device."""
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = c_size_t, [ctypes.py_object, ctypes.c_char_p]
        tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
        tensor.device = _CUDA
        low, high = _extent(tensor)
        if high > low and self._gpu.memory.extent(low) is None:
            tensor.data += self._mapped(owner, low, high - low)
        array = self._known[tensor.data + tensor.offset] = _Array.of(tensor)
        weakref.finalize(owner, lambda array: None, array)  # keeps the array alive with its owner

    def _mapped(self, owner: Any, start: int, size: int) -> int:
        """Map host memory; return the distance from it to the device's copy."""
        gpu, host = self._gpu, self._holding(start, size)
        with gpu.call():
            current(gpu)
            if host is None:
                host = start
                allocations.cuMemHostRegister(gpu, host, size, binding().CU_MEMHOSTREGISTER_DEVICEMAP)
        self._users[host] = self._users.get(host, 0) + 1
        weakref.finalize(owner, self._release, host)
        return gpu.registered[host].address - host

    def _holding(self, start: int, size: int) -> int | None:
        """The start of mapped memory that contains the whole range."""
        known = self._gpu.registered.copy().items()
        found = (at for at, one in known if one.address and at <= start and start + size <= at + one.size_bytes)
        return next(found, None)

    def _release(self, host: int) -> None:
        self._users[host] -= 1
        if not self._users[host]:
            del self._users[host]
            if not self._gpu.closed and host in self._gpu.registered:
                allocations.cuMemHostUnregister(self._gpu, host)


def _extent(tensor: _Tensor) -> tuple[int, int]:
    """Addresses of a tensor's first byte, and of the end of its last."""
    extents = tensor.shape[: tensor.ndim]
    if not all(extents):
        return 0, 0
    reaches = [(extent - 1) * step for extent, step in zip(extents, _steps(tensor), strict=True)]
    begin, bits = tensor.data + tensor.offset, tensor.bits * tensor.lanes
    first, last = sum(min(reach, 0) for reach in reaches), 1 + sum(max(reach, 0) for reach in reaches)
    return begin + first * bits // 8, begin + (last * bits + 7) // 8


def _steps(tensor: _Tensor) -> list[int]:
    """Elements from each index to the next, along each axis; without strides the last axis is the innermost."""
    extents = tensor.shape[: tensor.ndim]
    return (
        tensor.strides[: tensor.ndim]
        if tensor.strides
        else [math.prod(extents[at + 1 :]) for at in range(len(extents))]
    )
