"""Driver calls for devices and contexts, and the number of the one device. It has one context.

Source: CUDA Driver API, "Device Management", "Primary Context Management", "Context Management".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.machine.gpu import WARP_LANES, Gpu

#: The handle of the primary context.
PRIMARY = 0xC0DE
#: Attribute -> its value, or a function of the device's record. A missing attribute is a feature that the simulated GPU
#: lacks. Source: CUDA Driver API, `CUdevice_attribute`; for the first group CUDA Programming Guide, "Compute
#: Capabilities".
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
        "MEMORY_POOLS_SUPPORTED": 1,
        "CLUSTER_LAUNCH": lambda gpu: int(gpu.compute_capability >= (9, 0)),
    }
)


class DeviceNumber(int):
    """The device's number, 0, as a key for what numba-cuda caches for each device.

    numba-cuda keeps loaded kernels in dictionaries by device number. This number equals 0, but its hash is the
    simulated GPU's own, so kernels loaded on another simulated or real GPU are not found with it. It does not hold the
    GPU: kernels outlive it, and it has memory.
    """

    _hash: int

    def __new__(cls, gpu: SimulatedGpu) -> DeviceNumber:  # noqa: D102
        number = super().__new__(cls, 0)
        number._hash = gpu.own_hash
        return number

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, other) if isinstance(other, int) else NotImplemented

    def __reduce__(self) -> Any:
        return int, (0,)


def binding() -> Any:
    """The real `cuda.bindings.driver`, whose types and codes are used."""
    from cuda.bindings import driver

    return driver


def cuInit(gpu: SimulatedGpu, flags: int) -> None:
    """Initialise the driver, for this process."""
    gpu.process = os.getpid()


def cuDriverGetVersion(gpu: SimulatedGpu) -> int:
    """The version of CUDA that the driver supports: that of the installed compiler."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return int(major) * 1000 + int(minor) * 10


def cuDeviceGetCount(gpu: SimulatedGpu) -> int:
    """How many devices there are."""
    return 1


def cuDeviceGet(gpu: SimulatedGpu, ordinal: int) -> Any:
    """A device by its number."""
    return binding().CUdevice(_device(ordinal))


def cuDeviceGetName(gpu: SimulatedGpu, length: int, device: Any) -> bytes:
    """The device's name and a zero byte, in at most `length` bytes."""
    _device(device)
    return gpu.record.name.encode()[: length - 1].ljust(length, b"\0")


def cuDeviceTotalMem(gpu: SimulatedGpu, device: Any) -> int:
    """Bytes of memory."""
    _device(device)
    return gpu.memory.capacity_bytes


def cuDeviceGetAttribute(gpu: SimulatedGpu, attribute: Any, device: Any) -> int:
    """One attribute of the device; 0 for a feature that the table does not have, which the device lacks."""
    _device(device)
    known = binding().CUdevice_attribute
    if not 0 < int(attribute) < known.CU_DEVICE_ATTRIBUTE_MAX:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    name = known(int(attribute)).name.removeprefix("CU_DEVICE_ATTRIBUTE_")
    value = ATTRIBUTES.get(name, 0)
    return value if isinstance(value, int) else int(value(gpu.record))


def cuDeviceCanAccessPeer(gpu: SimulatedGpu, device: Any, peer: Any) -> int:
    """Whether a device accesses another one's memory; a device is no peer of itself."""
    _device(device)
    _device(peer)
    return 0


def cuDevicePrimaryCtxRetain(gpu: SimulatedGpu, device: Any) -> Any:
    """The primary context."""
    _device(device)
    gpu.primary_retained += 1
    return binding().CUcontext(PRIMARY)


def cuDevicePrimaryCtxRelease(gpu: SimulatedGpu, device: Any) -> None:
    """Release the primary context; the last release ends it."""
    _device(device)
    gpu.primary_retained = max(gpu.primary_retained - 1, 0)


def cuDevicePrimaryCtxReset(gpu: SimulatedGpu, device: Any) -> None:
    """Destroy all that the primary context holds."""
    _device(device)
    gpu.reset()


def cuDevicePrimaryCtxGetState(gpu: SimulatedGpu, device: Any) -> tuple[int, int]:
    """Flags of the primary context, and whether it is active."""
    _device(device)
    return 0, int(gpu.primary_retained > 0)


def cuCtxCreate(gpu: SimulatedGpu, *arguments: Any) -> Any:
    """A new context, which is the primary one again, made current."""
    gpu.contexts.append(PRIMARY)
    return binding().CUcontext(PRIMARY)


def cuCtxDestroy(gpu: SimulatedGpu, context: Any) -> None:
    """Destroy a context; it is removed from the top of the stack."""
    if gpu.contexts and gpu.contexts[-1] == int(context):
        gpu.contexts.pop()


def cuCtxGetCurrent(gpu: SimulatedGpu) -> Any:
    """The current thread's context, or 0."""
    contexts = gpu.contexts
    return binding().CUcontext(contexts[-1] if contexts else 0)


def cuCtxSetCurrent(gpu: SimulatedGpu, context: Any) -> None:
    """Replace the top of the stack; 0 removes it."""
    if int(context) not in (0, PRIMARY):
        raise DriverError("CUDA_ERROR_INVALID_CONTEXT")
    if gpu.contexts:
        gpu.contexts.pop()
    if int(context):
        gpu.contexts.append(int(context))


def cuCtxPushCurrent(gpu: SimulatedGpu, context: Any) -> None:
    """Make a context current."""
    if int(context) != PRIMARY:
        raise DriverError("CUDA_ERROR_INVALID_CONTEXT")
    gpu.contexts.append(int(context))


def cuCtxPopCurrent(gpu: SimulatedGpu) -> Any:
    """Remove the current context from the stack."""
    gpu.require_context()
    return binding().CUcontext(gpu.contexts.pop())


def cuCtxGetDevice(gpu: SimulatedGpu) -> Any:
    """The current context's device."""
    gpu.require_context()
    return binding().CUdevice(0)


def cuCtxSynchronize(gpu: SimulatedGpu) -> None:
    """Wait for all work."""
    gpu.require_context()
    gpu.graphs.forbid(why="a stream is captured, which does no work")
    gpu.wait()
    gpu.outstanding.all_done()


def cuCtxEnablePeerAccess(gpu: SimulatedGpu, peer: Any, flags: int) -> None:
    """Enable access to another device's memory; there is none."""
    raise DriverError("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED")


def cuProfilerStart(gpu: SimulatedGpu) -> None:
    """Start recording for a profiler."""


def cuProfilerStop(gpu: SimulatedGpu) -> None:
    """Stop recording for a profiler."""


def _device(device: Any) -> int:
    """A device's number, checked."""
    if int(device) != 0:
        raise DriverError("CUDA_ERROR_INVALID_DEVICE")
    return 0
