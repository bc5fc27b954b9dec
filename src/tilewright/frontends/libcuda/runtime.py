"""Runtime functions that are not the same as a driver function.

Source: CUDA Runtime API; `driver_types.h` of CUDA 13, `cudaDeviceProp` and `cudaPointerAttributes`.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

from tilewright.frontends.libcuda import transfers
from tilewright.ground.native.memo import bounded
from tilewright.simulate.device import allocations, contexts, properties, streams
from tilewright.simulate.device.gpu import EndedError, SimulatedGpu
from tilewright.simulate.device.host_side import Device
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
        ("type", ctypes.c_int), ("device", ctypes.c_int), ("device_pointer", ctypes.c_size_t),
        ("host_pointer", ctypes.c_size_t),
    )  # fmt: skip


def cudaGetDevice(gpu: SimulatedGpu) -> int:
    """The only device."""
    return 0


def cudaSetDevice(gpu: SimulatedGpu, device: int) -> None:
    """Select the only device."""
    contexts.cuDeviceGet(gpu, device)


def cudaInitDevice(gpu: SimulatedGpu, device: int, device_flags: int, flags: int) -> None:
    """Select the only device."""
    contexts.cuDeviceGet(gpu, device)


def cudaDeviceCanAccessPeer(gpu: SimulatedGpu, device: int, peer: int) -> int:
    """Whether a device accesses another one's memory."""
    return contexts.cuDeviceCanAccessPeer(gpu, device, peer)


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
    return transfers.cuMemAllocAsync(gpu, size, stream) if size else 0


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


def cudaMemcpy2D(
    gpu: SimulatedGpu, target: int, target_step: int, source: int, source_step: int, width: int, height: int, kind: int
) -> None:
    """Copy rows."""
    transfers.copy_rows_in(gpu, LEGACY, target, target_step, source, source_step, width, height, kind)
    gpu.outstanding.synchronised(LEGACY)


def cudaMemcpy2DAsync(
    gpu: SimulatedGpu, target: int, target_step: int, source: int, source_step: int, width: int, height: int, kind: int,
    stream: int,
) -> None:  # fmt: skip
    """Copy rows, in a stream."""
    transfers.copy_rows_in(gpu, stream, target, target_step, source, source_step, width, height, kind)


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
