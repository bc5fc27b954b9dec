"""Calls that capture streams: their work is recorded in a graph.

Source: CUDA Driver API, "Stream Management"; CUDA Programming Guide, "CUDA Graphs".
"""

from __future__ import annotations

import struct

from tilewright.simulate.device.gpu import DriverError, SimulatedGpu

_LEGACY = frozenset({0, 1})  # CU_STREAM_LEGACY


def cuStreamBeginCapture(gpu: SimulatedGpu, stream: int, mode: int) -> None:
    """Record a stream's work from now on."""
    gpu.stream(stream)
    if stream in _LEGACY:
        raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "the default stream cannot be captured")
    if gpu.graphs.captured(stream) is not None:
        raise DriverError("CUDA_ERROR_ILLEGAL_STATE", "the stream is captured already")
    gpu.graphs.begin(stream)


def cuStreamEndCapture(gpu: SimulatedGpu, stream: int) -> int:
    """The graph of the recorded work of a stream, and of streams that waited for it."""
    captures = gpu.graphs.captures
    found = next((one for one in captures if one.stream == stream), None)
    if found is None:
        if any(stream in one.streams for one in captures):
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture began with another stream")
        raise DriverError("CUDA_ERROR_ILLEGAL_STATE", "no capture began with the stream")
    captures.remove(found)
    if found.invalid:
        raise DriverError("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "a call that captures forbid has failed")
    if found.unjoined:
        rule = "the first stream must wait for an event after the last work of each other one"
        raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", rule)
    gpu.graphs.named[found.handle] = found.graph
    return found.handle


def cuStreamIsCapturing(gpu: SimulatedGpu, stream: int) -> int:
    """Whether a stream is captured: 0, 1, or 2 for a capture that is invalid."""
    gpu.stream(stream)
    found = next((one for one in gpu.graphs.captures if stream in one.streams), None)
    return 0 if found is None else 2 if found.invalid else 1


def cuStreamGetCaptureInfo_v2(gpu: SimulatedGpu, stream: int) -> tuple[int, ...]:
    """Whether a stream is captured, the capture's number and graph, and the nodes that the next one depends on."""
    status = cuStreamIsCapturing(gpu, stream)
    if status != 1:
        return status, 0, 0, 0, 0
    capture = gpu.graphs.captured(stream)
    assert capture is not None
    last = sorted(capture.streams[stream].last)
    place = gpu.host.kept(gpu, struct.pack(f"<{len(last)}Q", *last)) if last else 0
    return status, capture.handle, capture.handle, place, len(last)


def cuStreamGetCaptureInfo_v3(gpu: SimulatedGpu, stream: int) -> tuple[int, ...]:
    """As version 2, with the data of edges, of which there are none."""
    *found, count = cuStreamGetCaptureInfo_v2(gpu, stream)
    return (*found, 0, count)


def cuThreadExchangeStreamCaptureMode(gpu: SimulatedGpu) -> int:
    """The mode before, always the driver's default: here it forbids nothing."""
    return 0
