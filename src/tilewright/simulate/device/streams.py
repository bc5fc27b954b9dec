"""Driver calls for streams and events. Work is done when it is submitted, so a stream is always ready.

Source: CUDA Driver API, "Stream Management" and "Event Management".
"""

from __future__ import annotations

import time
from typing import Any

from tilewright.ground.native.memo import memo
from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.gpu import DEFAULT_STREAMS, DriverError, Event, SimulatedGpu, Stream


@memo
def handle_type() -> Any:
    """The type of stream handles, with the value in the attribute that numba-cuda reads."""

    class CUstream(binding().CUstream):  # type: ignore[misc]
        """A stream's handle."""

        value = property(int)

    return CUstream


def cuStreamCreate(gpu: SimulatedGpu, flags: int) -> Any:
    """A stream."""
    gpu.require_context()
    handle = gpu.new_handle()
    independent = bool(int(flags) & int(binding().CUstream_flags.CU_STREAM_NON_BLOCKING))
    gpu.streams[handle] = Stream(independent=independent)
    if independent:
        gpu.outstanding.made_independent(handle)
    return handle_type()(handle)


def cuStreamDestroy(gpu: SimulatedGpu, stream: Any) -> None:
    """Destroy a stream when its work is done."""
    gpu.stream(stream)
    if int(stream) in DEFAULT_STREAMS:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    gpu.streams.pop(int(stream))
    gpu.outstanding.stream_ended(int(stream))


def cuStreamSynchronize(gpu: SimulatedGpu, stream: Any) -> None:
    """Wait for a stream's work."""
    found = gpu.stream(stream)
    if gpu.capturing is not None and int(stream) in gpu.capturing.streams:
        raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "a stream that is captured does no work")
    gpu.wait(found)
    gpu.outstanding.synchronised(int(stream))


def cuStreamQuery(gpu: SimulatedGpu, stream: Any) -> None:
    """Whether a stream's work is done."""
    if any(not future.done() for future in gpu.stream(stream).callbacks):
        raise DriverError("CUDA_ERROR_NOT_READY")
    gpu.outstanding.synchronised(int(stream))


def cuStreamWaitEvent(gpu: SimulatedGpu, stream: Any, event: Any, flags: int) -> None:
    """Make a stream wait for an event."""
    gpu.stream(stream)
    gpu.event(event)
    if gpu.capturing is None or not gpu.capturing.waits(int(stream), int(event)):
        gpu.outstanding.waits(int(stream), int(event))


def cuStreamAddCallback(gpu: SimulatedGpu, stream: Any, callback: Any, data: Any, flags: int) -> None:
    """Call a function on the driver's thread when the stream's work is done."""
    handle = int(stream or 0)
    gpu.host.call_back(gpu, handle, int(callback), handle, 0, int(data))


def cuEventCreate(gpu: SimulatedGpu, flags: int) -> Any:
    """An event."""
    gpu.require_context()
    handle = gpu.new_handle()
    gpu.events[handle] = Event(timing=not int(flags) & int(binding().CUevent_flags.CU_EVENT_DISABLE_TIMING))
    return binding().CUevent(handle)


def cuEventDestroy(gpu: SimulatedGpu, event: Any) -> None:
    """Destroy an event."""
    gpu.event(event)
    gpu.events.pop(int(event))
    gpu.outstanding.event_ended(int(event))


def cuEventRecord(gpu: SimulatedGpu, event: Any, stream: Any) -> None:
    """Record the time in a stream."""
    gpu.stream(stream)
    found = gpu.event(event)
    if gpu.capturing is not None and gpu.capturing.recorded(int(event), int(stream)):
        return
    found.recorded = time.perf_counter()
    gpu.outstanding.recorded(int(event), int(stream))


def cuEventQuery(gpu: SimulatedGpu, event: Any) -> None:
    """Whether an event has completed."""
    gpu.event(event)
    gpu.outstanding.event_came(int(event))


def cuEventSynchronize(gpu: SimulatedGpu, event: Any) -> None:
    """Wait for an event."""
    gpu.event(event)
    gpu.outstanding.event_came(int(event))


def cuEventElapsedTime(gpu: SimulatedGpu, start: Any, end: Any) -> float:
    """Milliseconds between two events in the host's time, which measures the simulator and no GPU."""
    first, last = gpu.event(start), gpu.event(end)
    if not (first.timing and last.timing) or first.recorded is None or last.recorded is None:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    return 1000 * (last.recorded - first.recorded)
