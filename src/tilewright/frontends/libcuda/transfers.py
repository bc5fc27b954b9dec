"""Driver calls for memory that code in C makes, but not numba-cuda: pools, rows, words, any direction.

Everything is done when it is asked for, so that memory of a pool is memory. The answers about one range of bytes are
in `allocations`.

Source: CUDA Driver API, "Memory Management", "Stream Ordered Memory Allocator", "Unified Addressing"; `cuda.h`,
`CUDA_MEMCPY2D`.
"""

from __future__ import annotations

from tilewright.simulate.device import allocations
from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.gpu import POOL, DriverError, SimulatedGpu
from tilewright.simulate.device.pending_work import LEGACY

#: Alignment of rows. Source: `cuMemAllocPitch` on current GPUs.
_PITCH_BYTES = 512
#: `CUDA_MEMCPY2D`: for source and target: offset, row, kind, host, device, array, pitch; then width and height.
_COPY_2D = "QQI4xQQQQ QQI4xQQQQ QQ"
_HOST, _ARRAY = 1, 3  # CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY
_POOL_WORDS = 4  # attributes below this number are `int`, the others 64 bits
#: Rows of a copy that are watched for races with the host: more are only between rows of the host itself.
_MOST_ROWS = 1 << 20


def cuMemAllocPitch(gpu: SimulatedGpu, width: int, height: int, element: int) -> tuple[int, int]:
    """Device memory for rows, and the pitch."""
    pitch = row_bytes(width)
    return gpu.allocate(pitch * int(height)), pitch


def row_bytes(width: int) -> int:
    """The pitch of rows with `width` bytes."""
    return -(-int(width) // _PITCH_BYTES) * _PITCH_BYTES


def cuMemAllocHost(gpu: SimulatedGpu, size: int) -> int:
    """Pinned host memory."""
    return allocations.cuMemHostAlloc(gpu, size, 0)


def cuMemHostGetFlags(gpu: SimulatedGpu, address: int) -> int:
    """Flags of pinned host memory."""
    if (gpu.memory.extent(address) or (0, 0))[0] not in gpu.host_visible:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return gpu.pinned.get(address, 0) | 3  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP


def cuMemAllocAsync(gpu: SimulatedGpu, size: int, stream: int) -> int:
    """Device memory, in a stream."""
    gpu.stream(stream)
    return gpu.allocate(int(size))


def cuMemAllocFromPoolAsync(gpu: SimulatedGpu, size: int, pool: int, stream: int) -> int:
    """Device memory of a pool, in a stream."""
    return cuMemAllocAsync(gpu, size, stream)


def cuMemFreeAsync(gpu: SimulatedGpu, address: int, stream: int) -> None:
    """Free device memory, in a stream."""
    allocations.cuMemFreeAsync(gpu, address, stream)


def cuDeviceGetDefaultMemPool(gpu: SimulatedGpu, device: int) -> int:
    """The device's pool."""
    return POOL


def cuDeviceGetMemPool(gpu: SimulatedGpu, device: int) -> int:
    """The pool for new memory."""
    return gpu.pool


def cuDeviceSetMemPool(gpu: SimulatedGpu, device: int, pool: int) -> None:
    """Select the pool for new memory, which comes from the device in any case."""
    gpu.pool = pool


def cuMemPoolCreate(gpu: SimulatedGpu, properties: int) -> int:
    """A pool."""
    return gpu.new_handle()


def cuMemPoolSetAttribute(gpu: SimulatedGpu, pool: int, attribute: int, value: int) -> None:
    """Store an attribute."""
    gpu.pools[pool, attribute] = gpu.host.unpacked(_pool_word(attribute), value)


def cuMemPoolGetAttribute(gpu: SimulatedGpu, pool: int, attribute: int, value: int) -> None:
    """An attribute that was set; otherwise, bytes reserved and used are those of all memory, and switches are on."""
    known = 1 if attribute < _POOL_WORDS else gpu.memory.allocated_bytes if attribute > _POOL_WORDS else 0
    gpu.host.pack(_pool_word(attribute), value, gpu.pools.get((pool, attribute), known))


def _pool_word(attribute: int) -> str:
    return "Q" if attribute >= _POOL_WORDS else "i"


def cuMemPrefetchAsync(gpu: SimulatedGpu, address: int, size: int, *where: int) -> None:
    """Prefetch managed memory; no effect here."""
    gpu.check_range(address, size)


def cuMemAdvise(gpu: SimulatedGpu, address: int, size: int, *advice: int) -> None:
    """Advise how managed memory is used; no effect here."""
    gpu.check_range(address, size)


def cuPointerGetAttributes(gpu: SimulatedGpu, count: int, attributes: int, data: int, address: int) -> None:
    """Several attributes of a pointer; unknown ones are 0."""
    host = gpu.host
    if count > len(binding().CUpointer_attribute):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    for at, place in enumerate(host.words(count, data)):
        value, size = _attribute(gpu, host.unpacked("i", attributes + 4 * at), address)
        host.write(place, value.to_bytes(8, "little")[:size])


def cuPointerGetAttribute(gpu: SimulatedGpu, data: int, attribute: int, address: int) -> None:
    """Write an attribute of a pointer to memory."""
    value = int(allocations.cuPointerGetAttribute(gpu, attribute, address))
    gpu.host.write(data, value.to_bytes(8, "little")[: _attribute_bytes(attribute)])


def _attribute(gpu: SimulatedGpu, attribute: int, address: int) -> tuple[int, int]:
    size = _attribute_bytes(attribute)
    try:
        return int(allocations.cuPointerGetAttribute(gpu, attribute, address)), size
    except DriverError:
        ordinal = int(binding().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        return (0xFFFF_FFFE if attribute == ordinal else 0), size  # CU_DEVICE_INVALID


def _attribute_bytes(attribute: int) -> int:
    """Size of a pointer attribute."""
    names = binding().CUpointer_attribute
    whole = {int(getattr(names, f"CU_POINTER_ATTRIBUTE_{name}")) for name in (
        "CONTEXT", "DEVICE_POINTER", "HOST_POINTER", "RANGE_START_ADDR", "RANGE_SIZE", "BUFFER_ID", "MEMPOOL_HANDLE"
    )}  # fmt: skip
    return 8 if attribute in whole else 4


def cuMemcpy(gpu: SimulatedGpu, target: int, source: int, size: int) -> None:
    """Copy between any addresses."""
    allocations.copy(gpu, target, source, size, allocations.ANYWHERE)


def cuMemcpyAsync(gpu: SimulatedGpu, target: int, source: int, size: int, stream: int) -> None:
    """Copy between any addresses, in a stream."""
    allocations.copy_in(gpu, stream, target, source, size, allocations.ANYWHERE)


def cuMemcpyPeer(gpu: SimulatedGpu, target: int, to: int, source: int, from_: int, size: int) -> None:
    """Copy between devices; there is only one."""
    cuMemcpy(gpu, target, source, size)


def cuMemcpyPeerAsync(gpu: SimulatedGpu, target: int, to: int, source: int, from_: int, size: int, stream: int) -> None:
    """Copy between devices, in a stream; there is only one."""
    cuMemcpyAsync(gpu, target, source, size, stream)


def copy_rows_in(
    gpu: SimulatedGpu, stream: int, target: int, target_step: int, source: int, source_step: int, width: int,
    height: int, kind: int,
) -> None:  # fmt: skip
    """Copy rows, in a stream; the steps are distances between rows."""
    gpu.require_context()
    rows = target, target_step, source, source_step, width, height, kind
    if gpu.host.submit(gpu, stream, lambda _: allocations.copied_rows(gpu, *rows), "copy"):
        if not width or not (gpu.outstanding.pending or gpu.host_races):
            return
        for row in range(min(height, _MOST_ROWS)):
            ends = target + row * target_step, source + row * source_step
            allocations.copy_queued(gpu, stream, *ends, width, kind)


def cuMemcpy2DAsync(gpu: SimulatedGpu, copy: int, stream: int) -> None:
    """Copy rows, in a stream."""
    fields = gpu.host.unpacked(_COPY_2D, copy)
    ends: list[tuple[int, int]] = []
    for x, y, kind, host, device, _, pitch in (fields[7:14], fields[:7]):
        if kind == _ARRAY:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "copies of CUDA arrays are not implemented")
        step = pitch or fields[14]
        ends.append(((host if kind == _HOST else device) + y * step + x, step))
    copy_rows_in(gpu, stream, *ends[0], *ends[1], fields[14], fields[15], allocations.ANYWHERE)


def cuMemcpy2D(gpu: SimulatedGpu, copy: int) -> None:
    """Copy rows."""
    cuMemcpy2DAsync(gpu, copy, LEGACY)
    gpu.outstanding.synchronised(LEGACY)


cuMemcpy2DUnaligned = cuMemcpy2D


def cuMemsetD16(gpu: SimulatedGpu, target: int, value: int, count: int) -> None:
    """Set 16-bit words on the device."""
    allocations.cuMemsetD16Async(gpu, target, value, count, LEGACY)


def cuMemsetD32(gpu: SimulatedGpu, target: int, value: int, count: int) -> None:
    """Set 32-bit words on the device."""
    allocations.cuMemsetD32Async(gpu, target, value, count, LEGACY)
