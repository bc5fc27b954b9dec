"""The values of `cudaGetDeviceProperties` for the simulated GPU: one table for every kind of program.

Source: CUDA Runtime API, `cudaDeviceProp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.simulate.device.contexts import ATTRIBUTES
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.host_side import Device

#: The device's bus address, although it is on no bus.
PCI = b"0000:01:00.0"

#: Field of `cudaDeviceProp` -> the attribute with its value.
FIELDS: Mapping[str, str] = MappingProxyType({
    "sharedMemPerBlock": "MAX_SHARED_MEMORY_PER_BLOCK", "regsPerBlock": "MAX_REGISTERS_PER_BLOCK",
    "warpSize": "WARP_SIZE", "memPitch": "MAX_PITCH", "maxThreadsPerBlock": "MAX_THREADS_PER_BLOCK",
    "totalConstMem": "TOTAL_CONSTANT_MEMORY", "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR", "textureAlignment": "TEXTURE_ALIGNMENT",
    "multiProcessorCount": "MULTIPROCESSOR_COUNT", "canMapHostMemory": "CAN_MAP_HOST_MEMORY",
    "concurrentKernels": "CONCURRENT_KERNELS", "asyncEngineCount": "ASYNC_ENGINE_COUNT",
    "unifiedAddressing": "UNIFIED_ADDRESSING", "l2CacheSize": "L2_CACHE_SIZE",
    "maxThreadsPerMultiProcessor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "streamPrioritiesSupported": "STREAM_PRIORITIES_SUPPORTED", "globalL1CacheSupported": "GLOBAL_L1_CACHE_SUPPORTED",
    "localL1CacheSupported": "LOCAL_L1_CACHE_SUPPORTED",
    "sharedMemPerMultiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "regsPerMultiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR", "managedMemory": "MANAGED_MEMORY",
    "concurrentManagedAccess": "CONCURRENT_MANAGED_ACCESS",
    "computePreemptionSupported": "COMPUTE_PREEMPTION_SUPPORTED", "cooperativeLaunch": "COOPERATIVE_LAUNCH",
    "sharedMemPerBlockOptin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "maxBlocksPerMultiProcessor": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "reservedSharedMemPerBlock": "RESERVED_SHARED_MEMORY_PER_BLOCK", "hostRegisterSupported": "HOST_REGISTER_SUPPORTED",
    "canUseHostPointerForRegisteredMem": "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM",
    "memoryPoolsSupported": "MEMORY_POOLS_SUPPORTED", "clusterLaunch": "CLUSTER_LAUNCH",
    "clockRate": "CLOCK_RATE", "deviceOverlap": "GPU_OVERLAP",
    "singleToDoublePrecisionPerfRatio": "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO",
})  # fmt: skip


def of(gpu: SimulatedGpu) -> dict[str, Any]:
    """Fields with their values; the others are 0, for features that the simulated GPU lacks."""
    record = gpu.record
    return {
        **{field: _number(ATTRIBUTES.get(attribute, 0), record) for field, attribute in FIELDS.items()},
        "name": record.name.encode(),
        "uuid": bytes.fromhex(Device(gpu, 0).uuid.replace("-", "")),
        "totalGlobalMem": gpu.memory.capacity_bytes,
        "maxThreadsDim": record.launch.block_extents,
        "maxGridSize": record.launch.grid_extents,
        "texturePitchAlignment": 32,
        "surfaceAlignment": 512,
        "maxTexture1D": 131072,
        "maxTexture1DLinear": 1 << 28,
        "maxTexture2D": (131072, 65536),
        "maxTexture3D": (16384,) * 3,
        "maxTexture1DLayered": (32768, 2048),
        "maxTexture2DLayered": (32768, 32768, 2048),
        "hostNumaId": -1,
        "pciBusID": int(PCI[5:7], 16),
    }


def _number(value: Any, record: Any) -> int:
    return value if isinstance(value, int) else int(value(record))
