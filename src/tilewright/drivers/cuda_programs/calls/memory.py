"""Calls about memory: device, managed, pinned, mapped, from pools; copies, symbols, and what a pointer is.

Device memory is mapped in the program at its own addresses, so the program's own side does what copies ask for; here
ranges are checked and observers hear of them. Registered host memory becomes device memory where it lies.

Source: CUDA Runtime API, "Memory Management", "Unified Addressing", "Stream Ordered Memory Allocator".
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from tilewright.drivers.cuda_programs.arrays import array_of
from tilewright.drivers.cuda_programs.errors import LaunchFailedError
from tilewright.drivers.cuda_programs.graph import Work
from tilewright.drivers.cuda_programs.protocol import Caller
from tilewright.drivers.gpu import DriverError
from tilewright.machine.sizes import size_text
from tilewright.simt.translate.state import GLOBAL_BASE, SLACK_BYTES

#: Rows of pitched memory begin at multiples of it. Source: CUDA Runtime API, `cudaMallocPitch`; measured as 512.
_PITCH = 512
_DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 2, 3


def cudaMallocHost(call: Caller, pointer: int, size: int) -> None:
    """Pinned host memory, which the device reaches at the same address."""
    call.pack("Q", pointer, call.gpu.allocate(size, host_visible=True) if size else 0)


def cudaHostAlloc(call: Caller, pointer: int, size: int, flags: int) -> None:
    """Pinned host memory, which the device reaches at the same address."""
    cudaMallocHost(call, pointer, size)
    call.runtime.notes["host flags"] = flags


def cudaMallocPitch(call: Caller, pointer: int, pitch: int, width: int, height: int) -> None:
    """Rows of device memory that begin at good addresses."""
    step = -(-width // _PITCH) * _PITCH
    call.pack("Q", pointer, call.gpu.allocate(step * height) if step * height else 0)
    call.pack("Q", pitch, step)


def cudaMalloc3D(call: Caller, pitched: int, extent: tuple[int, int, int]) -> None:
    """Rows of planes of device memory that begin at good addresses."""
    width, height, depth = extent
    step = -(-width // _PITCH) * _PITCH
    size = step * height * depth
    call.pack("4Q", pitched, call.gpu.allocate(size) if size else 0, step, width, height)


def cudaFree(call: Caller, pointer: int) -> None:
    """Give device or managed memory back; 0 is nothing, and a graph's memory is there while a graph names it."""
    if pointer in call.runtime.graph_memory:
        call.runtime.graph_memory[pointer] = False
        call.runtime.graph_memory_unused(pointer)
    elif pointer:
        call.gpu.free(pointer)


def cudaFreeHost(call: Caller, pointer: int) -> None:
    """Give pinned host memory back."""
    cudaFree(call, pointer)


def cudaMallocAsync(call: Caller, pointer: int, size: int, stream: int) -> None:
    """Device memory, in a stream."""
    call.gpu.stream(stream)
    address = call.gpu.allocate(size) if size else 0
    graph = call.runtime.captures.get(stream)
    if graph is not None and address:
        graph.note(call.gpu.new_handle(), memory_left(address, allocated=True), "memory")
        graph.memory.add(address)
        call.runtime.graph_memory[address] = False
    call.pack("Q", pointer, address)


def memory_left(address: int, *, allocated: bool) -> Work:
    """A graph's work that notes whether a launch leaves memory allocated."""

    def work(now: Caller) -> None:
        now.runtime.graph_memory[address] = allocated

    return work


def cudaMallocFromPoolAsync(call: Caller, pointer: int, size: int, pool: int, stream: int) -> None:
    """Device memory from a pool, in a stream."""
    cudaMallocAsync(call, pointer, size, stream)


def cudaFreeAsync(call: Caller, pointer: int, stream: int) -> None:
    """Give device memory back, in a stream."""
    if stream in call.runtime.captures and pointer in call.runtime.graph_memory:
        call.runtime.captures[stream].memory.add(pointer)
    call.runtime.submit(call, stream, lambda now: cudaFree(now, pointer), "empty")


def cudaDeviceGetDefaultMemPool(call: Caller, pool: int, device: int) -> None:
    """The device's own pool."""
    call.pack("Q", pool, 1)


def cudaDeviceGetMemPool(call: Caller, pool: int, device: int) -> None:
    """The pool that memory comes from."""
    call.pack("Q", pool, call.runtime.notes.get("pool", 1))


def cudaDeviceSetMemPool(call: Caller, device: int, pool: int) -> None:
    """Choose the pool that memory comes from."""
    call.runtime.notes["pool"] = pool


def cudaMemPoolCreate(call: Caller, pool: int, properties: int) -> None:
    """A pool: memory comes from the device all the same."""
    call.pack("Q", pool, call.gpu.new_handle())


def cudaMemPoolSetAttribute(call: Caller, pool: int, attribute: int, value: int) -> None:
    """Set an attribute, which is given again."""
    call.runtime.pools.setdefault(pool, {})[attribute] = call.unpacked("Q" if attribute > 3 else "i", value)


def cudaMemPoolGetAttribute(call: Caller, pool: int, attribute: int, value: int) -> None:
    """An attribute as it was set; of bytes in use those of the device."""
    used = call.gpu.memory.allocated_bytes if attribute > 4 else attribute < 4
    known = call.runtime.pools.get(pool, {}).get(attribute, used)
    call.pack("Q" if attribute > 3 else "i", value, known)


# -- host memory ------------------------------------------------------------------------------------------------


def cudaHostRegister(call: Caller, pointer: int, size: int, flags: int) -> None:
    """Pin host memory of the program's own: its pages become device memory, where they are."""
    if not pointer or not size:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    if any(start < pointer + size and pointer < start + count for start, (_, _, count) in _spans(call)):
        raise DriverError("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED")
    first = pointer // mmap.PAGESIZE * mmap.PAGESIZE
    whole = -(-(pointer + size - first) // mmap.PAGESIZE) * mmap.PAGESIZE
    given = call.gpu.allocate(whole + mmap.PAGESIZE, host_visible=True)
    address = -(-given // mmap.PAGESIZE) * mmap.PAGESIZE
    call.share(first, address - GLOBAL_BASE + SLACK_BYTES, whole)
    call.runtime.registered[pointer] = first, address, whole
    call.runtime.notes["registered", pointer] = given


def _spans(call: Caller) -> list[tuple[int, tuple[int, int, int]]]:
    return [(first, (first, address, whole)) for first, address, whole in call.runtime.registered.values()]


def cudaHostUnregister(call: Caller, pointer: int) -> None:
    """Undo a registration."""
    if pointer not in call.runtime.registered:
        raise DriverError("CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED")
    first, _, whole = call.runtime.registered.pop(pointer)
    call.unshare(first, whole)
    call.read(GLOBAL_BASE, 8)  # it is done before the memory is given back
    call.gpu.free(call.runtime.notes.pop(("registered", pointer)))


def cudaHostGetDevicePointer(call: Caller, device: int, pointer: int, flags: int) -> None:
    """Where the device reaches host memory."""
    call.pack("Q", device, device_address(call, pointer))


def cudaHostGetFlags(call: Caller, flags: int, pointer: int) -> None:
    """How host memory was allocated."""
    call.pack("I", flags, call.runtime.notes.get("host flags", 0) | 2)  # cudaHostAllocMapped


def device_address(call: Caller, pointer: int) -> int:
    """Where the device reaches an address of the program's.

    Raises DriverError: nowhere.
    """
    if call.gpu.memory.extent(pointer) is not None:
        return pointer
    for first, address, whole in call.runtime.registered.values():
        if first <= pointer < first + whole:
            return address + pointer - first
    raise DriverError("CUDA_ERROR_INVALID_VALUE")


#: Bytes of `cudaPointerAttributes`: type, device, the two pointers, reserved words.
_ATTRIBUTES = "2i2Q8q"
_UNREGISTERED, _HOST, _DEVICE, _MANAGED = range(4)


def cudaPointerGetAttributes(call: Caller, attributes: int, pointer: int) -> None:
    """What a pointer points to."""
    extent = call.gpu.memory.extent(pointer)
    registered = any(first <= pointer < first + whole for first, _, whole in call.runtime.registered.values())
    if registered:
        kind, device, host = _HOST, device_address(call, pointer), pointer
    elif extent is None:
        kind, device, host = _UNREGISTERED, 0, pointer
    elif extent[0] in call.gpu.host_visible:
        kind, device, host = call.runtime.notes.get(("kind", extent[0]), _MANAGED), pointer, pointer
    else:
        kind, device, host = _DEVICE, pointer, 0
    call.pack("2i2Q", attributes, kind, 0 if kind else -2, device, host)


def cudaMemAdvise(call: Caller, pointer: int, size: int, advice: int, location: tuple[int, int]) -> None:
    """Advise where memory should lie, which changes nothing here."""
    call.gpu.check_range(pointer, size)


def cudaMemPrefetchAsync(
    call: Caller, pointer: int, size: int, location: tuple[int, int], flags: int, stream: int
) -> None:
    """Move managed memory early, which changes nothing here."""
    call.gpu.stream(stream)
    call.gpu.check_range(pointer, size)


# -- copies -----------------------------------------------------------------------------------------------------


def copied(call: Caller, target: int, source: int, size: int, kind: int) -> None:
    """Copy bytes, of which each end may be the device's.

    Raises DriverError: a range goes beyond its allocation, or the direction names device memory that is none.
    """
    if not size:
        return
    if kind > 4:
        raise DriverError("cudaErrorInvalidMemcpyDirection")
    _check(call, source, size, device=kind in (_DEVICE_TO_HOST, _DEVICE_TO_DEVICE), what="source")
    on_device = _check(call, target, size, device=kind in (1, _DEVICE_TO_DEVICE), what="target")
    call.move(target, source, size)
    if on_device:
        call.gpu.wrote(target, size)


def _check(call: Caller, address: int, size: int, *, device: bool, what: str) -> bool:
    """Whether a range is the device's; refuses one that should be and is not, or goes beyond its allocation."""
    extent = call.gpu.memory.extent(address)
    if extent is None:
        if device and not any(f <= address < f + n for f, _, n in call.runtime.registered.values()):
            raise LaunchFailedError(
                "CUDA_ERROR_INVALID_VALUE", f"a copy's {what} must be device memory (got address {address:#x})"
            )
        return False
    if address + size > sum(extent):
        raise LaunchFailedError(
            "CUDA_ERROR_INVALID_VALUE",
            f"a copy's {what} must lie in one allocation (got {size_text(size)} from byte {address - extent[0]:,} on, "
            f"of one of {size_text(extent[1])})",
        )
    return True


def cudaMemcpy(call: Caller, target: int, source: int, size: int, kind: int) -> None:
    """Copy bytes."""
    copied(call, target, source, size, kind)


def cudaMemcpyAsync(call: Caller, target: int, source: int, size: int, kind: int, stream: int) -> None:
    """Copy bytes, in a stream."""
    call.runtime.submit(call, stream, lambda now: copied(now, target, source, size, kind), "copy")
    pinned = any(first <= target < first + bytes_ for first, _, bytes_ in call.runtime.registered.values())
    if stream not in call.runtime.captures and not pinned and call.gpu.memory.extent(target) is None:
        call.gpu.outstanding.synchronised(stream)  # the call returns when the copy is done


def cudaMemcpyPeer(call: Caller, target: int, to: int, source: int, of: int, size: int) -> None:
    """Copy bytes from device to device: there is one."""
    copied(call, target, source, size, _DEVICE_TO_DEVICE)


def cudaMemcpyPeerAsync(call: Caller, target: int, to: int, source: int, of: int, size: int, stream: int) -> None:
    """Copy bytes from device to device, in a stream."""
    cudaMemcpyAsync(call, target, source, size, _DEVICE_TO_DEVICE, stream)


def cudaMemcpy2D(
    call: Caller, target: int, target_step: int, source: int, source_step: int, width: int, height: int, kind: int
) -> None:
    """Copy rows."""
    if width > target_step or width > source_step:
        raise DriverError("cudaErrorInvalidPitchValue")
    if not width or not height:
        return
    ends = (source, source_step, "source", (2, 3)), (target, target_step, "target", (1, 3))
    for address, step, what, kinds in ends:
        on_device = _check(call, address, step * (height - 1) + width, device=kind in kinds, what=what)
    call.move_rows(target, target_step, source, source_step, width, height)
    if on_device:
        for row in range(height):
            call.gpu.wrote(target + row * target_step, width)


def cudaMemcpy2DAsync(
    call: Caller, target: int, target_step: int, source: int, source_step: int, width: int, height: int, kind: int,
    stream: int,
) -> None:  # fmt: skip
    """Copy rows, in a stream."""
    call.runtime.submit(
        call, stream, lambda now: cudaMemcpy2D(now, target, target_step, source, source_step, width, height, kind),
        "copy",
    )  # fmt: skip


_COPY_3D = "Q3Q4QQ3Q4Q3Qi4x"


def cudaMemcpy3D(call: Caller, parameters: int) -> None:
    """Copy rows of planes."""
    moved_3d(call, call.unpacked(_COPY_3D, parameters))


def cudaMemcpy3DAsync(call: Caller, parameters: int, stream: int) -> None:
    """Copy rows of planes, in a stream."""
    values = call.unpacked(_COPY_3D, parameters)
    call.runtime.submit(call, stream, lambda now: moved_3d(now, values), "copy")


def moved_3d(call: Caller, parameters: Sequence[int]) -> None:
    """Copy what `cudaMemcpy3DParms` says.

    Where an array is among it, the extent counts elements; offsets in an array always do.

    Raises DriverError: there is no such array, or a range goes beyond its allocation.
    """
    width, height, depth, kind = parameters[16:]
    source, source_size, at = _side(call, parameters[0], parameters[4:8], parameters[1:4])
    target, target_size, to = _side(call, parameters[8], parameters[12:16], parameters[9:12])
    width *= max(source_size, target_size)
    for plane in range(depth):
        sides = [
            side[0] + ((offset[2] + plane) * side[3] + offset[1]) * side[1] + offset[0]
            for side, offset in ((target, to), (source, at))
        ]
        cudaMemcpy2D(call, sides[0], target[1], sides[1], source[1], width, height, kind)


def _side(
    call: Caller, array: int, pitched: Sequence[int], offset: Sequence[int]
) -> tuple[Sequence[int], int, Sequence[int]]:
    """One side of a copy: its memory as pitched memory, the bytes of an element, and the offset in bytes.

    Pitched memory has an address, the bytes of a row, a width that copies do not use, and the rows of a plane. Only an
    `array` (a handle, 0 for none) counts its offset in elements.
    """
    if not array:
        return pitched, 1, offset
    of = array_of(call, array)
    place = (of.address, of.row_bytes, 0, max(of.extent[1], 1))
    return place, of.element_bytes, (offset[0] * of.element_bytes, *offset[1:])


def cudaMemset(call: Caller, pointer: int, value: int, size: int) -> None:
    """Set bytes."""
    if size:
        if not _check(call, pointer, size, device=True, what="target"):
            pointer = device_address(call, pointer)
        call.fill(pointer, value, size)
        call.gpu.wrote(pointer, size)


def cudaMemsetAsync(call: Caller, pointer: int, value: int, size: int, stream: int) -> None:
    """Set bytes, in a stream."""
    call.runtime.submit(call, stream, lambda now: cudaMemset(now, pointer, value, size), "set")


def cudaMemset2D(call: Caller, pointer: int, step: int, value: int, width: int, height: int) -> None:
    """Set bytes of rows."""
    for row in range(height):
        cudaMemset(call, pointer + row * step, value, width)


def cudaMemset2DAsync(call: Caller, pointer: int, step: int, value: int, width: int, height: int, stream: int) -> None:
    """Set bytes of rows, in a stream."""
    call.runtime.submit(call, stream, lambda now: cudaMemset2D(now, pointer, step, value, width, height), "set")


def cudaMemset3D(call: Caller, pitched: tuple[int, ...], value: int, extent: tuple[int, int, int]) -> None:
    """Set bytes of planes."""
    address, step, _, rows = pitched
    width, height, depth = extent
    for plane in range(depth):
        cudaMemset2D(call, address + plane * step * rows, step, value, width, height)


# -- symbols ----------------------------------------------------------------------------------------------------


def cudaGetSymbolAddress(call: Caller, pointer: int, symbol: int) -> None:
    """A variable's address on the device."""
    call.pack("Q", pointer, call.runtime.variable(symbol)[0])


def cudaGetSymbolSize(call: Caller, size: int, symbol: int) -> None:
    """A variable's bytes."""
    call.pack("Q", size, call.runtime.variable(symbol)[1])


def cudaMemcpyToSymbol(call: Caller, symbol: int, source: int, size: int, offset: int, kind: int) -> None:
    """Copy bytes into a variable."""
    address, whole = call.runtime.variable(symbol)
    _fits(whole, offset, size)
    if size:
        _check(call, source, size, device=kind == _DEVICE_TO_DEVICE, what="source")
        call.move(address + offset, source, size)
        call.gpu.wrote(address + offset, size)


def cudaMemcpyToSymbolAsync(
    call: Caller, symbol: int, source: int, size: int, offset: int, kind: int, stream: int
) -> None:
    """Copy bytes into a variable, in a stream."""
    call.runtime.submit(call, stream, lambda now: cudaMemcpyToSymbol(now, symbol, source, size, offset, kind), "copy")


def cudaMemcpyFromSymbol(call: Caller, target: int, symbol: int, size: int, offset: int, kind: int) -> None:
    """Copy bytes from a variable."""
    address, whole = call.runtime.variable(symbol)
    _fits(whole, offset, size)
    if size:
        if _check(call, target, size, device=kind == _DEVICE_TO_DEVICE, what="target"):
            call.gpu.wrote(target, size)
        call.move(target, address + offset, size)


def cudaMemcpyFromSymbolAsync(
    call: Caller, target: int, symbol: int, size: int, offset: int, kind: int, stream: int
) -> None:
    """Copy bytes from a variable, in a stream."""
    call.runtime.submit(call, stream, lambda now: cudaMemcpyFromSymbol(now, target, symbol, size, offset, kind), "copy")


def _fits(whole: int, offset: int, size: int) -> None:
    if offset + size > whole:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
