"""Calls for arrays, texture objects and surface objects.

An array is device memory, row by row. An object is a descriptor in device memory. Its handle, which
kernels use, is the descriptor's address.

Source: CUDA Driver API, "Memory Management", "Texture Object Management", "Surface Object Management"; CUDA Runtime
API, `cudaCreateTextureObject`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.frontends.libcuda.structures import (
    RESOURCE_LINEAR,
    Block,
    Resource,
    Sampling,
    Shape,
    Side,
    array,
    side_of_array,
)
from tilewright.frontends.libcuda.transfers import cuMemcpy3DAsync, waiting
from tilewright.frontends.programs.arrays import Elements
from tilewright.simulate.device import allocations
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.state import TEXTURE_NUMBERS, TEXTURES

_ARRAY = 0  # CU_RESOURCE_TYPE_ARRAY
#: Wider integers are read unchanged. Source: CUDA Runtime API, `cudaCreateTextureObject` (`readMode`, `filterMode`).
_MOST_FRACTION_BITS = 16


# -- arrays -----------------------------------------------------------------------------------------------------


def cuArrayCreate(gpu: SimulatedGpu, shape: Shape) -> int:
    """An array, possibly of layers or of the faces of a cube."""
    if not shape.extent[0]:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "an array must have a width")
    made = Elements(0, shape.format, shape.extent, shape.extent[0] * sum(shape.format[:4]) // 8, shape.flags)
    address = gpu.allocate(made.plane_bytes * max(shape.extent[2], 1))
    gpu.arrays[address] = replace(made, address=address)
    return address


cuArray3DCreate = cuArrayCreate


def cudaMallocArray(gpu: SimulatedGpu, form: tuple[int, ...], width: int, height: int, flags: int) -> int:
    """An array of one or two axes."""
    return cuArrayCreate(gpu, Shape(form, (width, height, 0), flags))


def cudaMalloc3DArray(gpu: SimulatedGpu, form: tuple[int, ...], extent: tuple[int, int, int], flags: int) -> int:
    """An array, possibly of layers or of the faces of a cube."""
    return cuArrayCreate(gpu, Shape(form, extent, flags))


def cuArrayDestroy(gpu: SimulatedGpu, handle: int) -> None:
    """Free an array."""
    gpu.free(array(gpu, handle).address)
    del gpu.arrays[handle]


def cudaFreeArray(gpu: SimulatedGpu, handle: int) -> None:
    """Free an array; 0 has no effect."""
    if handle:
        cuArrayDestroy(gpu, handle)


def cuArray3DGetDescriptor(gpu: SimulatedGpu, handle: int) -> tuple[Shape]:
    """The parameters of an array."""
    return (cudaArrayGetInfo(gpu, handle),)


cuArrayGetDescriptor = cuArray3DGetDescriptor


def cudaArrayGetInfo(gpu: SimulatedGpu, handle: int) -> Shape:
    """The format, extents and flags of an array."""
    found = array(gpu, handle)
    return Shape(found.format, found.extent, found.flags)


def cudaGetChannelDesc(gpu: SimulatedGpu, handle: int) -> tuple[tuple[int, ...]]:
    """The format of an array's elements."""
    return (array(gpu, handle).format,)


# -- copies -----------------------------------------------------------------------------------------------------


def cudaMemcpy2DToArrayAsync(
    gpu: SimulatedGpu,
    target: int,
    x: int,
    y: int,
    source: int,
    step: int,
    width: int,
    height: int,
    kind: int,
    stream: int,
) -> None:
    """Copy rows into an array, from a byte offset in a row, in a stream."""
    to = _part(array(gpu, target), x, y, width, height)
    cuMemcpy3DAsync(gpu, Block(to, Side(source, step, height), width, height, 1, kind), stream)


def cudaMemcpy2DFromArrayAsync(
    gpu: SimulatedGpu,
    target: int,
    step: int,
    source: int,
    x: int,
    y: int,
    width: int,
    height: int,
    kind: int,
    stream: int,
) -> None:
    """Copy rows out of an array, in a stream."""
    of = _part(array(gpu, source), x, y, width, height)
    cuMemcpy3DAsync(gpu, Block(Side(target, step, height), of, width, height, 1, kind), stream)


def cudaMemcpy2DArrayToArray(
    gpu: SimulatedGpu,
    target: int,
    x: int,
    y: int,
    source: int,
    from_x: int,
    from_y: int,
    width: int,
    height: int,
    kind: int,
) -> None:
    """Copy rows from array to array."""
    of = _part(array(gpu, source), from_x, from_y, width, height)
    cudaMemcpy2DToArray(gpu, target, x, y, of.address, of.row_bytes, width, height, kind)


def cudaMemcpyToArrayAsync(
    gpu: SimulatedGpu, target: int, x: int, y: int, source: int, size: int, kind: int, stream: int
) -> None:
    """Copy bytes into an array, row after row, in a stream."""
    allocations.copy_in(gpu, stream, _bytes(array(gpu, target), x, y, size), source, size, kind)


def cudaMemcpyFromArrayAsync(
    gpu: SimulatedGpu, target: int, source: int, x: int, y: int, size: int, kind: int, stream: int
) -> None:
    """Copy bytes out of an array, row after row, in a stream."""
    allocations.copy_in(gpu, stream, target, _bytes(array(gpu, source), x, y, size), size, kind)


cudaMemcpy2DToArray, cudaMemcpy2DFromArray = waiting(cudaMemcpy2DToArrayAsync), waiting(cudaMemcpy2DFromArrayAsync)
cudaMemcpyToArray, cudaMemcpyFromArray = waiting(cudaMemcpyToArrayAsync), waiting(cudaMemcpyFromArrayAsync)


def cuMemcpyHtoAAsync(gpu: SimulatedGpu, target: int, offset: int, source: int, size: int, stream: int) -> None:
    """Copy from the host into an array, in a stream."""
    cudaMemcpyToArrayAsync(gpu, target, offset, 0, source, size, allocations.TO_DEVICE, stream)


def cuMemcpyAtoHAsync(gpu: SimulatedGpu, target: int, source: int, offset: int, size: int, stream: int) -> None:
    """Copy from an array to the host, in a stream."""
    cudaMemcpyFromArrayAsync(gpu, target, source, offset, 0, size, allocations.TO_HOST, stream)


def cuMemcpyDtoA(gpu: SimulatedGpu, target: int, offset: int, source: int, size: int) -> None:
    """Copy from device memory into an array."""
    cudaMemcpyToArray(gpu, target, offset, 0, source, size, allocations.ON_DEVICE)


def cuMemcpyAtoD(gpu: SimulatedGpu, target: int, source: int, offset: int, size: int) -> None:
    """Copy from an array to device memory."""
    cudaMemcpyFromArray(gpu, target, source, offset, 0, size, allocations.ON_DEVICE)


def cuMemcpyAtoA(gpu: SimulatedGpu, target: int, to: int, source: int, offset: int, size: int) -> None:
    """Copy from array to array."""
    place = _bytes(array(gpu, source), offset, 0, size)
    cudaMemcpyToArray(gpu, target, to, 0, place, size, allocations.ON_DEVICE)


cuMemcpyHtoA, cuMemcpyAtoH = waiting(cuMemcpyHtoAAsync), waiting(cuMemcpyAtoHAsync)


def _part(of: Elements, x: int, y: int, width: int, height: int) -> Side:
    """A part of an array; `x` and `width` count bytes."""
    if x + width > of.row_bytes or y + height > max(of.extent[1], 1):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "a copy must be inside its array")
    return side_of_array(of, x, y, 0)


def _bytes(of: Elements, x: int, y: int, size: int) -> int:
    """The address of a byte of an array that so many follow."""
    return _part(of, x, y, 0, -(-(x + size) // of.row_bytes)).address


# -- objects ----------------------------------------------------------------------------------------------------


def cuTexObjectCreate(gpu: SimulatedGpu, resource: Resource, sampling: Sampling, view: int) -> int:
    """Create a texture of an array or of memory."""
    if view:
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "resource views of textures are not implemented")
    if sampling.srgb:
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "sRGB is not implemented")
    elements = resource.elements
    floats = elements.format[4] == TEXTURES["elements_float"]
    fractions = sampling.as_fractions and not floats and max(elements.format[:4]) <= _MOST_FRACTION_BITS
    linear = bool(sampling.linear) and resource.kind != RESOURCE_LINEAR
    if linear and not (floats or fractions):
        raise DriverError(
            "cudaErrorInvalidFilterSetting",
            "linear filtering needs elements that are floats or are normalised (cudaReadModeNormalizedFloat, of 8 and "
            "16 bits)",
        )
    does = TEXTURE_NUMBERS["normalized"] * sampling.normalized
    does |= TEXTURE_NUMBERS["fractions"] * fractions | TEXTURE_NUMBERS["linear"] * linear
    modes = [one if sampling.normalized or one == TEXTURES["border"] else TEXTURES["clamp"] for one in sampling.modes]
    record = elements.record(does=does, modes=modes, border=sampling.border)
    return _object(gpu, record, resource, sampling)


def cuSurfObjectCreate(gpu: SimulatedGpu, resource: Resource) -> int:
    """Create a surface of an array."""
    if resource.kind != _ARRAY:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "a surface must be of an array")
    return _object(gpu, resource.elements.record(), resource, None)


def cuTexObjectDestroy(gpu: SimulatedGpu, handle: int) -> None:
    """Destroy a texture or surface; 0 has no effect."""
    if handle:
        _described(gpu, handle)
        del gpu.textures[handle]
        gpu.free(handle)


def cuTexObjectGetResourceDesc(gpu: SimulatedGpu, handle: int) -> tuple[Resource]:
    """The memory of a texture or surface."""
    return (_described(gpu, handle)[0],)


def cuTexObjectGetTextureDesc(gpu: SimulatedGpu, handle: int) -> tuple[Sampling]:
    """How a texture is read."""
    sampling = _described(gpu, handle)[1]
    if sampling is None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "a surface has no sampling")
    return (sampling,)


cuSurfObjectDestroy, cuSurfObjectGetResourceDesc = cuTexObjectDestroy, cuTexObjectGetResourceDesc


def _object(gpu: SimulatedGpu, record: bytes, resource: Resource, sampling: Sampling | None) -> int:
    """Write an object's record to device memory."""
    address = gpu.allocate(len(record))
    gpu.host.write(address, record)
    gpu.wrote(address, len(record))
    gpu.textures[address] = resource, sampling
    return address


def _described(gpu: SimulatedGpu, handle: int) -> tuple[Resource, Sampling | None]:
    if handle not in gpu.textures:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "there is no such texture or surface")
    return gpu.textures[handle]
