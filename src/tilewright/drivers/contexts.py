"""Driver calls about devices and contexts. There is one device, and one context of it.

Source: CUDA Driver API, "Device Management", "Primary Context Management", "Context Management".
"""

from __future__ import annotations

import os
from typing import Any

from tilewright.drivers.gpu import DriverError, SimulatedGpu

#: The handle of the primary context.
PRIMARY = 0xC0DE


def binding() -> Any:
    """The real `cuda.bindings.driver`, whose types and codes are used."""
    from cuda.bindings import driver

    return driver


def cuInit(gpu: SimulatedGpu, flags: int) -> None:
    """Initialise the driver, for this process."""
    gpu.process = os.getpid()


def cuDriverGetVersion(gpu: SimulatedGpu) -> int:
    """The version of CUDA that the driver supports: the compiler's, which runs here."""
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
    """The device's name, and a zero byte, in at most so many bytes."""
    _device(device)
    return gpu.record.name.encode()[: length - 1].ljust(length, b"\0")


def cuDeviceTotalMem(gpu: SimulatedGpu, device: Any) -> int:
    """Bytes of memory."""
    _device(device)
    return gpu.memory.capacity_bytes


def cuDeviceGetAttribute(gpu: SimulatedGpu, attribute: Any, device: Any) -> int:
    """One attribute of the device; a feature that is not in the table is one that it lacks, which is 0."""
    from tilewright.drivers.attributes import ATTRIBUTES

    _device(device)
    name = binding().CUdevice_attribute(int(attribute)).name.removeprefix("CU_DEVICE_ATTRIBUTE_")
    value = ATTRIBUTES.get(name, 0)
    return value if isinstance(value, int) else int(value(gpu.record))


def cuDeviceCanAccessPeer(gpu: SimulatedGpu, device: Any, peer: Any) -> int:
    """Whether a device reaches another one's memory; a device is no peer of its own."""
    _device(device)
    _device(peer)
    return 0


def cuDevicePrimaryCtxRetain(gpu: SimulatedGpu, device: Any) -> Any:
    """The primary context."""
    _device(device)
    gpu.primary_retained += 1
    return binding().CUcontext(PRIMARY)


def cuDevicePrimaryCtxRelease(gpu: SimulatedGpu, device: Any) -> None:
    """Give the primary context up; the last one to do so ends it."""
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
    """A context of one's own: the primary one again, made current."""
    gpu.contexts.append(PRIMARY)
    return binding().CUcontext(PRIMARY)


def cuCtxDestroy(gpu: SimulatedGpu, context: Any) -> None:
    """End a context; it leaves the top of the stack."""
    if gpu.contexts and gpu.contexts[-1] == int(context):
        gpu.contexts.pop()


def cuCtxGetCurrent(gpu: SimulatedGpu) -> Any:
    """The current thread's context, or 0."""
    return binding().CUcontext(gpu.contexts[-1] if gpu.contexts else 0)


def cuCtxSetCurrent(gpu: SimulatedGpu, context: Any) -> None:
    """Replace the top of the stack; 0 takes it away."""
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
    """Take the current context off the stack."""
    gpu.require_context()
    return binding().CUcontext(gpu.contexts.pop())


def cuCtxGetDevice(gpu: SimulatedGpu) -> Any:
    """The current context's device."""
    gpu.require_context()
    return binding().CUdevice(0)


def cuCtxSynchronize(gpu: SimulatedGpu) -> None:
    """Wait for everything."""
    gpu.require_context()
    gpu.wait()
    gpu.outstanding.all_done()


def cuCtxEnablePeerAccess(gpu: SimulatedGpu, peer: Any, flags: int) -> None:
    """Reach another device's memory; there is none."""
    raise DriverError("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED")


def cuProfilerStart(gpu: SimulatedGpu) -> None:
    """Begin what a profiler records."""


def cuProfilerStop(gpu: SimulatedGpu) -> None:
    """End what a profiler records."""


def _device(device: Any) -> int:
    """A device's number, checked."""
    if int(device) != 0:
        raise DriverError("CUDA_ERROR_INVALID_DEVICE")
    return 0
