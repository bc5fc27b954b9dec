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


def require_flags(flags: int, known: Any) -> None:
    """Reject flags that a call does not have."""
    if int(flags) & ~sum(int(one) for one in known):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")


def cuStreamCreate(gpu: SimulatedGpu, flags: int) -> Any:
    """A stream."""
    gpu.require_context()
    require_flags(flags, binding().CUstream_flags)
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
    gpu.graphs.forbid(int(stream))
    gpu.wait(found)
    gpu.outstanding.synchronised(int(stream))


def cuStreamQuery(gpu: SimulatedGpu, stream: Any) -> None:
    """Whether a stream's work is done."""
    found = gpu.stream(stream)
    gpu.graphs.forbid(int(stream))
    if any(not future.done() for future in found.callbacks):
        raise DriverError("CUDA_ERROR_NOT_READY")
    gpu.outstanding.synchronised(int(stream))


def cuStreamWaitEvent(gpu: SimulatedGpu, stream: Any, event: Any, flags: int) -> None:
    """Make a stream wait for an event."""
    gpu.stream(stream)
    recorded = gpu.event(event).recorded is not None
    its = gpu.graphs.captured(int(stream))
    capture = next((one for one in gpu.graphs.captures if int(event) in one.events), None)
    if its is not None and capture is not its and (capture is not None or recorded):
        its.invalid = True
        kind = "MERGE" if capture is not None else "ISOLATION"
        rule = "a captured stream can only wait for events that its own capture records"
        raise DriverError(f"CUDA_ERROR_STREAM_CAPTURE_{kind}", rule)
    if capture is None or not capture.waits(int(stream), int(event)):
        gpu.outstanding.waits(int(stream), int(event))


def cuStreamAddCallback(gpu: SimulatedGpu, stream: Any, callback: Any, data: Any, flags: int) -> None:
    """Call a function on the driver's thread when the stream's work is done."""
    handle = int(stream or 0)
    gpu.graphs.forbid(handle, "a callback cannot be captured; use a host function")
    gpu.host.call_back(gpu, handle, int(callback), handle, 0, int(data))


def cuEventCreate(gpu: SimulatedGpu, flags: int) -> Any:
    """An event."""
    gpu.require_context()
    require_flags(flags, binding().CUevent_flags)
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
    gpu.graphs.captured(int(stream))  # it is valid
    found.captured = sum(capture.recorded(int(event), int(stream)) for capture in gpu.graphs.captures) > 0
    if found.captured:
        return
    found.recorded = time.perf_counter()
    gpu.outstanding.recorded(int(event), int(stream))


def cuEventQuery(gpu: SimulatedGpu, event: Any) -> None:
    """Whether an event has completed."""
    _not_captured(gpu, event)
    gpu.outstanding.event_came(int(event))


def cuEventSynchronize(gpu: SimulatedGpu, event: Any) -> None:
    """Wait for an event."""
    _not_captured(gpu, event)
    gpu.outstanding.event_came(int(event))


def cuEventElapsedTime(gpu: SimulatedGpu, start: Any, end: Any) -> float:
    """Milliseconds between two events in the host's time, which measures the simulator and no GPU."""
    first, last = _not_captured(gpu, start), _not_captured(gpu, end)
    if not (first.timing and last.timing) or first.recorded is None or last.recorded is None:
        raise DriverError("CUDA_ERROR_INVALID_HANDLE")
    return 1000 * (last.recorded - first.recorded)


def _not_captured(gpu: SimulatedGpu, event: Any) -> Event:
    """An event; one that was recorded in a captured stream only orders a graph's nodes."""
    found = gpu.event(event)
    if found.captured:
        raise DriverError("CUDA_ERROR_CAPTURED_EVENT", "an event of a captured stream never completes")
    return found
