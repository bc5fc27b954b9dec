"""Driver calls of C code for devices, contexts, streams and errors, beyond those that numba-cuda needs.

Source: CUDA Driver API, "Device Management", "Context Management", "Stream Management", "Error Handling"; the values of
limits: CUDA Programming Guide, "Dynamic Global Memory Allocation and Operations", "Formatted Output".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.simulate.device import contexts, streams
from tilewright.simulate.device.contexts import PRIMARY
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu, Stream
from tilewright.simulate.device.host_side import Device
from tilewright.simulate.device.launching import PENDING_LIMIT
from tilewright.simulate.device.properties import PCI
from tilewright.simulate.run.nested import PENDING_MAX

#: CUlimit -> value: a thread's stack, buffers of printf and malloc, and limits of the device runtime.
_LIMITS: Mapping[int, int] = MappingProxyType({0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 128, 6: 0})


def cuDeviceGetName(gpu: SimulatedGpu, name: int, length: int, device: int) -> None:
    """Write the device's name to a buffer."""
    text = contexts.cuDeviceGetName(gpu, length, device)
    gpu.host.write(name, text)


def cuDeviceGetUuid(gpu: SimulatedGpu, uuid: int, device: int) -> None:
    """Write the device's UUID to 16 bytes."""
    text = Device(gpu, device).uuid.replace("-", "")
    gpu.host.write(uuid, bytes.fromhex(text))


def cuDeviceGetLuid(gpu: SimulatedGpu, luid: int, device: int) -> int:
    """An identifier of other operating systems."""
    raise DriverError("CUDA_ERROR_NOT_SUPPORTED")


def cuDeviceComputeCapability(gpu: SimulatedGpu, device: int) -> tuple[int, int]:
    """The compute capability."""
    return gpu.record.compute_capability


def cuDeviceGetPCIBusId(gpu: SimulatedGpu, text: int, length: int, device: int) -> None:
    """Write the device's bus address to a buffer."""
    contexts.cuDeviceGet(gpu, device)
    if length <= len(PCI):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    gpu.host.write(text, PCI + b"\0")


def cuDeviceGetByPCIBusId(gpu: SimulatedGpu, text: int) -> int:
    """The device with a bus address."""
    if gpu.host.text(text).lower().removeprefix("0000:") != PCI.decode().removeprefix("0000:"):
        raise DriverError("CUDA_ERROR_INVALID_DEVICE")
    return 0


def cuCtxGetDevice_v2(gpu: SimulatedGpu, context: int) -> int:
    """A context's device."""
    return 0


def cuCtxGetFlags(gpu: SimulatedGpu) -> int:
    """How the host waits."""
    gpu.require_context()
    return 0


def cuCtxGetId(gpu: SimulatedGpu, context: int) -> int:
    """The context's id."""
    return context or PRIMARY


def cuCtxGetApiVersion(gpu: SimulatedGpu, context: int) -> int:
    """The API version of a context."""
    return contexts.cuDriverGetVersion(gpu)


def cuCtxGetLimit(gpu: SimulatedGpu, limit: int) -> int:
    """A limit of the device runtime."""
    gpu.require_context()
    if limit not in _LIMITS:
        raise DriverError("CUDA_ERROR_UNSUPPORTED_LIMIT")
    return gpu.set_limits.get(limit, _LIMITS[limit])


def cuCtxSetLimit(gpu: SimulatedGpu, limit: int, value: int) -> None:
    """Set a limit of the device runtime.

    All values are stored, and two have an effect: the stack of a thread, and the number of pending launches by kernels,
    which is rejected if there cannot be memory for it.
    """
    cuCtxGetLimit(gpu, limit)
    if limit == PENDING_LIMIT and value > PENDING_MAX:
        raise DriverError(
            "CUDA_ERROR_OUT_OF_MEMORY",
            f"CUDA_ERROR_OUT_OF_MEMORY: at most {PENDING_MAX:,} launches by kernels may be pending (got {value:,})",
        )
    gpu.set_limits[limit] = value


def cuCtxGetStreamPriorityRange(gpu: SimulatedGpu) -> tuple[int, int]:
    """The least and the greatest priority."""
    return 0, -5


def cuStreamCreateWithPriority(gpu: SimulatedGpu, flags: int, priority: int) -> int:
    """A stream; work is done when it is submitted, so the priority has no effect."""
    handle = int(streams.cuStreamCreate(gpu, flags))
    gpu.streams[handle].priority = max(min(priority, 0), -5)
    return handle


def _of_stream(known: Callable[[Stream, int], int]) -> Callable[[SimulatedGpu, int], int]:
    """A call that returns a property of an existing stream."""
    return lambda gpu, stream: known(gpu.stream(stream), stream)


cuStreamGetPriority = _of_stream(lambda stream, handle: stream.priority)
cuStreamGetFlags = _of_stream(lambda stream, handle: int(stream.independent))
cuStreamGetId = _of_stream(lambda stream, handle: handle)
cuStreamGetDevice = _of_stream(lambda stream, handle: 0)
cuStreamGetCtx = _of_stream(lambda stream, handle: PRIMARY)


def cuEventRecordWithFlags(gpu: SimulatedGpu, event: int, stream: int, flags: int) -> None:
    """Record the time in a stream."""
    streams.cuEventRecord(gpu, event, stream)
