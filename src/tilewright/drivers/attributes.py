"""Attributes of the device, from its record. What is missing here is a feature that the simulated GPU lacks.

Source: CUDA Driver API, `CUdevice_attribute`; the values of the first group: CUDA Programming Guide, appendix "Compute
Capabilities".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.machine.gpu import WARP_LANES, Gpu

#: Attribute -> its value, or what computes it from the device's record.
ATTRIBUTES: Mapping[str, int | Callable[[Gpu], int]] = MappingProxyType(
    {
        "WARP_SIZE": WARP_LANES,
        "MAX_THREADS_PER_BLOCK": lambda gpu: gpu.launch.threads_per_block,
        "MAX_BLOCK_DIM_X": lambda gpu: gpu.launch.block_extents[0],
        "MAX_BLOCK_DIM_Y": lambda gpu: gpu.launch.block_extents[1],
        "MAX_BLOCK_DIM_Z": lambda gpu: gpu.launch.block_extents[2],
        "MAX_GRID_DIM_X": lambda gpu: gpu.launch.grid_extents[0],
        "MAX_GRID_DIM_Y": lambda gpu: gpu.launch.grid_extents[1],
        "MAX_GRID_DIM_Z": lambda gpu: gpu.launch.grid_extents[2],
        "MAX_SHARED_MEMORY_PER_BLOCK": lambda gpu: gpu.launch.shared_per_block_bytes,
        "SHARED_MEMORY_PER_BLOCK": lambda gpu: gpu.launch.shared_per_block_bytes,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": lambda gpu: gpu.shared_per_block_optin_bytes,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": lambda gpu: gpu.shared_per_multiprocessor_bytes,
        "RESERVED_SHARED_MEMORY_PER_BLOCK": lambda gpu: gpu.shared_reserved_bytes,
        "MAX_REGISTERS_PER_BLOCK": lambda gpu: gpu.registers_per_block,
        "REGISTERS_PER_BLOCK": lambda gpu: gpu.registers_per_block,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": lambda gpu: gpu.registers_per_multiprocessor,
        "MAX_THREADS_PER_MULTIPROCESSOR": lambda gpu: gpu.threads_per_multiprocessor,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": lambda gpu: gpu.blocks_per_multiprocessor,
        "MULTIPROCESSOR_COUNT": lambda gpu: gpu.multiprocessors,
        "COMPUTE_CAPABILITY_MAJOR": lambda gpu: gpu.compute_capability[0],
        "COMPUTE_CAPABILITY_MINOR": lambda gpu: gpu.compute_capability[1],
        "CLOCK_RATE": lambda gpu: gpu.boost_mhz * 1000,  # kHz
        "L2_CACHE_SIZE": lambda gpu: gpu.l2_bytes,
        "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": lambda gpu: max(1, gpu.fp32_per_clock // gpu.fp64_per_clock),
        "TOTAL_CONSTANT_MEMORY": 64 << 10,
        "MAX_PITCH": 2**31 - 1,
        "TEXTURE_ALIGNMENT": 512,
        "ASYNC_ENGINE_COUNT": 1,
        "GPU_OVERLAP": 1,
        "CONCURRENT_KERNELS": 1,
        "COOPERATIVE_LAUNCH": 1,
        "UNIFIED_ADDRESSING": 1,
        "MANAGED_MEMORY": 1,
        "CONCURRENT_MANAGED_ACCESS": 1,
        "CAN_MAP_HOST_MEMORY": 1,
        "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM": 0,
        "HOST_REGISTER_SUPPORTED": 1,
        "COMPUTE_PREEMPTION_SUPPORTED": 1,
        "STREAM_PRIORITIES_SUPPORTED": 1,
        "GLOBAL_L1_CACHE_SUPPORTED": 1,
        "LOCAL_L1_CACHE_SUPPORTED": 1,
    }
)
