"""Calls for arrays, texture objects and surface objects.

An array is device memory, row by row. An object is a record in device memory that says what to read and how; its
handle, which kernels use, is the record's address.

Source: CUDA Runtime API, "Memory Management", "Texture Object Management", "Surface Object Management"; structures by
the vendor's `driver_types.h` and `texture_types.h`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.frontends.programs.arrays import Elements
from tilewright.frontends.programs.protocol import Caller
from tilewright.simulate.device.allocations import copied, copied_rows
from tilewright.simulate.device.gpu import DriverError
from tilewright.simulate.state import TEXTURE_NUMBERS, TEXTURES

#: `cudaChannelFormatDesc`, the used part of `cudaTextureDesc`, and `cudaResourceDesc`.
_FORMAT, _TEXTURE, _RESOURCE_BYTES, _TEXTURE_BYTES = "5i", "3i3i4fi", 144, 76
_ARRAY, _LINEAR, _PITCHED = 0, 2, 3
#: Wider integers are read unchanged. Source: CUDA Runtime API, `cudaCreateTextureObject` (`readMode`, `filterMode`).
_MOST_FRACTION_BITS = 16


def cudaMallocArray(call: Caller, array: int, form: int, width: int, height: int, flags: int) -> None:
    """An array of one or two axes."""
    cudaMalloc3DArray(call, array, form, (width, height, 0), flags)


def cudaMalloc3DArray(call: Caller, array: int, form: int, extent: tuple[int, int, int], flags: int) -> None:
    """An array, possibly of layers or of the faces of a cube."""
    if not array or not form or not extent[0]:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    found = call.unpacked(_FORMAT, form)
    made = Elements(0, found, extent, extent[0] * sum(found[:4]) // 8, flags)
    address = call.gpu.allocate(made.plane_bytes * max(extent[2], 1))
    call.runtime.arrays[address] = replace(made, address=address)
    call.pack("Q", array, address)


def cudaFreeArray(call: Caller, array: int) -> None:
    """Free an array; 0 has no effect."""
    if array:
        call.gpu.free(call.runtime.array(array).address)
        del call.runtime.arrays[array]


def cudaArrayGetInfo(call: Caller, form: int, extent: int, flags: int, array: int) -> None:
    """The parameters of an array."""
    found = call.runtime.array(array)
    call.pack(_FORMAT, form, *found.format)
    call.pack("3Q", extent, *found.extent)
    call.pack("I", flags, found.flags)


def cudaGetChannelDesc(call: Caller, form: int, array: int) -> None:
    """The format of an array's elements."""
    call.pack(_FORMAT, form, *call.runtime.array(array).format)


# -- copies -----------------------------------------------------------------------------------------------------


def cudaMemcpy2DToArray(
    call: Caller, target: int, x: int, y: int, source: int, step: int, width: int, height: int, kind: int
) -> None:
    """Copy rows into an array, from a byte offset in a row."""
    to = call.runtime.array(target)
    copied_rows(call.gpu, _place(to, x, y, width, height), to.row_bytes, source, step, width, height, kind)


def cudaMemcpy2DFromArray(
    call: Caller, target: int, step: int, source: int, x: int, y: int, width: int, height: int, kind: int
) -> None:
    """Copy rows out of an array."""
    of = call.runtime.array(source)
    copied_rows(call.gpu, target, step, _place(of, x, y, width, height), of.row_bytes, width, height, kind)


def cudaMemcpyToArray(call: Caller, target: int, x: int, y: int, source: int, size: int, kind: int) -> None:
    """Copy bytes into an array, row after row."""
    to = call.runtime.array(target)
    copied(call.gpu, _place(to, x, y, 0, -(-(x + size) // to.row_bytes)), source, size, kind)


def cudaMemcpyFromArray(call: Caller, target: int, source: int, x: int, y: int, size: int, kind: int) -> None:
    """Copy bytes out of an array, row after row."""
    of = call.runtime.array(source)
    copied(call.gpu, target, _place(of, x, y, 0, -(-(x + size) // of.row_bytes)), size, kind)


def cudaMemcpy2DArrayToArray(
    call: Caller, target: int, x: int, y: int, source: int, from_x: int, from_y: int, width: int, height: int, kind: int
) -> None:
    """Copy rows from array to array."""
    of = call.runtime.array(source)
    place = _place(of, from_x, from_y, width, height)
    cudaMemcpy2DToArray(call, target, x, y, place, of.row_bytes, width, height, kind)


def _place(array: Elements, x: int, y: int, width: int, height: int) -> int:
    if x + width > array.row_bytes or y + height > max(array.extent[1], 1):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return array.address + y * array.row_bytes + x


# -- objects ----------------------------------------------------------------------------------------------------


def cudaCreateTextureObject(call: Caller, made: int, resource: int, texture: int, view: int) -> None:
    """Create a texture of an array or of memory."""
    if view:
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "cudaCreateTextureObject: resource views are not implemented")
    data = call.read(resource, _RESOURCE_BYTES)
    elements = _elements(call, resource)
    *modes, linear, fractions, curved, b0, b1, b2, b3, normalized = call.unpacked(_TEXTURE, texture)
    if curved:
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "cudaCreateTextureObject: sRGB is not implemented")
    floats = elements.format[4] == TEXTURES["elements_float"]
    does = TEXTURE_NUMBERS["normalized"] * bool(normalized)
    fractions = bool(fractions) and not floats and max(elements.format[:4]) <= _MOST_FRACTION_BITS
    linear = bool(linear) and call.unpacked("i", resource) != _LINEAR
    if linear and not (floats or fractions):
        raise DriverError(
            "cudaErrorInvalidFilterSetting",
            "cudaCreateTextureObject: linear filtering needs elements that are floats or are normalised "
            "(cudaReadModeNormalizedFloat, of 8 and 16 bits)",
        )
    does |= TEXTURE_NUMBERS["fractions"] * fractions | TEXTURE_NUMBERS["linear"] * linear
    modes = [mode if normalized or mode == TEXTURES["border"] else TEXTURES["clamp"] for mode in modes]
    record = elements.record(does=does, modes=modes, border=(b0, b1, b2, b3))
    _object(call, made, record, data, call.read(texture, _TEXTURE_BYTES))


def cudaCreateSurfaceObject(call: Caller, made: int, resource: int) -> None:
    """Create a surface of an array."""
    if call.unpacked("i", resource) != _ARRAY:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    _object(call, made, _elements(call, resource).record(), call.read(resource, _RESOURCE_BYTES), b"")


def cudaDestroyTextureObject(call: Caller, made: int) -> None:
    """Destroy a texture."""
    if made:
        _described(call, made)
        del call.runtime.objects[made]
        call.gpu.free(made)


def cudaGetTextureObjectResourceDesc(call: Caller, resource: int, made: int) -> None:
    """The resource that a texture reads."""
    call.write(resource, _described(call, made)[0])


def cudaGetTextureObjectTextureDesc(call: Caller, texture: int, made: int) -> None:
    """The description of a texture."""
    call.write(texture, _described(call, made)[1])


cudaDestroySurfaceObject = cudaDestroyTextureObject
cudaGetSurfaceObjectResourceDesc = cudaGetTextureObjectResourceDesc


def _object(call: Caller, made: int, record: bytes, *described: bytes) -> None:
    """Write an object's record to device memory."""
    address = call.gpu.allocate(len(record))
    call.write(address, record)
    call.gpu.wrote(address, len(record))
    call.runtime.objects[address] = described
    call.pack("Q", made, address)


def _described(call: Caller, made: int) -> tuple[bytes, ...]:
    if made not in call.runtime.objects:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return call.runtime.objects[made]


def _elements(call: Caller, resource: int) -> Elements:
    """The elements of a `cudaResourceDesc`.

    Raises DriverError: the resource does not exist, or is a mipmapped array.
    """
    kind, address = call.unpacked("i4xQ", resource)
    if kind == _ARRAY:
        return call.runtime.array(address)
    form = call.unpacked(_FORMAT, resource + 16)
    size = max(sum(form[:4]) // 8, 1)
    if kind == _LINEAR:
        bytes_ = call.unpacked("Q", resource + 40)
        return Elements(address, form, (bytes_ // size, 0, 0), bytes_)
    if kind == _PITCHED:
        width, height, step = call.unpacked("3Q", resource + 40)
        return Elements(address, form, (width, height, 0), step)
    raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "mipmapped arrays are not implemented")
