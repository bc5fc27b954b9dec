"""Driver calls about devices, contexts, streams and errors that programs in C make and numba-cuda does not.

Source: CUDA Driver API, "Device Management", "Context Management", "Stream Management", "Error Handling"; the values of
limits: CUDA Programming Guide, "Dynamic Global Memory Allocation and Operations", "Formatted Output".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.drivers import contexts, streams
from tilewright.drivers.contexts import PRIMARY
from tilewright.drivers.gpu import DriverError, SimulatedGpu, Stream
from tilewright.drivers.host_side import Device
from tilewright.drivers.launching import PENDING_LIMIT
from tilewright.drivers.properties import PCI
from tilewright.simt.run.nested import PENDING_MAX

#: CUlimit -> its value: the stack of a thread, what printf and malloc have, and what device runtimes may hold back.
_LIMITS: Mapping[int, int] = MappingProxyType({0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 128, 6: 0})


def cuDeviceGetName(gpu: SimulatedGpu, name: int, length: int, device: int) -> None:
    """The device's name, to a buffer."""
    text = contexts.cuDeviceGetName(gpu, length, device)
    gpu.host.write(name, text)


def cuDeviceGetUuid(gpu: SimulatedGpu, uuid: int, device: int) -> None:
    """The device's identifier, to 16 bytes."""
    text = Device(gpu, device).uuid.replace("-", "")
    gpu.host.write(uuid, bytes.fromhex(text))


def cuDeviceGetLuid(gpu: SimulatedGpu, luid: int, device: int) -> int:
    """An identifier that other systems have."""
    raise DriverError("CUDA_ERROR_NOT_SUPPORTED")


def cuDeviceComputeCapability(gpu: SimulatedGpu, device: int) -> tuple[int, int]:
    """The compute capability."""
    return gpu.record.compute_capability


def cuDeviceGetPCIBusId(gpu: SimulatedGpu, text: int, length: int, device: int) -> None:
    """Where the device is, to a buffer."""
    contexts.cuDeviceGet(gpu, device)
    if length <= len(PCI):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    gpu.host.write(text, PCI + b"\0")


def cuDeviceGetByPCIBusId(gpu: SimulatedGpu, text: int) -> int:
    """The device of a place."""
    if gpu.host.text(text).lower().removeprefix("0000:") != PCI.decode().removeprefix("0000:"):
        raise DriverError("CUDA_ERROR_INVALID_DEVICE")
    return 0


def cuCtxGetDevice_v2(gpu: SimulatedGpu, context: int) -> int:
    """A context's device."""
    return 0


def cuDevicePrimaryCtxSetFlags(gpu: SimulatedGpu, device: int, flags: int) -> None:
    """Say how the host waits, which changes nothing here."""


def cuCtxGetFlags(gpu: SimulatedGpu) -> int:
    """How the host waits."""
    gpu.require_context()
    return 0


def cuCtxGetId(gpu: SimulatedGpu, context: int) -> int:
    """The context's number."""
    return context or PRIMARY


def cuCtxGetApiVersion(gpu: SimulatedGpu, context: int) -> int:
    """The version of the driver's functions that a context is for."""
    return contexts.cuDriverGetVersion(gpu)


def cuCtxGetLimit(gpu: SimulatedGpu, limit: int) -> int:
    """A limit of the device's runtime."""
    gpu.require_context()
    if limit not in _LIMITS:
        raise DriverError("CUDA_ERROR_UNSUPPORTED_LIMIT")
    return gpu.set_limits.get(limit, _LIMITS[limit])


def cuCtxSetLimit(gpu: SimulatedGpu, limit: int, value: int) -> None:
    """Set a limit of the device's runtime.

    Kept is what was set. Two limits have an effect here: that of a thread's stack, and that of launches by kernels that
    may wait, of which more than there can be memory for are refused.
    """
    cuCtxGetLimit(gpu, limit)
    if limit == PENDING_LIMIT and value > PENDING_MAX:
        raise DriverError(
            "CUDA_ERROR_OUT_OF_MEMORY",
            f"CUDA_ERROR_OUT_OF_MEMORY: at most {PENDING_MAX:,} launches by kernels may wait (got {value:,})",
        )
    gpu.set_limits[limit] = value


def cuCtxGetStreamPriorityRange(gpu: SimulatedGpu) -> tuple[int, int]:
    """The least and the greatest priority."""
    return 0, -5


def cuStreamCreateWithPriority(gpu: SimulatedGpu, flags: int, priority: int) -> int:
    """A stream; work is done when it is asked for, whatever the priority."""
    handle = int(streams.cuStreamCreate(gpu, flags))
    gpu.streams[handle].priority = max(min(priority, 0), -5)
    return handle


def _of_stream(known: Callable[[Stream, int], int]) -> Callable[[SimulatedGpu, int], int]:
    """A call that says what is known of a stream, and of its handle, once there is such a stream."""
    return lambda gpu, stream: known(gpu.stream(stream), stream)


cuStreamGetPriority = _of_stream(lambda stream, handle: stream.priority)
cuStreamGetFlags = _of_stream(lambda stream, handle: int(stream.independent))
cuStreamGetId = _of_stream(lambda stream, handle: handle)
cuStreamGetDevice = _of_stream(lambda stream, handle: 0)
cuStreamGetCtx = _of_stream(lambda stream, handle: PRIMARY)
cuStreamIsCapturing = _of_stream(lambda stream, handle: 0)


def cuEventRecordWithFlags(gpu: SimulatedGpu, event: int, stream: int, flags: int) -> None:
    """Note the time in a stream."""
    streams.cuEventRecord(gpu, event, stream)
