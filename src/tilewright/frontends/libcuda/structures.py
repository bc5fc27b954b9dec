"""The structures that CUDA calls read and write: their layouts in the driver and in the runtime.

Both layouts are read into one Python value, so an implementation does not depend on the API that was called.

Source: `cuda.h`, `driver_types.h`, `texture_types.h`; CUDA Driver API, "Data types used by CUDA driver".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from tilewright.frontends.libcuda.launches import values_at
from tilewright.frontends.programs.arrays import Elements
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.device.launching import LaunchConfig
from tilewright.simulate.state import TEXTURES

_HOST, _ARRAY = 1, 3  # CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY
_RESOURCE_ARRAY, RESOURCE_LINEAR, _RESOURCE_PITCHED = 0, 2, 3  # CU_RESOURCE_TYPE_*, cudaResourceType*
_ANYWHERE = 4  # cudaMemcpyDefault
#: `CUarray_format` -> bits of a channel, and the kind of its numbers.
_FORMATS: Mapping[int, tuple[int, int]] = MappingProxyType(
    {
        0x01: (8, TEXTURES["elements_unsigned"]),
        0x02: (16, TEXTURES["elements_unsigned"]),
        0x03: (32, TEXTURES["elements_unsigned"]),
        0x08: (8, TEXTURES["elements_signed"]),
        0x09: (16, TEXTURES["elements_signed"]),
        0x0A: (32, TEXTURES["elements_signed"]),
        0x10: (16, TEXTURES["elements_float"]),
        0x20: (32, TEXTURES["elements_float"]),
    }
)
_AS_INTEGERS, _NORMALIZED, _SRGB = 1, 2, 16  # CU_TRSF_*


class Side(NamedTuple):
    """One side of a copy of rows of planes: the first byte, bytes from row to row, and rows from plane to plane."""

    address: int
    row_bytes: int
    plane_rows: int


class Block(NamedTuple):
    """A copy of rows of planes."""

    target: Side
    source: Side
    width: int  #: In bytes.
    height: int
    depth: int
    kind: int  #: `cudaMemcpyKind`.


class Fill(NamedTuple):
    """Rows of equal elements."""

    target: int
    step: int
    value: int
    element_bytes: int
    width: int
    height: int


class Started(NamedTuple):
    """A launch."""

    kernel: Any
    config: LaunchConfig
    values: Sequence[bytes]


class Shape(NamedTuple):
    """The elements of an array that is made: their format, the extents, and flags."""

    format: tuple[int, ...]
    extent: tuple[int, int, int]
    flags: int


class Resource(NamedTuple):
    """The memory of a texture or surface."""

    kind: int
    handle: int  #: Of the array; else the address.
    elements: Elements


class Sampling(NamedTuple):
    """How a texture is read."""

    modes: tuple[int, int, int]
    linear: int
    as_fractions: bool  #: Whether integers are read as numbers from 0 or -1 to 1.
    srgb: bool
    border: tuple[float, float, float, float]
    normalized: bool
    levels: tuple[int, ...]  #: Words about mipmap levels, which have no effect.


@dataclass(frozen=True)
class Layout:
    """One structure: its reader gets an address; its writer gives the bytes of what was read."""

    read: Callable[[SimulatedGpu, int], Any]
    write: Callable[[Any], bytes] | None = None


def array(gpu: SimulatedGpu, handle: int) -> Elements:
    """An array by its handle."""
    found: Elements | None = gpu.arrays.get(handle)
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE", "there is no such array")
    return found


def side_of_array(elements: Elements, x_bytes: int, y: int, z: int) -> Side:
    """A side in an array, from an offset."""
    rows = max(elements.extent[1], 1)
    return Side(elements.address + (z * rows + y) * elements.row_bytes + x_bytes, elements.row_bytes, rows)


# -- copies, fills and launches ---------------------------------------------------------------------------------


def _copy_2d(gpu: SimulatedGpu, at: int) -> Block:
    """`CUDA_MEMCPY2D`."""
    values = gpu.host.unpacked("QQI4xQQQQ QQI4xQQQQ QQ", at)
    width, height = values[14:]
    source, target = (
        _side(gpu, kind, (host, device, array_), (x, y, 0), (pitch or width, height))
        for x, y, kind, host, device, array_, pitch in (values[:7], values[7:14])
    )
    return Block(target, source, width, height, 1, _ANYWHERE)


def _copy_3d(gpu: SimulatedGpu, at: int) -> Block:
    """`CUDA_MEMCPY3D`."""
    values = gpu.host.unpacked("4QI4x3Q8x2Q 4QI4x3Q8x2Q 3Q", at)
    width, height, depth = values[20:]
    source, target = (
        _side(gpu, kind, (host, device, array_), (x, y, z), (pitch or width, rows or height))
        for x, y, z, _, kind, host, device, array_, pitch, rows in (values[:10], values[10:20])
    )
    return Block(target, source, width, height, depth, _ANYWHERE)


def _side(
    gpu: SimulatedGpu, kind: int, places: Sequence[int], offset: tuple[int, int, int], steps: tuple[int, int]
) -> Side:
    """A side by the driver's structure; `places` are a host address, a device address and an array."""
    if kind == _ARRAY:
        return side_of_array(array(gpu, places[2]), *offset)
    x, y, z = offset
    return Side(places[0 if kind == _HOST else 1] + (z * steps[1] + y) * steps[0] + x, *steps)


def _runtime_copy_3d(gpu: SimulatedGpu, at: int) -> Block:
    """`cudaMemcpy3DParms`: with an array, the extent counts elements; offsets in an array always do."""
    values = gpu.host.unpacked("Q3Q4QQ3Q4Q3Qi4x", at)
    width, height, depth, kind = values[16:]
    sides, element_bytes = [], 1
    for handle, x, y, z, address, step, _, rows in (values[8:16], values[:8]):
        if handle:
            elements = array(gpu, handle)
            element_bytes = max(element_bytes, elements.element_bytes)
            sides.append(side_of_array(elements, x * elements.element_bytes, y, z))
        else:
            sides.append(Side(address + (z * rows + y) * step + x, step, rows))
    return Block(sides[0], sides[1], width * element_bytes, height, depth, kind)


def _fill(gpu: SimulatedGpu, at: int) -> Fill:
    """`CUDA_MEMSET_NODE_PARAMS` and `cudaMemsetParams`."""
    return Fill(*gpu.host.unpacked("2Q2I2Q", at))


def _started(gpu: SimulatedGpu, at: int) -> Started:
    """`CUDA_KERNEL_NODE_PARAMS` and `cudaKernelNodeParams`."""
    function, *extents, shared_bytes, arguments, extra = gpu.host.unpacked("Q6II4xQQ", at)
    kernel = gpu.host.kernel(function or gpu.host.unpacked("Q", at + 56))  # the driver's may have a CUkernel instead
    config = LaunchConfig(tuple(extents[:3]), tuple(extents[3:]), None, shared_bytes)
    return Started(kernel, config, values_at(gpu, kernel, arguments, extra))


# -- arrays, textures and surfaces ------------------------------------------------------------------------------


def _format(number: int, channels: int) -> tuple[int, ...]:
    """`cudaChannelFormatDesc` of a `CUarray_format`."""
    if number not in _FORMATS or channels not in (1, 2, 4):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", f"an array has no {channels} channels of format {number}")
    bits, kind = _FORMATS[number]
    return (*[bits] * channels, *[0] * (4 - channels), kind)


def _drivers_format(format_: tuple[int, ...]) -> tuple[int, int]:
    """The `CUarray_format` and channels of a `cudaChannelFormatDesc`."""
    number = {value: key for key, value in _FORMATS.items()}[format_[0], format_[4]]
    return number, sum(1 for bits in format_[:4] if bits)


def _shape_2d(gpu: SimulatedGpu, at: int) -> Shape:
    width, height, number, channels = gpu.host.unpacked("2Q2I", at)
    return Shape(_format(number, channels), (width, height, 0), 0)


def _shape_3d(gpu: SimulatedGpu, at: int) -> Shape:
    width, height, depth, number, channels, flags = gpu.host.unpacked("3Q3I", at)
    return Shape(_format(number, channels), (width, height, depth), flags)


def _shape_bytes(of: Shape) -> bytes:
    """`CUDA_ARRAY3D_DESCRIPTOR`; `CUDA_ARRAY_DESCRIPTOR` lacks the depth and the flags."""
    return struct.pack("<3Q3I4x", *of.extent, *_drivers_format(of.format), of.flags)


def _resource(gpu: SimulatedGpu, at: int) -> Resource:
    """`CUDA_RESOURCE_DESC`."""
    return _of(gpu, at, lambda: _format(*gpu.host.unpacked("2I", at + 16)), 24)


def _runtime_resource(gpu: SimulatedGpu, at: int) -> Resource:
    """`cudaResourceDesc`."""
    return _of(gpu, at, lambda: gpu.host.unpacked("5i", at + 16), 40)


def _of(gpu: SimulatedGpu, at: int, format_: Callable[[], tuple[int, ...]], sizes_at: int) -> Resource:
    """A resource; its kind and its address or array have one place in both APIs."""
    kind, address = gpu.host.unpacked("i4xQ", at)
    if kind == _RESOURCE_ARRAY:
        return Resource(kind, address, array(gpu, address))
    if kind == RESOURCE_LINEAR:
        form, size_bytes = format_(), gpu.host.unpacked("Q", at + sizes_at)
        extent = (size_bytes // max(sum(form[:4]) // 8, 1), 0, 0)
        return Resource(kind, address, Elements(address, form, extent, size_bytes))
    if kind == _RESOURCE_PITCHED:
        width, height, step = gpu.host.unpacked("3Q", at + sizes_at)
        return Resource(kind, address, Elements(address, format_(), (width, height, 0), step))
    raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "mipmapped arrays are not implemented")


def _sizes(of: Resource) -> tuple[int, ...]:
    """The three numbers after the format."""
    elements = of.elements
    if of.kind == _RESOURCE_PITCHED:
        return (*elements.extent[:2], elements.row_bytes)
    return (elements.row_bytes if of.kind == RESOURCE_LINEAR else 0, 0, 0)


def _resource_bytes(of: Resource) -> bytes:
    form = _drivers_format(of.elements.format) if of.kind != _RESOURCE_ARRAY else (0, 0)
    return struct.pack("<i4xQ2I3Q", of.kind, of.handle, *form, *_sizes(of))


def _runtime_resource_bytes(of: Resource) -> bytes:
    form = of.elements.format if of.kind != _RESOURCE_ARRAY else (0,) * 5
    return struct.pack("<i4xQ5i4x3Q", of.kind, of.handle, *form, *_sizes(of))


def _sampling(gpu: SimulatedGpu, at: int) -> Sampling:
    """`CUDA_TEXTURE_DESC`."""
    *modes, linear, flags, a, b, c, d, e = gpu.host.unpacked("4iI5I", at)
    border = gpu.host.unpacked("4f", at + 40)
    x, y, z = modes
    switches = not flags & _AS_INTEGERS, bool(flags & _SRGB)
    return Sampling((x, y, z), linear, *switches, border, bool(flags & _NORMALIZED), (a, b, c, d, e))


def _runtime_sampling(gpu: SimulatedGpu, at: int) -> Sampling:
    """`cudaTextureDesc`."""
    x, y, z, linear, fractions, srgb, *rest = gpu.host.unpacked("6i4fi5I", at)
    return Sampling((x, y, z), linear, bool(fractions), bool(srgb), tuple(rest[:4]), bool(rest[4]), tuple(rest[5:]))


def _sampling_bytes(of: Sampling) -> bytes:
    flags = _AS_INTEGERS * (not of.as_fractions) | _NORMALIZED * of.normalized | _SRGB * of.srgb
    return struct.pack("<4i6I4f", *of.modes, of.linear, flags, *of.levels, *of.border)


def _runtime_sampling_bytes(of: Sampling) -> bytes:
    switches = int(of.as_fractions), int(of.srgb)
    return struct.pack("<6i4fi5I", *of.modes, of.linear, *switches, *of.border, of.normalized, *of.levels)


def _numbers(form: str) -> Layout:
    """A structure that is a tuple of numbers."""
    packing = struct.Struct(f"<{form}")
    return Layout(lambda gpu, at: gpu.host.unpacked(form, at), lambda values: packing.pack(*values))


#: Structures by the types of pointers in prototypes.
LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "CUDA_MEMCPY2D": Layout(_copy_2d),
        "CUDA_MEMCPY3D": Layout(_copy_3d),
        "cudaMemcpy3DParms": Layout(_runtime_copy_3d),
        "CUDA_MEMSET_NODE_PARAMS": Layout(_fill),
        "cudaMemsetParams": Layout(_fill),
        "CUDA_KERNEL_NODE_PARAMS": Layout(_started),
        "cudaKernelNodeParams": Layout(_started),
        "CUDA_HOST_NODE_PARAMS": _numbers("2Q"),
        "cudaHostNodeParams": _numbers("2Q"),
        "CUgraphExecUpdateResultInfo": _numbers("i4x2Q"),
        "cudaGraphExecUpdateResultInfo": _numbers("i4x2Q"),
        "CUDA_ARRAY_DESCRIPTOR": Layout(_shape_2d, lambda of: _shape_bytes(of)[:16] + _shape_bytes(of)[24:32]),
        "CUDA_ARRAY3D_DESCRIPTOR": Layout(_shape_3d, _shape_bytes),
        "cudaChannelFormatDesc": _numbers("5i"),
        "cudaExtent": _numbers("3Q"),
        "cudaPitchedPtr": _numbers("4Q"),
        "CUDA_RESOURCE_DESC": Layout(_resource, _resource_bytes),
        "cudaResourceDesc": Layout(_runtime_resource, _runtime_resource_bytes),
        "CUDA_TEXTURE_DESC": Layout(_sampling, _sampling_bytes),
        "cudaTextureDesc": Layout(_runtime_sampling, _runtime_sampling_bytes),
    }
)
