"""Driver calls about memory: device, managed, pinned and mapped, copies between them, and questions about pointers.

Managed and pinned memory lie in the device's arena, at one address for both sides. Registered host memory has a copy
there, which is brought into step around everything that uses device memory.

Source: CUDA Driver API, "Memory Management" and "Unified Addressing".
"""

from __future__ import annotations

import ctypes
from typing import Any

from tilewright.drivers.contexts import PRIMARY, binding
from tilewright.drivers.gpu import DriverError, Registered, SimulatedGpu
from tilewright.drivers.internal_code import source_line
from tilewright.drivers.outstanding import LEGACY, Task, UsedBytes


def cuMemGetInfo(gpu: SimulatedGpu) -> tuple[int, int]:
    """Free and all bytes."""
    gpu.require_context()
    return gpu.memory.capacity_bytes - gpu.memory.allocated_bytes, gpu.memory.capacity_bytes


def cuMemAlloc(gpu: SimulatedGpu, size: int) -> Any:
    """Device memory."""
    return binding().CUdeviceptr(gpu.allocate(int(size)))


def cuMemAllocManaged(gpu: SimulatedGpu, size: int, flags: int) -> Any:
    """Memory that host and device share."""
    return binding().CUdeviceptr(gpu.allocate(int(size), host_visible=True))


def cuMemFree(gpu: SimulatedGpu, pointer: Any) -> None:
    """Give device or managed memory back; 0 is nothing."""
    if int(pointer):
        gpu.free(int(pointer))


def cuMemAllocAsync(gpu: SimulatedGpu, size: int, stream: Any) -> Any:
    """Device memory, in a stream."""
    gpu.stream(int(stream))
    return cuMemAlloc(gpu, size)


def cuMemFreeAsync(gpu: SimulatedGpu, pointer: Any, stream: Any) -> None:
    """Give device memory back, in a stream."""
    gpu.stream(int(stream))
    cuMemFree(gpu, pointer)


def cuMemHostAlloc(gpu: SimulatedGpu, size: int, flags: int) -> int:
    """Pinned host memory, which the device reaches at the same address."""
    address = gpu.allocate(int(size), host_visible=True)
    gpu.pinned.add(address)
    return address


def cuMemFreeHost(gpu: SimulatedGpu, pointer: Any) -> None:
    """Give pinned host memory back."""
    gpu.free(int(pointer))


def cuMemHostRegister(gpu: SimulatedGpu, pointer: Any, size: int, flags: int) -> None:
    """Pin host memory of one's own, and map it where that is asked for."""
    gpu.require_context()
    start, end = int(pointer), int(pointer) + int(size)
    if any(start < host + found.size_bytes and host < end for host, found in gpu.registered.copy().items()):
        raise DriverError("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED")
    mapped = int(flags) & binding().CU_MEMHOSTREGISTER_DEVICEMAP
    address = gpu.allocate(int(size), host_visible=True) if mapped else 0
    gpu.registered[start] = Registered(int(size), address)


def cuMemHostUnregister(gpu: SimulatedGpu, pointer: Any) -> None:
    """Undo a registration."""
    found = gpu.registered.pop(int(pointer), None)
    if found is None:
        raise DriverError("CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED")
    if found.address:
        gpu.free(found.address)


def cuMemHostGetDevicePointer(gpu: SimulatedGpu, pointer: Any, flags: int) -> Any:
    """Where the device reaches host memory."""
    address = int(pointer)
    if gpu.memory.extent(address):
        return binding().CUdeviceptr(address)
    for host, found in gpu.registered.copy().items():
        if found.address and host <= address < host + found.size_bytes:
            return binding().CUdeviceptr(found.address + address - host)
    raise DriverError("CUDA_ERROR_INVALID_VALUE")


def cuMemGetAddressRange(gpu: SimulatedGpu, pointer: Any) -> tuple[Any, int]:
    """The allocation that a pointer points into: its address and bytes."""
    gpu.refuse_ended(int(pointer))
    extent = gpu.memory.extent(int(pointer))
    if extent is None:
        raise DriverError("CUDA_ERROR_NOT_FOUND")
    return binding().CUdeviceptr(extent[0]), extent[1]


def cuPointerGetAttribute(gpu: SimulatedGpu, attribute: Any, pointer: Any) -> Any:
    """What is known of a pointer."""
    address = int(pointer)
    gpu.refuse_ended(address)
    names = binding().CUpointer_attribute
    if gpu.memory.extent(address) is None:
        if attribute == names.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return cuMemHostGetDevicePointer(gpu, address, 0)
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    extent = gpu.memory.extent(address) or (0, 0)
    answers = {
        names.CU_POINTER_ATTRIBUTE_CONTEXT: binding().CUcontext(PRIMARY),
        names.CU_POINTER_ATTRIBUTE_MEMORY_TYPE: binding().CUmemorytype.CU_MEMORYTYPE_DEVICE,
        names.CU_POINTER_ATTRIBUTE_DEVICE_POINTER: binding().CUdeviceptr(address),
        names.CU_POINTER_ATTRIBUTE_HOST_POINTER: address,
        names.CU_POINTER_ATTRIBUTE_IS_MANAGED: int(extent[0] in gpu.host_visible),
        names.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: 0,
        names.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: binding().CUdeviceptr(extent[0]),
        names.CU_POINTER_ATTRIBUTE_RANGE_SIZE: extent[1],
    }
    if attribute not in answers:
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED")
    return answers[attribute]


def cuMemcpyHtoD(gpu: SimulatedGpu, target: Any, source: Any, size: int) -> None:
    """Copy from the host."""
    cuMemcpyHtoDAsync(gpu, target, source, size, LEGACY)
    gpu.outstanding.synchronised(LEGACY)


def cuMemcpyDtoH(gpu: SimulatedGpu, target: Any, source: Any, size: int) -> None:
    """Copy to the host."""
    cuMemcpyDtoHAsync(gpu, target, source, size, LEGACY)
    gpu.outstanding.synchronised(LEGACY)


def cuMemcpyDtoD(gpu: SimulatedGpu, target: Any, source: Any, size: int) -> None:
    """Copy on the device, for which the host does not wait."""
    cuMemcpyDtoDAsync(gpu, target, source, size, LEGACY)


def cuMemsetD8(gpu: SimulatedGpu, target: Any, value: int, count: int) -> None:
    """Set bytes on the device; the host waits where they are its own too."""
    cuMemsetD8Async(gpu, target, value, count, LEGACY)
    if _pinned(gpu, int(target)):
        gpu.outstanding.synchronised(LEGACY)


def _check(gpu: SimulatedGpu, stream: Any, *ranges: tuple[Any, int]) -> None:
    """Refuse a stream that there is not, and addresses and bytes that are not the device's."""
    gpu.stream(stream)
    gpu.require_context()
    for address, size in ranges:
        gpu.check_range(int(address), size)


def cuMemcpyHtoDAsync(gpu: SimulatedGpu, target: Any, source: Any, size: int, stream: Any) -> None:
    """Copy from the host, in a stream."""
    _check(gpu, stream, (target, size))
    with gpu.mapped_in_step():
        ctypes.memmove(int(target), int(source), min(size, getattr(source, "readable_bytes", size)))
    gpu.wrote(int(target), size)
    _queued(gpu, stream, "copy to the device", (int(source), size), (int(target), size))


def cuMemcpyDtoHAsync(gpu: SimulatedGpu, target: Any, source: Any, size: int, stream: Any) -> None:
    """Copy to the host, in a stream."""
    _check(gpu, stream, (source, size))
    with gpu.mapped_in_step():
        ctypes.memmove(int(target), int(source), min(size, getattr(target, "writable_bytes", size)))
    _queued(gpu, stream, "copy to the host", (int(source), size), (int(target), size))
    if not _pinned(gpu, int(target)):
        gpu.outstanding.synchronised(int(stream))


def cuMemcpyDtoDAsync(gpu: SimulatedGpu, target: Any, source: Any, size: int, stream: Any) -> None:
    """Copy on the device, in a stream."""
    _check(gpu, stream, (target, size), (source, size))
    with gpu.mapped_in_step():
        ctypes.memmove(int(target), int(source), size)
    gpu.wrote(int(target), size)
    _queued(gpu, stream, "copy on the device", (int(source), size), (int(target), size))


def cuMemsetD8Async(gpu: SimulatedGpu, target: Any, value: int, count: int, stream: Any) -> None:
    """Set bytes on the device, in a stream."""
    _check(gpu, stream, (target, count))
    with gpu.mapped_in_step():
        ctypes.memset(int(target), int(value) & 0xFF, count)
    gpu.wrote(int(target), count)
    _queued(gpu, stream, "setting of bytes", None, (int(target), count))


def _shared(gpu: SimulatedGpu, address: int) -> bool:
    """Whether an address is of memory of both sides."""
    return (gpu.memory.extent(address) or (0, 0))[0] in gpu.host_visible


def _pinned(gpu: SimulatedGpu, address: int) -> bool:
    """Whether copies to an address of the host return before they are done, as those of other memory do not."""
    return _shared(gpu, address) or any(
        host <= address < host + found.size_bytes for host, found in gpu.registered.copy().items()
    )


def _queued(gpu: SimulatedGpu, stream: Any, what: str, reads: tuple[int, int] | None, writes: tuple[int, int]) -> None:
    """Note that a stream got a task; of each range its address and bytes."""
    if not gpu.host_races:
        return
    read, written = (
        (UsedBytes.whole(*one),) if one is not None and one[1] > 0 and _shared(gpu, one[0]) else ()
        for one in (reads, writes)
    )
    task = Task(f"the {what}", "", source_line(), read, written) if read or written else None
    gpu.outstanding.queued(int(stream), task)
