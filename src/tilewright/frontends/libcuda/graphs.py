"""Driver calls for graphs that are captured from a stream: its work is recorded, and runs when the graph is launched.

One graph is captured at a time. Work of other streams becomes part of it by events, in the order of the calls.

Source: CUDA Driver API, "Stream Management" and "Graph Management".
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.simulate.device.capturing import Capture
from tilewright.simulate.device.gpu import DEFAULT_STREAMS, DriverError, SimulatedGpu

_MOVE = 1  #: `CU_GRAPH_USER_OBJECT_MOVE`.


def cuStreamBeginCapture(gpu: SimulatedGpu, stream: int, mode: int) -> None:
    """Record a stream's work from now on."""
    gpu.stream(stream)
    if gpu.capturing is not None or stream in DEFAULT_STREAMS:
        rule = "one stream is captured at a time, and not a default one"
        raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", rule)
    gpu.capturing = Capture(stream, gpu.new_handle())


def cuStreamEndCapture(gpu: SimulatedGpu, stream: int) -> int:
    """The graph of a stream's recorded work."""
    found = gpu.capturing
    if found is None or found.stream != stream:
        raise DriverError("CUDA_ERROR_ILLEGAL_STATE", "no capture began with the stream")
    gpu.capturing = None
    if found.unjoined:
        rule = "the first stream must wait for an event after the last work of each other one"
        raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", rule)
    gpu.graphs[found.handle] = found
    return int(found.handle)


def cuStreamIsCapturing(gpu: SimulatedGpu, stream: int) -> int:
    """Whether a stream is captured."""
    gpu.stream(stream)
    return int(gpu.capturing is not None and stream in gpu.capturing.streams)


def cuStreamGetCaptureInfo_v2(gpu: SimulatedGpu, stream: int) -> tuple[int, ...]:
    """Whether a stream is captured, the capture's number, and its graph, whose nodes have no handles here."""
    captured = cuStreamIsCapturing(gpu, stream)
    handle = gpu.capturing.handle if captured else 0
    return captured, handle, handle, 0, 0


def cuStreamGetCaptureInfo_v3(gpu: SimulatedGpu, stream: int) -> tuple[int, ...]:
    """As version 2, with the edges between nodes."""
    return *cuStreamGetCaptureInfo_v2(gpu, stream), 0


def cuThreadExchangeStreamCaptureMode(gpu: SimulatedGpu) -> int:
    """The mode before, always the driver's default: here it forbids nothing."""
    return 0


def cuGraphInstantiateWithFlags(gpu: SimulatedGpu, graph: int, flags: int) -> int:
    """A graph that can be launched; it stays when `graph` is destroyed."""
    handle = gpu.new_handle()
    gpu.graphs[handle] = _graph(gpu, graph)
    return handle


def cuGraphInstantiateWithParams(gpu: SimulatedGpu, graph: int, parameters: int) -> int:
    """As :func:`cuGraphInstantiateWithFlags`; the flags among the parameters have no effect here."""
    return cuGraphInstantiateWithFlags(gpu, graph, 0)


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
    """Forget a graph; those that can be launched stay."""
    found = _graph(gpu, graph)
    del gpu.graphs[graph]
    if all(other is not found for other in gpu.graphs.values()):
        for number, count in found.objects.items():
            cuUserObjectRelease(gpu, number, count)


def cuGraphExecDestroy(gpu: SimulatedGpu, graph: int) -> None:
    """Forget a graph that could be launched."""
    cuGraphDestroy(gpu, graph)


@dataclass(slots=True)
class UserObject:
    """A program's object, and who is called when nothing refers to it any more."""

    pointer: int
    destroy: int
    count: int


def cuUserObjectCreate(gpu: SimulatedGpu, pointer: int, destroy: int, count: int, flags: int) -> int:
    """A program's object that graphs can keep."""
    number = gpu.new_handle()
    gpu.user_objects[number] = UserObject(pointer, destroy, count)
    return number


def cuUserObjectRetain(gpu: SimulatedGpu, number: int, count: int) -> None:
    """Add references to an object."""
    _object(gpu, number).count += count


def cuUserObjectRelease(gpu: SimulatedGpu, number: int, count: int) -> None:
    """Remove references to an object."""
    found = _object(gpu, number)
    found.count -= count
    if found.count <= 0:
        del gpu.user_objects[number]
        gpu.host.invoke(found.destroy, found.pointer)


def cuGraphRetainUserObject(gpu: SimulatedGpu, graph: int, number: int, count: int, flags: int) -> None:
    """Keep an object with a graph; references are moved there, or new."""
    found = _graph(gpu, graph)
    if not flags & _MOVE:
        cuUserObjectRetain(gpu, number, count)
    found.objects[number] = found.objects.get(number, 0) + count


def cuGraphReleaseUserObject(gpu: SimulatedGpu, graph: int, number: int, count: int) -> None:
    """Remove a graph's references to an object."""
    found = _graph(gpu, graph)
    if found.objects.get(number, 0) < count:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "the graph has fewer references to the object")
    found.objects[number] -= count
    if not found.objects[number]:
        del found.objects[number]  # the object may be gone before the graph
    cuUserObjectRelease(gpu, number, count)


def _object(gpu: SimulatedGpu, number: int) -> UserObject:
    found: UserObject | None = gpu.user_objects.get(number)
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "there is no such object")
    return found


def _graph(gpu: SimulatedGpu, handle: int) -> Capture:
    found = gpu.graphs.get(handle)
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "there is no such graph")
    return found
