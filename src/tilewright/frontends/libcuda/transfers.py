"""Driver calls of C code for memory pools, pitched memory, 2D and 3D copies, and fills.

Work is done when it is submitted, so memory of a pool is ordinary memory. `simulate/device/allocations.py` has the
calls that numba-cuda needs too.

Source: CUDA Driver API, "Memory Management", "Stream Ordered Memory Allocator", "Unified Addressing".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright.frontends.libcuda.structures import Block
from tilewright.simulate.device import allocations
from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.gpu import POOL, DriverError, SimulatedGpu
from tilewright.simulate.device.graphs import submit
from tilewright.simulate.device.pending_work import LEGACY

#: Alignment of rows. Source: `cuMemAllocPitch` on current GPUs.
_PITCH_BYTES = 512
_POOL_WORDS = 4  # attributes below this number are `int`, the others 64 bits
#: Rows of a copy that are watched for races with the host: more are only between rows of the host itself.
_MOST_ROWS = 1 << 20
#: The end of a program's addresses.
_ADDRESSES = 1 << 57


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


def cuMemAllocFromPoolAsync(gpu: SimulatedGpu, size: int, pool: int, stream: int) -> int:
    """Device memory of a pool, in a stream."""
    return int(allocations.cuMemAllocAsync(gpu, size, stream))


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


#: Attributes of a pointer that take 8 bytes.
_OF_EIGHT_BYTES = tuple(
    "CONTEXT DEVICE_POINTER HOST_POINTER RANGE_START_ADDR RANGE_SIZE BUFFER_ID MEMPOOL_HANDLE".split()
)


def _attribute_bytes(attribute: int) -> int:
    """Size of a pointer attribute."""
    names = binding().CUpointer_attribute
    whole = {int(getattr(names, f"CU_POINTER_ATTRIBUTE_{name}")) for name in _OF_EIGHT_BYTES}
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


def waiting(call: Callable[..., None]) -> Callable[..., None]:
    """A call in a stream, its last parameter, as one that the host waits for, in the default stream."""

    def waited(gpu: SimulatedGpu, *given: Any) -> None:
        call(gpu, *given, LEGACY)
        gpu.outstanding.synchronised(LEGACY)

    return waited


def cuMemcpy3DAsync(gpu: SimulatedGpu, block: Block, stream: int) -> None:
    """Copy rows of planes, in a stream."""
    gpu.require_context()

    def work(where: int) -> None:
        copy_block(gpu, block)
        if gpu.outstanding.pending or gpu.host_races:
            for target, source in itertools.islice(_rows(block), _MOST_ROWS):
                allocations.copy_queued(gpu, where, target, source, block.width, block.kind)

    submit(gpu, stream, work, "copy")


def copy_block(gpu: SimulatedGpu, block: Block) -> None:
    """Do a copy.

    Raises DriverError: a range leaves its allocation or the address space, or rows or planes overlap.
    """
    target, source, width, height, depth, kind = block
    for address, step, rows in (target, source):
        if width and height and address + ((depth - 1) * rows + height - 1) * step + width > _ADDRESSES:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "a copy must be inside the address space")
    for plane in _planes((width, height, depth), target.plane_rows, source.plane_rows):
        places = [side.address + plane * side.plane_rows * side.row_bytes for side in (target, source)]
        allocations.copied_rows(gpu, places[0], target.row_bytes, places[1], source.row_bytes, width, height, kind)


def _rows(block: Block) -> Iterator[tuple[int, int]]:
    """The addresses of each row, of target and source."""
    target, source, width, height, depth, _ = block
    for row in range(height * depth if width else 0):
        plane, at = divmod(row, height)
        ends = [side.address + (plane * side.plane_rows + at) * side.row_bytes for side in (target, source)]
        yield ends[0], ends[1]


def _planes(extent: Sequence[int], *rows: int) -> range:
    """The planes of an extent, none if it is empty; `rows` are those from one plane to the next, of each side.

    Raises DriverError: planes overlap.
    """
    if not all(extent):
        return range(0)
    if extent[2] > 1 and extent[1] > min(rows):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "planes have more rows than there are between them")
    return range(extent[2])


cuMemcpy2DAsync = cuMemcpy3DAsync  # its structure says one plane
cuMemcpy2D = cuMemcpy2DUnaligned = cuMemcpy3D = waiting(cuMemcpy3DAsync)


def cuMemsetD2D8Async(
    gpu: SimulatedGpu, target: int, step: int, value: int, width: int, height: int, stream: int
) -> None:
    """Set rows of bytes, in a stream."""
    fill_planes(gpu, stream, (target, step, 0, height), bytes([value & 0xFF]), (width, height, 1))


def cuMemsetD2D16Async(
    gpu: SimulatedGpu, target: int, step: int, value: int, width: int, height: int, stream: int
) -> None:
    """Set rows of 16-bit words, in a stream."""
    fill_planes(gpu, stream, (target, step, 0, height), (value & 0xFFFF).to_bytes(2, "little"), (width, height, 1))


def cuMemsetD2D32Async(
    gpu: SimulatedGpu, target: int, step: int, value: int, width: int, height: int, stream: int
) -> None:
    """Set rows of 32-bit words, in a stream."""
    fill_planes(gpu, stream, (target, step, 0, height), (value & 0xFFFFFFFF).to_bytes(4, "little"), (width, height, 1))


def fill_planes(
    gpu: SimulatedGpu, stream: int, place: Sequence[int], word: bytes, extent: tuple[int, int, int]
) -> None:
    """Set words of rows of planes, in a stream; the place is a `cudaPitchedPtr`."""
    gpu.require_context()
    (address, step, _, rows), (width, height, depth) = place, extent
    if all(extent) and depth > 1 and len(word) * width > step:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "rows are longer than the distance between them")

    def work(where: int) -> None:
        for plane in _planes(extent, rows):
            allocations.filled_rows(gpu, address + plane * step * rows, step, word, width, height)
            for row in range(min(height, _MOST_ROWS) if gpu.host_races else 0):
                place = address + (plane * rows + row) * step
                allocations.set_queued(gpu, where, place, len(word) * width)

    submit(gpu, stream, work, "set")


def _in_default_stream(call: Callable[..., None]) -> Callable[..., None]:
    """A call in a stream, its last parameter, as one of the default stream; the host does not wait."""
    return lambda gpu, *given: call(gpu, *given, LEGACY)


cuMemsetD2D8, cuMemsetD2D16, cuMemsetD2D32 = (
    _in_default_stream(call) for call in (cuMemsetD2D8Async, cuMemsetD2D16Async, cuMemsetD2D32Async)
)


cuMemsetD16, cuMemsetD32 = (
    _in_default_stream(call) for call in (allocations.cuMemsetD16Async, allocations.cuMemsetD32Async)
)
