"""Driver calls about memory that programs in C make and numba-cuda does not: pools, rows, words, any direction.

Everything is done when it is asked for, so that memory of a pool is memory. The answers about one range of bytes are
in `allocations`.

Source: CUDA Driver API, "Memory Management", "Stream Ordered Memory Allocator", "Unified Addressing"; `cuda.h`,
`CUDA_MEMCPY2D`.
"""

from __future__ import annotations

import ctypes
import struct

from tilewright.drivers import allocations
from tilewright.drivers.contexts import binding
from tilewright.drivers.gpu import DriverError, SimulatedGpu
from tilewright.drivers.outstanding import LEGACY

#: Bytes to whose multiple rows are padded. Source: as a driver's `cuMemAllocPitch` does on current GPUs.
_PITCH_BYTES = 512
#: The default pool's handle; others follow it.
POOL = 0xB001
#: `CUDA_MEMCPY2D`: of source and target each its offset, row, kind, host, device, array, pitch; then width and height.
_COPY_2D = struct.Struct("<QQI4xQQQQ QQI4xQQQQ QQ".replace(" ", ""))
_HOST, _ARRAY = 1, 3  # CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY
_POOL_WORDS = 4  # attributes up to this number are `int`, the others 64 bits


def cuMemAllocPitch(gpu: SimulatedGpu, width: int, height: int, element: int) -> tuple[int, int]:
    """Device memory of rows, and the bytes from each to the next."""
    pitch = -(-int(width) // _PITCH_BYTES) * _PITCH_BYTES
    return gpu.allocate(pitch * int(height)), pitch


def cuMemAllocHost(gpu: SimulatedGpu, size: int) -> int:
    """Pinned host memory."""
    return allocations.cuMemHostAlloc(gpu, size, 0)


def cuMemHostGetFlags(gpu: SimulatedGpu, address: int) -> int:
    """Flags of pinned host memory."""
    if (gpu.memory.extent(address) or (0, 0))[0] not in gpu.host_visible:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return 3  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP


def cuMemAllocAsync(gpu: SimulatedGpu, size: int, stream: int) -> int:
    """Device memory, in a stream."""
    gpu.stream(stream)
    return gpu.allocate(int(size))


def cuMemAllocFromPoolAsync(gpu: SimulatedGpu, size: int, pool: int, stream: int) -> int:
    """Device memory of a pool, in a stream."""
    return cuMemAllocAsync(gpu, size, stream)


def cuMemFreeAsync(gpu: SimulatedGpu, address: int, stream: int) -> None:
    """Give device memory back, in a stream."""
    gpu.stream(stream)
    allocations.cuMemFree(gpu, address)


def cuDeviceGetDefaultMemPool(gpu: SimulatedGpu, device: int) -> int:
    """The device's pool."""
    return POOL


def cuDeviceGetMemPool(gpu: SimulatedGpu, device: int) -> int:
    """The device's pool."""
    return POOL


def cuDeviceSetMemPool(gpu: SimulatedGpu, device: int, pool: int) -> None:
    """Choose a pool."""


def cuMemPoolCreate(gpu: SimulatedGpu, properties: int) -> int:
    """A pool."""
    return gpu.new_handle()


def cuMemPoolDestroy(gpu: SimulatedGpu, pool: int) -> None:
    """End a pool; what was allocated from it stays until it is freed."""


def cuMemPoolTrimTo(gpu: SimulatedGpu, pool: int, keep: int) -> None:
    """Give back what nobody uses, which is nothing."""


def cuMemPoolSetAttribute(gpu: SimulatedGpu, pool: int, attribute: int, value: int) -> None:
    """Set what a pool keeps, which changes nothing here."""


def cuMemPoolSetAccess(gpu: SimulatedGpu, pool: int, accesses: int, count: int) -> None:
    """Let devices reach a pool, which the one device does."""


def cuMemPoolGetAttribute(gpu: SimulatedGpu, pool: int, attribute: int, value: int) -> None:
    """A pool's attribute: the bytes reserved and used are those of all memory, a switch is on, a threshold 0."""
    if attribute < _POOL_WORDS:
        ctypes.c_int.from_address(value).value = 1
    else:
        used = attribute > _POOL_WORDS
        ctypes.c_uint64.from_address(value).value = gpu.memory.allocated_bytes if used else 0


def cuMemPrefetchAsync(gpu: SimulatedGpu, address: int, size: int, *where: int) -> None:
    """Move managed memory near, which it is."""
    gpu.check_range(address, size)


def cuMemAdvise(gpu: SimulatedGpu, address: int, size: int, *advice: int) -> None:
    """Say how managed memory is used, which changes nothing here."""
    gpu.check_range(address, size)


def cuPointerGetAttributes(gpu: SimulatedGpu, count: int, attributes: int, data: int, address: int) -> None:
    """Several attributes of a pointer; what is not known of it is 0."""
    for at in range(count):
        asked = ctypes.c_int.from_address(attributes + 4 * at).value
        place = ctypes.c_size_t.from_address(data + 8 * at).value
        value, size = _attribute(gpu, asked, address)
        ctypes.memmove(place, value.to_bytes(8, "little"), size)


def cuPointerGetAttribute(gpu: SimulatedGpu, data: int, attribute: int, address: int) -> None:
    """An attribute of a pointer, to memory."""
    value = int(allocations.cuPointerGetAttribute(gpu, attribute, address))
    ctypes.memmove(data, value.to_bytes(8, "little"), _attribute_bytes(attribute))


def _attribute(gpu: SimulatedGpu, attribute: int, address: int) -> tuple[int, int]:
    size = _attribute_bytes(attribute)
    try:
        return int(allocations.cuPointerGetAttribute(gpu, attribute, address)), size
    except DriverError:
        ordinal = int(binding().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        return (0xFFFF_FFFE if attribute == ordinal else 0), size  # CU_DEVICE_INVALID


def _attribute_bytes(attribute: int) -> int:
    """Bytes of a pointer's attribute."""
    names = binding().CUpointer_attribute
    whole = {int(getattr(names, f"CU_POINTER_ATTRIBUTE_{name}")) for name in (
        "CONTEXT", "DEVICE_POINTER", "HOST_POINTER", "RANGE_START_ADDR", "RANGE_SIZE", "BUFFER_ID", "MEMPOOL_HANDLE"
    )}  # fmt: skip
    return 8 if attribute in whole else 4


def cuMemcpy(gpu: SimulatedGpu, target: int, source: int, size: int) -> None:
    """Copy from anywhere to anywhere."""
    cuMemcpyAsync(gpu, target, source, size, LEGACY)
    gpu.outstanding.synchronised(LEGACY)


def cuMemcpyAsync(gpu: SimulatedGpu, target: int, source: int, size: int, stream: int) -> None:
    """Copy from anywhere to anywhere, in a stream."""
    to_device, from_device = (gpu.memory.extent(address) is not None for address in (target, source))
    if not size:
        gpu.stream(stream)
    elif to_device and from_device:
        allocations.cuMemcpyDtoDAsync(gpu, target, source, size, stream)
    elif to_device:
        gpu.refuse_ended(source)
        allocations.cuMemcpyHtoDAsync(gpu, target, source, size, stream)
    elif from_device:
        gpu.refuse_ended(target)
        allocations.cuMemcpyDtoHAsync(gpu, target, source, size, stream)
    else:
        gpu.refuse_ended(source)
        gpu.refuse_ended(target)
        ctypes.memmove(target, source, size)


def cuMemcpyPeer(gpu: SimulatedGpu, target: int, to: int, source: int, from_: int, size: int) -> None:
    """Copy between devices, of which there is one."""
    cuMemcpy(gpu, target, source, size)


def cuMemcpyPeerAsync(gpu: SimulatedGpu, target: int, to: int, source: int, from_: int, size: int, stream: int) -> None:
    """Copy between devices, of which there is one, in a stream."""
    cuMemcpyAsync(gpu, target, source, size, stream)


def copy_rows(
    gpu: SimulatedGpu,
    target: int,
    target_step: int,
    source: int,
    source_step: int,
    width: int,
    height: int,
    stream: int,
) -> None:
    """Copy rows of bytes, each so many bytes after the last."""
    if width == target_step == source_step:
        width, height = width * height, 1
    for row in range(height):
        cuMemcpyAsync(gpu, target + row * target_step, source + row * source_step, width, stream)


def cuMemcpy2DAsync(gpu: SimulatedGpu, copy: int, stream: int) -> None:
    """Copy rows, in a stream."""
    fields = _COPY_2D.unpack(ctypes.string_at(copy, _COPY_2D.size))
    ends = []
    for x, y, kind, host, device, _, pitch in (fields[:7], fields[7:14]):
        if kind == _ARRAY:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "copies of CUDA arrays are not implemented")
        step = pitch or fields[14]
        ends.append(((host if kind == _HOST else device) + y * step + x, step))
    (source, source_step), (target, target_step) = ends
    copy_rows(gpu, target, target_step, source, source_step, fields[14], fields[15], stream)


def cuMemcpy2D(gpu: SimulatedGpu, copy: int) -> None:
    """Copy rows."""
    cuMemcpy2DAsync(gpu, copy, LEGACY)
    gpu.outstanding.synchronised(LEGACY)


cuMemcpy2DUnaligned = cuMemcpy2D


def cuMemsetD16(gpu: SimulatedGpu, target: int, value: int, count: int) -> None:
    """Set 16-bit words on the device."""
    set_words(gpu, target, value.to_bytes(2, "little"), count, LEGACY)


def cuMemsetD32(gpu: SimulatedGpu, target: int, value: int, count: int) -> None:
    """Set 32-bit words on the device."""
    set_words(gpu, target, value.to_bytes(4, "little"), count, LEGACY)


def cuMemsetD16Async(gpu: SimulatedGpu, target: int, value: int, count: int, stream: int) -> None:
    """Set 16-bit words on the device, in a stream."""
    set_words(gpu, target, value.to_bytes(2, "little"), count, stream)


def cuMemsetD32Async(gpu: SimulatedGpu, target: int, value: int, count: int, stream: int) -> None:
    """Set 32-bit words on the device, in a stream."""
    set_words(gpu, target, value.to_bytes(4, "little"), count, stream)


def set_words(gpu: SimulatedGpu, target: int, word: bytes, count: int, stream: int) -> None:
    """Set words of bytes on the device."""
    allocations.cuMemsetD8Async(gpu, target, word[0], len(word) * count, stream)
    if len(set(word)) > 1:
        with gpu.mapped_in_step():
            ctypes.memmove(target, word * count, len(word) * count)
