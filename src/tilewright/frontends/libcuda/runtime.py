"""Runtime functions that have no equivalent driver function.

Source: CUDA Runtime API; `driver_types.h` of CUDA 13, `cudaDeviceProp` and `cudaPointerAttributes`.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

from tilewright.frontends.libcuda import launches, loading, transfers
from tilewright.frontends.libcuda.structures import Block, Side
from tilewright.ground.native.memo import bounded
from tilewright.simulate.device import allocations, contexts, properties, streams
from tilewright.simulate.device.gpu import DriverError, EndedError, SimulatedGpu
from tilewright.simulate.device.host_side import Device
from tilewright.simulate.device.launching import LaunchConfig
from tilewright.simulate.device.modules import Kernel
from tilewright.simulate.device.pending_work import LEGACY

#: Fields of `cudaDeviceProp`: `s` is `size_t`, `u` unsigned, a number is an array of that many `int`, else an `int`.
#: CUDA 13 dropped those with a `-`.
_PROPERTIES = """
luidDeviceNodeMask:u totalGlobalMem:s sharedMemPerBlock:s regsPerBlock warpSize memPitch:s maxThreadsPerBlock
maxThreadsDim:3 maxGridSize:3 clockRate:- totalConstMem:s major minor textureAlignment:s texturePitchAlignment:s
deviceOverlap:- multiProcessorCount kernelExecTimeoutEnabled:- integrated canMapHostMemory computeMode:- maxTexture1D
maxTexture1DMipmap maxTexture1DLinear:- maxTexture2D:2 maxTexture2DMipmap:2 maxTexture2DLinear:3 maxTexture2DGather:2
maxTexture3D:3 maxTexture3DAlt:3 maxTextureCubemap maxTexture1DLayered:2 maxTexture2DLayered:3
maxTextureCubemapLayered:2 maxSurface1D maxSurface2D:2 maxSurface3D:3 maxSurface1DLayered:2 maxSurface2DLayered:3
maxSurfaceCubemap maxSurfaceCubemapLayered:2 surfaceAlignment:s concurrentKernels ECCEnabled pciBusID pciDeviceID
pciDomainID tccDriver asyncEngineCount unifiedAddressing memoryClockRate:- memoryBusWidth l2CacheSize
persistingL2CacheMaxSize maxThreadsPerMultiProcessor streamPrioritiesSupported globalL1CacheSupported
localL1CacheSupported sharedMemPerMultiprocessor:s regsPerMultiprocessor managedMemory isMultiGpuBoard
multiGpuBoardGroupID hostNativeAtomicSupported singleToDoublePrecisionPerfRatio:- pageableMemoryAccess
concurrentManagedAccess computePreemptionSupported canUseHostPointerForRegisteredMem cooperativeLaunch
cooperativeMultiDeviceLaunch:- sharedMemPerBlockOptin:s pageableMemoryAccessUsesHostPageTables
directManagedMemAccessFromHost maxBlocksPerMultiProcessor accessPolicyMaxWindowSize reservedSharedMemPerBlock:s
"""
_UNREGISTERED, _PINNED, _DEVICE, _MANAGED = range(4)  # cudaMemoryType
_MAPS_HOST = 8  # cudaDeviceMapHost
#: `cudaFuncAttributes`, and the driver's attribute number for each field.
_NEEDS, _NEEDED = "3Q13i64x", (1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14)


@bounded(2)
def properties_type(*, older: bool = False) -> Any:
    """`cudaDeviceProp` of CUDA 13, or of CUDA 12 and 11, without the part after the last known field."""
    kinds = {"s": ctypes.c_size_t, "u": ctypes.c_uint, "": ctypes.c_int, "-": ctypes.c_int}
    fields: list[Any] = [("name", ctypes.c_char * 256), ("uuid", ctypes.c_byte * 16), ("luid", ctypes.c_char * 8)]
    for text in _PROPERTIES.split():
        name, _, kind = text.partition(":")
        if kind != "-" or older:
            fields.append((name, kinds[kind] if kind in kinds else ctypes.c_int * int(kind)))
    return type("cudaDeviceProp", (ctypes.Structure,), {"_fields_": fields})


class PointerAttributes(ctypes.Structure):
    """The known part of `cudaPointerAttributes`."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("device_pointer", ctypes.c_size_t),
        ("host_pointer", ctypes.c_size_t),
    )


def cudaGetDevice(gpu: SimulatedGpu) -> int:
    """The only device."""
    return 0


def cudaSetDevice(gpu: SimulatedGpu, device: int) -> None:
    """Select the only device."""
    contexts.cuDeviceGet(gpu, device)


def cudaInitDevice(gpu: SimulatedGpu, device: int, device_flags: int, flags: int) -> None:
    """Select the only device."""
    contexts.cuDeviceGet(gpu, device)


def cudaChooseDevice(gpu: SimulatedGpu, wanted: int) -> int:
    """The device that fits the properties best."""
    return 0


def cudaSetDeviceFlags(gpu: SimulatedGpu, flags: int) -> None:
    """Set how the host waits; no effect here."""
    gpu.host.device_flags = flags


def cudaGetDeviceFlags(gpu: SimulatedGpu) -> int:
    """How the host waits."""
    return gpu.host.device_flags | _MAPS_HOST


def cudaDeviceGetCacheConfig(gpu: SimulatedGpu) -> int:
    """The preference for first-level cache or shared memory: none."""
    return 0


def cudaDeviceGetSharedMemConfig(gpu: SimulatedGpu) -> int:
    """The width of banks: four bytes."""
    return 1


def cudaDeviceReset(gpu: SimulatedGpu) -> None:
    """Destroy everything on the device."""
    gpu.reset()


def cudaGetDeviceProperties(gpu: SimulatedGpu, address: int, device: int) -> None:
    """Write the device's properties to a structure."""
    _write_properties(gpu, properties_type()(), address, device)


def cudaGetDeviceProperties_v2(gpu: SimulatedGpu, address: int, device: int) -> None:
    """Write the device's properties to a structure of CUDA 12."""
    _write_properties(gpu, properties_type(older=True)(), address, device)


def _write_properties(gpu: SimulatedGpu, found: ctypes.Structure, address: int, device: int) -> None:
    contexts.cuDeviceGet(gpu, device)
    for name, value in properties.of(gpu).items():
        if hasattr(type(found), name):
            kind = type(getattr(found, name))
            setattr(found, name, kind(*value) if issubclass(kind, ctypes.Array) and name != "name" else value)
    gpu.host.write(address, bytes(found))


def cudaMalloc(gpu: SimulatedGpu, size: int) -> int:
    """Device memory; a size of 0 is no error."""
    return gpu.allocate(size) if size else 0


def cudaMallocAsync(gpu: SimulatedGpu, size: int, stream: int) -> int:
    """Device memory, in a stream; a size of 0 is no error."""
    return int(allocations.cuMemAllocAsync(gpu, size, stream)) if size else 0


def cudaMallocFromPoolAsync(gpu: SimulatedGpu, size: int, pool: int, stream: int) -> int:
    """Device memory of a pool, in a stream; a size of 0 is no error."""
    return cudaMallocAsync(gpu, size, stream)


def cudaMallocPitch(gpu: SimulatedGpu, width: int, height: int) -> tuple[int, int]:
    """Device memory for rows, and the pitch; a size of 0 is no error."""
    pitch = transfers.row_bytes(width)
    return cudaMalloc(gpu, pitch * height), pitch


def cudaMallocHost(gpu: SimulatedGpu, size: int) -> int:
    """Pinned host memory; a size of 0 is no error."""
    return cudaHostAlloc(gpu, size, 0)


def cudaHostAlloc(gpu: SimulatedGpu, size: int, flags: int) -> int:
    """Pinned host memory; a size of 0 is no error."""
    return allocations.cuMemHostAlloc(gpu, size, flags) if size else 0


def cudaFree(gpu: SimulatedGpu, address: int) -> None:
    """Free memory; 0 has no effect, and neither has memory of a simulated GPU that has ended."""
    with suppress(EndedError):
        gpu.refuse_ended(address)
        allocations.cuMemFree(gpu, address)


def cudaFreeAsync(gpu: SimulatedGpu, address: int, stream: int) -> None:
    """Free memory, in a stream; like :func:`cudaFree`."""
    with suppress(EndedError):
        gpu.refuse_ended(address)
        allocations.cuMemFreeAsync(gpu, address, stream)


def cudaFreeHost(gpu: SimulatedGpu, address: int) -> None:
    """Free pinned host memory; 0 has no effect."""
    if address:
        gpu.refuse_ended(address)
        allocations.cuMemFreeHost(gpu, address)


def cudaPointerGetAttributes(gpu: SimulatedGpu, address: int, pointer: int) -> None:
    """Write the kind of memory of a pointer to a structure."""
    extent, start = gpu.memory.extent(pointer), allocations.registered_at(gpu, pointer)
    kind = _UNREGISTERED
    if start is not None or (extent is not None and extent[0] in gpu.pinned):
        kind = _PINNED
    elif extent is not None:
        kind = _MANAGED if extent[0] in gpu.host_visible else _DEVICE
    on_device = pointer if extent is not None else 0
    if start is not None and gpu.registered[start].address:
        on_device = allocations.device_address(gpu, pointer)
    host = 0 if kind == _DEVICE else pointer
    gpu.host.write(address, bytes(PointerAttributes(kind, 0 if kind else -2, on_device, host)))


def cudaMemcpy(gpu: SimulatedGpu, target: int, source: int, size: int, kind: int) -> None:
    """Copy bytes."""
    allocations.copy(gpu, target, source, size, kind)


def cudaMemcpyAsync(gpu: SimulatedGpu, target: int, source: int, size: int, kind: int, stream: int) -> None:
    """Copy bytes, in a stream."""
    allocations.copy_in(gpu, stream, target, source, size, kind)


def cudaMemcpy2DAsync(
    gpu: SimulatedGpu,
    target: int,
    target_step: int,
    source: int,
    source_step: int,
    width: int,
    height: int,
    kind: int,
    stream: int,
) -> None:
    """Copy rows, in a stream."""
    sides = Side(target, target_step, height), Side(source, source_step, height)
    transfers.cuMemcpy3DAsync(gpu, Block(*sides, width, height, 1, kind), stream)


cudaMemcpy2D = transfers.waiting(cudaMemcpy2DAsync)


def cudaMalloc3D(gpu: SimulatedGpu, extent: tuple[int, int, int]) -> tuple[tuple[int, ...]]:
    """Pitched device memory for rows of planes."""
    width, height, depth = extent
    step = transfers.row_bytes(width)
    return ((cudaMalloc(gpu, step * height * depth), step, width, height),)


def cudaMemset3DAsync(
    gpu: SimulatedGpu, place: tuple[int, ...], value: int, extent: tuple[int, int, int], stream: int
) -> None:
    """Set bytes of planes, in a stream."""
    transfers.fill_planes(gpu, stream, place, bytes([value & 0xFF]), extent)


def cudaMemset3D(gpu: SimulatedGpu, place: tuple[int, ...], value: int, extent: tuple[int, int, int]) -> None:
    """Set bytes of planes."""
    cudaMemset3DAsync(gpu, place, value, extent, LEGACY)


# -- variables of a program -------------------------------------------------------------------------------------


def cudaGetSymbolAddress(gpu: SimulatedGpu, symbol: tuple[int, int]) -> int:
    """A variable's address on the device."""
    return symbol[0]


def cudaGetSymbolSize(gpu: SimulatedGpu, symbol: tuple[int, int]) -> int:
    """The size of a variable."""
    return symbol[1]


def cudaMemcpyToSymbolAsync(
    gpu: SimulatedGpu, symbol: tuple[int, int], source: int, size: int, offset: int, kind: int, stream: int
) -> None:
    """Copy bytes into a variable, in a stream."""
    allocations.copy_in(gpu, stream, _part(symbol, offset, size), source, size, kind)


def cudaMemcpyFromSymbolAsync(
    gpu: SimulatedGpu, target: int, symbol: tuple[int, int], size: int, offset: int, kind: int, stream: int
) -> None:
    """Copy bytes from a variable, in a stream."""
    allocations.copy_in(gpu, stream, target, _part(symbol, offset, size), size, kind)


cudaMemcpyToSymbol = transfers.waiting(cudaMemcpyToSymbolAsync)
cudaMemcpyFromSymbol = transfers.waiting(cudaMemcpyFromSymbolAsync)


def _part(symbol: tuple[int, int], offset: int, size: int) -> int:
    """The device address of a part of a variable."""
    address, whole = symbol
    if offset + size > whole:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "a copy must be inside its variable")
    return address + offset


# -- kernels, streams and events --------------------------------------------------------------------------------


def cudaFuncGetAttributes(gpu: SimulatedGpu, attributes: int, kernel: Kernel) -> None:
    """The resources of a kernel."""
    gpu.host.pack(_NEEDS, attributes, *(loading.cuFuncGetAttribute(gpu, one, kernel) for one in _NEEDED))


def cudaLaunchKernel(
    gpu: SimulatedGpu,
    kernel: Kernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    arguments: int,
    shared: int,
    stream: int,
) -> None:
    """Launch a kernel."""
    launches.launch(gpu, stream, LaunchConfig(grid, block, None, shared), kernel, arguments)


def cudaLaunchCooperativeKernel(
    gpu: SimulatedGpu,
    kernel: Kernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    arguments: int,
    shared: int,
    stream: int,
) -> None:
    """Launch a kernel whose blocks can wait for each other."""
    config = LaunchConfig(grid, block, None, shared, cooperative_launch=True)
    launches.launch(gpu, stream, config, kernel, arguments)


def cudaStreamSetAttribute(gpu: SimulatedGpu, stream: int, attribute: int, value: int) -> None:
    """Set an attribute; no effect here."""
    gpu.stream(stream)


def cudaStreamCreate(gpu: SimulatedGpu) -> Any:
    """A stream."""
    return streams.cuStreamCreate(gpu, 0)


def cudaEventCreate(gpu: SimulatedGpu) -> Any:
    """An event."""
    return streams.cuEventCreate(gpu, 0)


def current(gpu: SimulatedGpu) -> None:
    """Make the primary context current in this thread, as every runtime function does."""
    if gpu.process is None:
        contexts.cuInit(gpu, 0)
    Device(gpu).set_current()
