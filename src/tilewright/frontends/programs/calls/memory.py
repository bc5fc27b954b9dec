"""Calls for memory that need an implementation of their own for programs: graph memory, 3D copies, fills, symbols.

Device memory is mapped in the program at its own addresses, so the program's side does the copies; here ranges are
checked, and observers are notified. Registered host memory becomes device memory in place.


Source: CUDA Runtime API, "Memory Management", "Unified Addressing", "Stream Ordered Memory Allocator".
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontends.libcuda import runtime, transfers
from tilewright.frontends.programs.graph import Work
from tilewright.frontends.programs.protocol import Caller
from tilewright.simulate.device.allocations import copied, copied_rows, filled_rows
from tilewright.simulate.device.gpu import DriverError


def cudaMalloc3D(call: Caller, pitched: int, extent: tuple[int, int, int]) -> None:
    """Pitched device memory for rows of planes."""
    width, height, depth = extent
    step = transfers.row_bytes(width)
    call.pack("4Q", pitched, runtime.cudaMalloc(call.gpu, step * height * depth), step, width, height)


def cudaFree(call: Caller, pointer: int) -> None:
    """Free device or managed memory; 0 has no effect, and a graph's memory lives as long as a graph uses it."""
    if pointer in call.runtime.graph_memory:
        call.runtime.graph_memory[pointer] = False
        call.runtime.graph_memory_unused(pointer)
    else:
        runtime.cudaFree(call.gpu, pointer)


cudaFreeHost = cudaFree


def cudaMallocAsync(call: Caller, pointer: int, size: int, stream: int) -> None:
    """Device memory, in a stream."""
    address = runtime.cudaMallocAsync(call.gpu, size, stream)
    graph = call.runtime.captures.get(stream)
    if graph is not None and address:
        graph.note(call.gpu.new_handle(), memory_left(address, allocated=True), "memory")
        graph.memory.add(address)
        call.runtime.graph_memory[address] = False
    call.pack("Q", pointer, address)


def memory_left(address: int, *, allocated: bool) -> Work:
    """Work in a graph that records whether a launch leaves memory allocated."""

    def work(now: Caller) -> None:
        now.runtime.graph_memory[address] = allocated

    return work


def cudaMallocFromPoolAsync(call: Caller, pointer: int, size: int, pool: int, stream: int) -> None:
    """Device memory from a pool, in a stream."""
    cudaMallocAsync(call, pointer, size, stream)


def cudaFreeAsync(call: Caller, pointer: int, stream: int) -> None:
    """Free device memory, in a stream."""
    if stream in call.runtime.captures and pointer in call.runtime.graph_memory:
        call.runtime.captures[stream].memory.add(pointer)
    call.do(stream, lambda now: cudaFree(now, pointer), "empty")


_COPY_3D = "Q3Q4QQ3Q4Q3Qi4x"


def cudaMemcpy3D(call: Caller, parameters: int) -> None:
    """Copy rows of planes."""
    moved_3d(call, call.unpacked(_COPY_3D, parameters))


def cudaMemcpy3DAsync(call: Caller, parameters: int, stream: int) -> None:
    """Copy rows of planes, in a stream."""
    values = call.unpacked(_COPY_3D, parameters)
    call.do(stream, lambda now: moved_3d(now, values), "copy")


def moved_3d(call: Caller, parameters: Sequence[int]) -> None:
    """Do the copy of a `cudaMemcpy3DParms`.

    If an array is involved, the extent counts elements; offsets in an array always do.

    Raises DriverError: there is no such array, or a range leaves its allocation.
    """
    width, height, depth, kind = parameters[16:]
    source, source_size, at = _side(call, parameters[0], parameters[4:8], parameters[1:4])
    target, target_size, to = _side(call, parameters[8], parameters[12:16], parameters[9:12])
    width *= max(source_size, target_size)
    for plane in _planes((width, height, depth), target[3], source[3]):
        sides = [
            side[0] + ((offset[2] + plane) * side[3] + offset[1]) * side[1] + offset[0]
            for side, offset in ((target, to), (source, at))
        ]
        copied_rows(call.gpu, sides[0], target[1], sides[1], source[1], width, height, kind)


def _side(
    call: Caller, array: int, pitched: Sequence[int], offset: Sequence[int]
) -> tuple[Sequence[int], int, Sequence[int]]:
    """One side of a copy: its memory as pitched memory, bytes per element, and the offset in bytes.

    Pitched memory has an address, bytes per row, a width that copies do not use, and rows per plane. Only an `array` (a
    handle, 0 for none) counts its offset in elements.
    """
    if not array:
        return pitched, 1, offset
    of = call.runtime.array(array)
    place = (of.address, of.row_bytes, 0, max(of.extent[1], 1))
    return place, of.element_bytes, (offset[0] * of.element_bytes, *offset[1:])


def cudaMemset2D(call: Caller, pointer: int, step: int, value: int, width: int, height: int) -> None:
    """Set bytes of rows."""
    filled_rows(call.gpu, pointer, step, bytes([value & 0xFF]), width, height)


def cudaMemset3D(call: Caller, pitched: tuple[int, ...], value: int, extent: tuple[int, int, int]) -> None:
    """Set bytes of planes."""
    address, step, _, rows = pitched
    width, height, _ = extent
    for plane in _planes(extent, rows):
        cudaMemset2D(call, address + plane * step * rows, step, value, width, height)


def _planes(extent: Sequence[int], *rows: int) -> range:
    """The planes of an extent, none if it is empty; `rows` are those from one plane to the next, of each side.

    Raises DriverError: planes overlap.
    """
    if not all(extent):
        return range(0)
    if extent[2] > 1 and extent[1] > min(rows):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "planes have more rows than there are between them")
    return range(extent[2])


# -- symbols ----------------------------------------------------------------------------------------------------


def cudaGetSymbolAddress(call: Caller, pointer: int, symbol: int) -> None:
    """A variable's address on the device."""
    call.pack("Q", pointer, call.runtime.variable(symbol)[0])


def cudaGetSymbolSize(call: Caller, size: int, symbol: int) -> None:
    """The size of a variable."""
    call.pack("Q", size, call.runtime.variable(symbol)[1])


def cudaMemcpyToSymbol(call: Caller, symbol: int, source: int, size: int, offset: int, kind: int) -> None:
    """Copy bytes into a variable."""
    copied(call.gpu, _part(call, symbol, offset, size), source, size, kind)


def cudaMemcpyFromSymbol(call: Caller, target: int, symbol: int, size: int, offset: int, kind: int) -> None:
    """Copy bytes from a variable."""
    copied(call.gpu, target, _part(call, symbol, offset, size), size, kind)


def _part(call: Caller, symbol: int, offset: int, size: int) -> int:
    """The device address of a part of a variable."""
    address, whole = call.runtime.variable(symbol)
    if offset + size > whole:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return address + offset
