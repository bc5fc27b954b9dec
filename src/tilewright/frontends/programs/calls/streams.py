"""Calls for streams and events that graphs record. Work is done when it is submitted, so a stream is always ready.

Source: CUDA Runtime API, "Stream Management", "Event Management".
"""

from __future__ import annotations

from tilewright.frontends.programs.protocol import Caller
from tilewright.simulate.device import streams


def cudaStreamWaitEvent(call: Caller, stream: int, event: int, flags: int) -> None:
    """Make a stream wait for an event."""
    graph = call.runtime.captured.get(event)
    if graph is not None and graph in call.runtime.captures.values():
        call.gpu.stream(stream)
        call.runtime.captures[stream] = graph  # a stream that waits for a captured one is captured too
    else:
        streams.cuStreamWaitEvent(call.gpu, stream, event, flags)


def cudaStreamSetAttribute(call: Caller, stream: int, attribute: int, value: int) -> None:
    """Set an attribute; no effect here."""
    call.gpu.stream(stream)


def cudaEventDestroy(call: Caller, event: int) -> None:
    """Destroy an event."""
    streams.cuEventDestroy(call.gpu, event)
    call.runtime.captured.pop(event, None)


def cudaEventRecord(call: Caller, event: int, stream: int) -> None:
    """Record the time in a stream."""
    streams.cuEventRecord(call.gpu, event, stream)
    call.runtime.captured.pop(event, None)
    if stream in call.runtime.captures:
        call.runtime.captured[event] = call.runtime.captures[stream]


def cudaEventRecordWithFlags(call: Caller, event: int, stream: int, flags: int) -> None:
    """Record the time in a stream."""
    cudaEventRecord(call, event, stream)
