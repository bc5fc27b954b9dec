"""What the runtime's functions answer that no call of the driver does.

Source: CUDA Runtime API; `driver_types.h` of CUDA 13, `cudaDeviceProp` and `cudaPointerAttributes`.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

from tilewright.drivers import allocations, contexts, properties, streams
from tilewright.drivers.gpu import DriverError, EndedError, SimulatedGpu
from tilewright.drivers.host_side import Device
from tilewright.drivers.libcuda import transfers
from tilewright.drivers.outstanding import LEGACY
from tilewright.native.once import once

#: Fields of `cudaDeviceProp`: `s` is `size_t`, `u` unsigned, a number an array of so many `int`, else an `int`.
_PROPERTIES = """
luidDeviceNodeMask:u totalGlobalMem:s sharedMemPerBlock:s regsPerBlock warpSize memPitch:s maxThreadsPerBlock
maxThreadsDim:3 maxGridSize:3 totalConstMem:s major minor textureAlignment:s texturePitchAlignment:s multiProcessorCount
integrated canMapHostMemory maxTexture1D maxTexture1DMipmap maxTexture2D:2 maxTexture2DMipmap:2 maxTexture2DLinear:3
maxTexture2DGather:2 maxTexture3D:3 maxTexture3DAlt:3 maxTextureCubemap maxTexture1DLayered:2 maxTexture2DLayered:3
maxTextureCubemapLayered:2 maxSurface1D maxSurface2D:2 maxSurface3D:3 maxSurface1DLayered:2 maxSurface2DLayered:3
maxSurfaceCubemap maxSurfaceCubemapLayered:2 surfaceAlignment:s concurrentKernels ECCEnabled pciBusID pciDeviceID
pciDomainID tccDriver asyncEngineCount unifiedAddressing memoryBusWidth l2CacheSize persistingL2CacheMaxSize
maxThreadsPerMultiProcessor streamPrioritiesSupported globalL1CacheSupported localL1CacheSupported
sharedMemPerMultiprocessor:s regsPerMultiprocessor managedMemory isMultiGpuBoard multiGpuBoardGroupID
hostNativeAtomicSupported pageableMemoryAccess concurrentManagedAccess computePreemptionSupported
canUseHostPointerForRegisteredMem cooperativeLaunch sharedMemPerBlockOptin:s pageableMemoryAccessUsesHostPageTables
directManagedMemAccessFromHost maxBlocksPerMultiProcessor accessPolicyMaxWindowSize reservedSharedMemPerBlock:s
"""
_DEVICE, _MANAGED, _PINNED, _UNREGISTERED = 2, 3, 1, 0  # cudaMemoryType


@once
def properties_type() -> Any:
    """`cudaDeviceProp`, without what follows the last field that is known."""
    kinds = {"s": ctypes.c_size_t, "u": ctypes.c_uint, "": ctypes.c_int}
    fields: list[Any] = [("name", ctypes.c_char * 256), ("uuid", ctypes.c_byte * 16), ("luid", ctypes.c_char * 8)]
    for text in _PROPERTIES.split():
        name, _, kind = text.partition(":")
        fields.append((name, kinds[kind] if kind in kinds else ctypes.c_int * int(kind)))
    return type("cudaDeviceProp", (ctypes.Structure,), {"_fields_": fields})


class PointerAttributes(ctypes.Structure):
    """`cudaPointerAttributes`, up to what is known."""

    _fields_ = (
        ("type", ctypes.c_int), ("device", ctypes.c_int), ("device_pointer", ctypes.c_size_t),
        ("host_pointer", ctypes.c_size_t),
    )  # fmt: skip


def cudaGetDevice(gpu: SimulatedGpu) -> int:
    """The one device."""
    return 0


def cudaSetDevice(gpu: SimulatedGpu, device: int) -> None:
    """Choose the one device."""
    contexts.cuDeviceGet(gpu, device)


def cudaInitDevice(gpu: SimulatedGpu, device: int, device_flags: int, flags: int) -> None:
    """Choose the one device."""
    contexts.cuDeviceGet(gpu, device)


def cudaDeviceCanAccessPeer(gpu: SimulatedGpu, device: int, peer: int) -> int:
    """Whether a device reaches another one's memory."""
    return contexts.cuDeviceCanAccessPeer(gpu, device, peer)


def cudaDeviceReset(gpu: SimulatedGpu) -> None:
    """Destroy all that the device holds."""
    gpu.reset()


def cudaGetDeviceProperties(gpu: SimulatedGpu, address: int, device: int) -> None:
    """What the device is, to a structure."""
    found = properties_type().from_address(address)
    ctypes.memset(address, 0, ctypes.sizeof(found))
    for name, value in properties.of(gpu).items():
        if hasattr(type(found), name):
            kind = type(getattr(found, name))
            setattr(found, name, kind(*value) if issubclass(kind, ctypes.Array) and name != "name" else value)


def cudaMalloc(gpu: SimulatedGpu, size: int) -> int:
    """Device memory; none is no error."""
    return gpu.allocate(size) if size else 0


def cudaMallocAsync(gpu: SimulatedGpu, size: int, stream: int) -> int:
    """Device memory, in a stream; none is no error."""
    return transfers.cuMemAllocAsync(gpu, size, stream) if size else 0


def cudaMallocFromPoolAsync(gpu: SimulatedGpu, size: int, pool: int, stream: int) -> int:
    """Device memory of a pool, in a stream; none is no error."""
    return cudaMallocAsync(gpu, size, stream)


def cudaMallocPitch(gpu: SimulatedGpu, width: int, height: int) -> tuple[int, int]:
    """Device memory of rows, and the bytes from each to the next."""
    return transfers.cuMemAllocPitch(gpu, width, height, 4)


def cudaFree(gpu: SimulatedGpu, address: int) -> None:
    """Give memory back; 0 is nothing, and so is memory of a simulated GPU that has ended."""
    with suppress(EndedError):
        gpu.refuse_ended(address)
        allocations.cuMemFree(gpu, address)


def cudaFreeAsync(gpu: SimulatedGpu, address: int, stream: int) -> None:
    """Give memory back, in a stream."""
    cudaFree(gpu, address)


def cudaFreeHost(gpu: SimulatedGpu, address: int) -> None:
    """Give pinned host memory back; 0 is nothing."""
    if address:
        gpu.refuse_ended(address)
        allocations.cuMemFreeHost(gpu, address)


def cudaPointerGetAttributes(gpu: SimulatedGpu, address: int, pointer: int) -> None:
    """What memory a pointer is of, to a structure."""
    found = PointerAttributes.from_address(address)
    extent = gpu.memory.extent(pointer)
    shared = extent is not None and extent[0] in gpu.host_visible
    kind = _UNREGISTERED if extent is None else _MANAGED if shared else _DEVICE
    if shared and extent is not None and extent[0] in gpu.pinned:
        kind = _PINNED
    found.type, found.device = kind, 0 if extent is not None else -2
    found.device_pointer = pointer if extent is not None else 0
    found.host_pointer = pointer if extent is None or shared else 0


def cudaMemcpy(gpu: SimulatedGpu, target: int, source: int, size: int, kind: int) -> None:
    """Copy; where from and to is asked of the addresses."""
    transfers.cuMemcpy(gpu, target, source, size)


def cudaMemcpyAsync(gpu: SimulatedGpu, target: int, source: int, size: int, kind: int, stream: int) -> None:
    """Copy, in a stream."""
    transfers.cuMemcpyAsync(gpu, target, source, size, stream)


def cudaMemcpy2D(
    gpu: SimulatedGpu, target: int, target_step: int, source: int, source_step: int, width: int, height: int, kind: int
) -> None:
    """Copy rows."""
    cudaMemcpy2DAsync(gpu, target, target_step, source, source_step, width, height, kind, LEGACY)
    gpu.outstanding.synchronised(LEGACY)


def cudaMemcpy2DAsync(
    gpu: SimulatedGpu, target: int, target_step: int, source: int, source_step: int, width: int, height: int, kind: int,
    stream: int,
) -> None:  # fmt: skip
    """Copy rows, in a stream."""
    if width > min(target_step, source_step):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "rows are longer than the distance between them")
    transfers.copy_rows(gpu, target, target_step, source, source_step, width, height, stream)


def cudaMemset(gpu: SimulatedGpu, target: int, value: int, count: int) -> None:
    """Set bytes."""
    if count:
        allocations.cuMemsetD8(gpu, target, value, count)


def cudaMemsetAsync(gpu: SimulatedGpu, target: int, value: int, count: int, stream: int) -> None:
    """Set bytes, in a stream."""
    if count:
        allocations.cuMemsetD8Async(gpu, target, value, count, stream)


def cudaStreamCreate(gpu: SimulatedGpu) -> Any:
    """A stream."""
    return streams.cuStreamCreate(gpu, 0)


def cudaEventCreate(gpu: SimulatedGpu) -> Any:
    """An event."""
    return streams.cuEventCreate(gpu, 0)


def current(gpu: SimulatedGpu) -> None:
    """Make the primary context this thread's, as every function of the runtime does."""
    if gpu.process is None:
        contexts.cuInit(gpu, 0)
    Device(gpu).set_current()
