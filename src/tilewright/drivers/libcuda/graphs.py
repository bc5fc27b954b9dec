"""Driver calls for graphs that are captured from a stream: its work is recorded, and runs when the graph is launched.

One stream is captured at a time; other streams do not become part of its graph by events.

Source: CUDA Driver API, "Stream Management" and "Graph Management".
"""

from __future__ import annotations

from tilewright.drivers.capturing import Capture
from tilewright.drivers.gpu import DEFAULT_STREAMS, DriverError, SimulatedGpu


def cuStreamBeginCapture(gpu: SimulatedGpu, stream: int, mode: int) -> None:
    """Record a stream's work from now on."""
    gpu.stream(stream)
    if gpu.capturing is not None or stream in DEFAULT_STREAMS:
        rule = "one stream is captured at a time, and not a default one"
        raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", rule)
    gpu.capturing = Capture(stream)


def cuStreamEndCapture(gpu: SimulatedGpu, stream: int) -> int:
    """The graph of a stream's recorded work."""
    if gpu.capturing is None or gpu.capturing.stream != stream:
        raise DriverError("CUDA_ERROR_ILLEGAL_STATE", "the stream is not captured")
    handle = gpu.new_handle()
    gpu.graphs[handle], gpu.capturing = gpu.capturing, None
    return handle


def cuStreamIsCapturing(gpu: SimulatedGpu, stream: int) -> int:
    """Whether a stream is captured."""
    gpu.stream(stream)
    return int(gpu.capturing is not None and gpu.capturing.stream == stream)


def cuGraphInstantiateWithFlags(gpu: SimulatedGpu, graph: int, flags: int) -> int:
    """A graph that can be launched; it stays when `graph` is destroyed."""
    handle = gpu.new_handle()
    gpu.graphs[handle] = _graph(gpu, graph)
    return handle


def cuGraphUpload(gpu: SimulatedGpu, graph: int, stream: int) -> None:
    """Prepare a launch; there is nothing to prepare."""
    gpu.stream(stream)
    _graph(gpu, graph)


def cuGraphLaunch(gpu: SimulatedGpu, graph: int, stream: int) -> None:
    """Do the recorded work."""
    gpu.stream(stream)
    if gpu.capturing is not None:
        raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "a graph within a graph is not implemented")
    _graph(gpu, graph).replay()


def cuGraphDestroy(gpu: SimulatedGpu, graph: int) -> None:
    """Forget a graph."""
    _graph(gpu, graph)
    del gpu.graphs[graph]


def cuGraphExecDestroy(gpu: SimulatedGpu, graph: int) -> None:
    """Forget a graph that could be launched."""
    cuGraphDestroy(gpu, graph)


def _graph(gpu: SimulatedGpu, handle: int) -> Capture:
    found = gpu.graphs.get(handle)
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "there is no such graph")
    return found
