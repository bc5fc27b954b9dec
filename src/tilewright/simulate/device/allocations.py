"""Driver calls for memory: device, managed, pinned and mapped; copies; attributes of pointers.

Managed and pinned memory is in the device's arena, at one address for host and device. Registered host memory has a
copy there, which is synchronised before and after each use of device memory.

Source: CUDA Driver API, "Memory Management" and "Unified Addressing".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.simulate.device.contexts import PRIMARY, binding
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.device.graphs import submit
from tilewright.simulate.device.pending_work import LEGACY, Task, UsedBytes
from tilewright.simulate.observer import ArgumentFact

#: Flags of pinned memory: portable, device map and write-combined.
_HOST_FLAGS = 7
#: Directions of a copy. Source: CUDA Runtime API, `cudaMemcpyKind`.
TO_DEVICE, TO_HOST, ON_DEVICE, ANYWHERE = range(1, 5)
#: Largest alignment of most structures. Source: CUDA C++ Programming Guide, "Built-in Vector Types".
_PIECE_BYTES = 16


def cuMemGetInfo(gpu: SimulatedGpu) -> tuple[int, int]:
    """Free and total bytes."""
    gpu.require_context()
    return gpu.memory.capacity_bytes - gpu.memory.allocated_bytes, gpu.memory.capacity_bytes


def cuMemAlloc(gpu: SimulatedGpu, size: int) -> Any:
    """Device memory."""
    return binding().CUdeviceptr(gpu.allocate(int(size)))


def cuMemAllocManaged(gpu: SimulatedGpu, size: int, flags: int) -> Any:
    """Memory that host and device share."""
    return binding().CUdeviceptr(gpu.allocate(int(size), host_visible=True))


def cuMemFree(gpu: SimulatedGpu, pointer: Any) -> None:
    """Free device or managed memory; 0 has no effect, and a graph's memory lives as long as a graph uses it."""
    if int(pointer) and not gpu.graphs.give_back(int(pointer)):
        gpu.free(int(pointer))


def cuMemAllocAsync(gpu: SimulatedGpu, size: int, stream: Any) -> Any:
    """Device memory, in a stream; if that is captured, it belongs to the graph."""
    gpu.stream(int(stream))
    address, capture = gpu.allocate(int(size)), gpu.graphs.captured(int(stream))
    if capture is not None:
        capture.add(int(stream), gpu.graphs.allocated(capture.graph, address), "memory")
    return binding().CUdeviceptr(address)


def cuMemFreeAsync(gpu: SimulatedGpu, pointer: Any, stream: Any) -> None:
    """Free device memory, in a stream; if that is captured, memory of a graph."""
    gpu.stream(int(stream))
    capture = gpu.graphs.captured(int(stream))
    if capture is None or not int(pointer):
        cuMemFree(gpu, pointer)
    else:
        capture.add(int(stream), gpu.graphs.freed(capture.graph, int(pointer)), "free")


def cuMemHostAlloc(gpu: SimulatedGpu, size: int, flags: int) -> int:
    """Pinned host memory, which the device accesses at the same address."""
    if int(flags) & ~_HOST_FLAGS:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    address = gpu.allocate(int(size), host_visible=True)
    gpu.pinned[address] = int(flags)
    return address


def cuMemFreeHost(gpu: SimulatedGpu, pointer: Any) -> None:
    """Free pinned host memory."""
    gpu.free(int(pointer))


def cuMemHostRegister(gpu: SimulatedGpu, pointer: Any, size: int, flags: int) -> None:
    """Pin existing host memory, and map it if requested."""
    gpu.require_context()
    start, end = int(pointer), int(pointer) + int(size)
    if not start or start == end:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    if any(start < host + found.size_bytes and host < end for host, found in gpu.registered.copy().items()):
        raise DriverError("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED")
    gpu.host.register(gpu, start, int(size), mapped=bool(int(flags) & binding().CU_MEMHOSTREGISTER_DEVICEMAP))


def cuMemHostUnregister(gpu: SimulatedGpu, pointer: Any) -> None:
    """Undo a registration."""
    found = gpu.host.unregister(int(pointer))
    if found is None:
        raise DriverError("CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED")
    if found.allocation:
        gpu.free(found.allocation)


def cuMemHostGetDevicePointer(gpu: SimulatedGpu, pointer: Any, flags: int) -> Any:
    """The device address of host memory."""
    return binding().CUdeviceptr(device_address(gpu, int(pointer)))


def device_address(gpu: SimulatedGpu, address: int) -> int:
    """The device address for an address of host or device memory.

    Raises DriverError: the device cannot access it.
    """
    if gpu.memory.extent(address):
        return address
    found = registered_at(gpu, address)
    if found is None or not gpu.registered[found].address:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return gpu.registered[found].address + address - found


def registered_at(gpu: SimulatedGpu, address: int) -> int | None:
    """The start of the registered host memory that contains an address; None if none does."""
    known = gpu.registered.copy().items()
    return next((host for host, found in known if host <= address < host + found.size_bytes), None)


def cuMemGetAddressRange(gpu: SimulatedGpu, pointer: Any) -> tuple[Any, int]:
    """The allocation that a pointer points into: its address and bytes."""
    gpu.refuse_ended(int(pointer))
    extent = gpu.memory.extent(int(pointer))
    if extent is None:
        raise DriverError("CUDA_ERROR_NOT_FOUND")
    return binding().CUdeviceptr(extent[0]), extent[1]


def cuPointerGetAttribute(gpu: SimulatedGpu, attribute: Any, pointer: Any) -> Any:
    """An attribute of a pointer."""
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
    copy(gpu, target, source, size, TO_DEVICE)


def cuMemcpyDtoH(gpu: SimulatedGpu, target: Any, source: Any, size: int) -> None:
    """Copy to the host."""
    copy(gpu, target, source, size, TO_HOST)


def cuMemcpyDtoD(gpu: SimulatedGpu, target: Any, source: Any, size: int) -> None:
    """Copy on the device; the host does not wait."""
    copy_in(gpu, LEGACY, target, source, size, ON_DEVICE)


def cuMemsetD8(gpu: SimulatedGpu, target: Any, value: int, count: int) -> None:
    """Set bytes on the device; the host waits if it shares them."""
    cuMemsetD8Async(gpu, target, value, count, LEGACY)
    if _pinned(gpu, int(target)):
        gpu.outstanding.synchronised(LEGACY)


def cuMemcpyHtoDAsync(gpu: SimulatedGpu, target: Any, source: Any, size: int, stream: Any) -> None:
    """Copy from the host, in a stream."""
    copy_in(gpu, stream, target, source, size, TO_DEVICE)


def cuMemcpyDtoHAsync(gpu: SimulatedGpu, target: Any, source: Any, size: int, stream: Any) -> None:
    """Copy to the host, in a stream."""
    copy_in(gpu, stream, target, source, size, TO_HOST)


def cuMemcpyDtoDAsync(gpu: SimulatedGpu, target: Any, source: Any, size: int, stream: Any) -> None:
    """Copy on the device, in a stream."""
    copy_in(gpu, stream, target, source, size, ON_DEVICE)


def cuMemsetD8Async(gpu: SimulatedGpu, target: Any, value: int, count: int, stream: Any) -> None:
    """Set bytes on the device, in a stream."""
    set_in(gpu, stream, int(target), bytes([int(value) & 0xFF]), count)


def cuMemsetD16Async(gpu: SimulatedGpu, target: Any, value: int, count: int, stream: Any) -> None:
    """Set 16-bit words on the device, in a stream."""
    set_in(gpu, stream, int(target), (int(value) & 0xFFFF).to_bytes(2, "little"), count)


def cuMemsetD32Async(gpu: SimulatedGpu, target: Any, value: int, count: int, stream: Any) -> None:
    """Set 32-bit words on the device, in a stream."""
    set_in(gpu, stream, int(target), (int(value) & 0xFFFFFFFF).to_bytes(4, "little"), count)


def copy(gpu: SimulatedGpu, target: Any, source: Any, size: int, kind: int) -> None:
    """Copy bytes, and wait."""
    copy_in(gpu, LEGACY, target, source, size, kind)
    gpu.outstanding.synchronised(LEGACY)


def copy_in(gpu: SimulatedGpu, stream: Any, target: Any, source: Any, size: int, kind: int) -> None:
    """Copy bytes in a stream; the host waits if the target is its own memory and not pinned."""
    gpu.require_context()

    def work(where: int) -> None:
        copied(gpu, target, source, size, kind)
        copy_queued(gpu, where, int(target), int(source), size, kind)

    submit(gpu, int(stream), work, "copy")


def copy_queued(gpu: SimulatedGpu, stream: int, target: int, source: int, size: int, kind: int) -> None:
    """Record a copy as a new task of a stream."""
    if not gpu.outstanding.pending and not gpu.host_races:
        return
    to_device, from_device = (gpu.memory.extent(address) is not None for address in (target, source))
    to_host = kind == TO_HOST or not to_device
    what = "to the host" if to_host else "on the device" if from_device and kind != TO_DEVICE else "to the device"
    _queued(gpu, stream, f"copy {what}", (source, size), (target, size))
    if to_host and not _pinned(gpu, target):
        gpu.outstanding.synchronised(stream)


def set_in(gpu: SimulatedGpu, stream: Any, target: int, word: bytes, count: int) -> None:
    """Set words on the device, in a stream.

    Raises DriverError: the words are not aligned.
    """
    gpu.require_context()
    if target % len(word):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", f"words of {len(word)} bytes must be aligned (got {target:#x})")

    def work(where: int) -> None:
        filled(gpu, target, word, count)
        set_queued(gpu, where, int(target), len(word) * count)

    submit(gpu, int(stream), work, "set")


def set_queued(gpu: SimulatedGpu, stream: int, target: int, size: int) -> None:
    """Record a setting of bytes as a new task of a stream."""
    _queued(gpu, stream, "setting of bytes", None, (target, size))


def copied(gpu: SimulatedGpu, target: Any, source: Any, size: int, kind: int) -> None:
    """Copy bytes between host and device memory; a copy of a NumPy array stays within the array.

    Raises DriverError: a range leaves its allocation, or the direction requires device memory and the address has none.
    """
    if not size:
        return
    to_device = _ends(gpu, int(target), size, int(source), size, kind)
    size_there = min(getattr(source, "readable_bytes", size), getattr(target, "writable_bytes", size))
    with gpu.host.in_step():
        gpu.host.move(int(target), int(source), min(size, size_there))
    if to_device:
        gpu.wrote(int(target), size)
    else:
        _host_read(gpu, int(source), size, size, 1)


def copied_rows(
    gpu: SimulatedGpu, target: int, target_step: int, source: int, source_step: int, width: int, height: int, kind: int
) -> None:
    """Copy rows of bytes; the steps are distances between rows.

    Raises DriverError: as `copied`, or rows are longer than the distance between them.
    """
    if width > min(target_step, source_step):
        raise DriverError("cudaErrorInvalidPitchValue", "rows are longer than the distance between them")
    if not width or not height:
        return
    last = height - 1
    to_device = _ends(gpu, target, target_step * last + width, source, source_step * last + width, kind)
    with gpu.host.in_step():
        gpu.host.move_rows(target, target_step, source, source_step, width, height)
    for row in range(height if to_device else 0):
        gpu.wrote(target + row * target_step, width)
    if not to_device:
        _host_read(gpu, source, source_step, width, height)


def _host_read(gpu: SimulatedGpu, source: int, step: int, width: int, height: int) -> None:
    """Tell observers that a program copied rows of device memory to the host.

    The elements' type is unknown. The elements are taken for pieces of the largest size, up to 16 bytes, that divides
    the rows: at least as large as the alignment of the program's structures, whose padding nothing writes.
    """
    extent = gpu.memory.extent(source)
    if not gpu.observers or not gpu.host.copies_bytes or extent is None or extent[0] in gpu.host_visible:
        return
    piece = math.gcd(_PIECE_BYTES, width, step)
    rows = (height,) if height > 1 else ()
    fact = ArgumentFact("", np.dtype((np.void, piece)), (*rows, width // piece), (*[step] * len(rows), piece), source)
    for observer in gpu.observers:
        observer.host_reads(fact, gpu.line())


def filled(gpu: SimulatedGpu, target: int, word: bytes, count: int) -> None:
    """Set words on the device.

    Raises DriverError: they are not inside one allocation.
    """
    if not count:
        return
    size = len(word) * count
    place = target if registered_at(gpu, target) is None else device_address(gpu, target)
    gpu.check_range(place, size, "what is set")
    with gpu.host.in_step():
        if len(set(word)) == 1:
            gpu.host.fill(place, word[0], size)
        else:
            gpu.host.write(place, word * count)
    gpu.wrote(place, size)


def filled_rows(gpu: SimulatedGpu, target: int, step: int, word: bytes, width: int, height: int) -> None:
    """Set rows of `width` words; the step is the distance between rows.

    Raises DriverError: as `filled`, or rows are longer than the distance between them.
    """
    if not width or not height:
        return
    bytes_ = width * len(word)
    if height > 1 and bytes_ > step:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "rows are longer than the distance between them")
    gpu.check_range(target, step * (height - 1) + bytes_, "what is set")
    for row in range(height):
        filled(gpu, target + row * step, word, width)


def _ends(gpu: SimulatedGpu, target: int, size: int, source: int, source_size: int, kind: int) -> bool:
    """Reject ends of a copy that must be device memory and are not; return whether the target is on the device."""
    if not 0 <= kind <= ANYWHERE:
        raise DriverError("cudaErrorInvalidMemcpyDirection")
    ends = ("source", source, source_size, (TO_HOST, ON_DEVICE)), ("target", target, size, (TO_DEVICE, ON_DEVICE))
    for what, address, bytes_, kinds in ends:
        if kind == ANYWHERE:
            gpu.refuse_ended(address)
        on_device = gpu.memory.extent(address) is not None
        if on_device or (kind in kinds and registered_at(gpu, address) is None):
            gpu.check_range(address, bytes_, f"a copy's {what}")
    return on_device


def _shared(gpu: SimulatedGpu, address: int) -> bool:
    """Whether an address is in memory that host and device share."""
    return (gpu.memory.extent(address) or (0, 0))[0] in gpu.host_visible


def _pinned(gpu: SimulatedGpu, address: int) -> bool:
    """Whether a copy to a host address returns before it is done, which only holds for pinned memory."""
    return _shared(gpu, address) or registered_at(gpu, address) is not None


def _queued(gpu: SimulatedGpu, stream: Any, what: str, reads: tuple[int, int] | None, writes: tuple[int, int]) -> None:
    """Record a new task of a stream; each range is an address and a size."""
    gpu.outstanding.latest.pop(int(stream), None)
    if not gpu.host_races:
        return
    read, written = (
        (UsedBytes.whole(*one),) if one is not None and one[1] > 0 and _shared(gpu, one[0]) else ()
        for one in (reads, writes)
    )
    task = Task(f"the {what}", "", gpu.line(), read, written) if read or written else None
    gpu.outstanding.queued(int(stream), task)
