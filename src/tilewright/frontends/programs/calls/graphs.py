"""Calls for graphs: work is recorded, by stream capture or as single nodes, and runs when the graph is launched.

Source: CUDA Runtime API, "Graph Management"; structures by the vendor's `driver_types.h`.
"""

from __future__ import annotations

import functools
import itertools

from tilewright.frontends.libcuda.launches import values_at
from tilewright.frontends.programs.calls.memory import memory_left, moved_3d
from tilewright.frontends.programs.graph import Graph, Node, Work
from tilewright.frontends.programs.protocol import Caller
from tilewright.simulate.device.allocations import copied, filled_rows
from tilewright.simulate.device.gpu import DriverError
from tilewright.simulate.device.launching import LaunchConfig

#: `cudaKernelNodeParams`, `cudaMemsetParams`, `cudaMemcpy3DParms`.
_KERNEL, _MEMSET, _COPY = "Q3I3II4xQQ", "2Q2I2Q", "Q3Q4QQ3Q4Q3Qi4x"
#: Offset of the size in `cudaMemAllocNodeParams`; the address follows.
_ALLOCATED_BYTES = 104
_TYPES = {"kernel": 0, "copy": 1, "set": 2, "host": 3, "graph": 4, "empty": 5, "memory": 10, "free": 11}


def cudaStreamBeginCapture(call: Caller, stream: int, mode: int) -> None:
    """Start to record the work of a stream."""
    call.gpu.stream(stream)
    if stream in call.runtime.captures:
        raise DriverError("CUDA_ERROR_ILLEGAL_STATE")
    call.runtime.captures[stream] = graph = Graph(stream)
    _named(call, graph)


def cudaStreamEndCapture(call: Caller, stream: int, graph: int) -> None:
    """The graph of the recorded work of a stream and of streams that wait for it."""
    found = call.runtime.captures.get(stream)
    if found is None:
        raise DriverError("CUDA_ERROR_ILLEGAL_STATE")
    for other in [one for one, of in call.runtime.captures.items() if of is found]:
        del call.runtime.captures[other]
    call.pack("Q", graph, next(one for one, of in call.runtime.graphs.items() if of is found))


def cudaStreamIsCapturing(call: Caller, stream: int, status: int) -> None:
    """Whether a stream is being captured."""
    call.gpu.stream(stream)
    call.pack("i", status, int(stream in call.runtime.captures))


def cudaStreamGetCaptureInfo(
    call: Caller, stream: int, status: int, number: int, graph: int, before: int, edges: int, count: int
) -> None:
    """Whether a stream is being captured, and in which graph; the next node will depend on the last one."""
    cudaStreamIsCapturing(call, stream, status)
    found = call.runtime.captures.get(stream)
    if found is None:
        return
    handle = next(one for one, of in call.runtime.graphs.items() if of is found)
    call.pack("Q", number, handle)
    call.pack("Q", graph, handle)
    if count:
        call.pack("Q", count, min(len(found.nodes), 1))
    if before and found.nodes:
        place = call.gpu.allocate(8, host_visible=True)  # the program reads it there
        call.pack("Q", place, list(found.nodes)[-1])
        call.pack("Q", before, place)


def cudaGraphCreate(call: Caller, graph: int, flags: int) -> None:
    """An empty graph."""
    call.pack("Q", graph, _named(call, Graph(0)))


def cudaGraphDestroy(call: Caller, graph: int) -> None:
    """Destroy a graph; instantiated graphs stay."""
    call.runtime.graph_ended(graph)


def cudaGraphClone(call: Caller, clone: int, graph: int) -> None:
    """A copy of a graph."""
    call.pack("Q", clone, _named(call, _graph(call, graph).copy()))


def cudaGraphGetNodes(call: Caller, graph: int, nodes: int, count: int) -> None:
    """A graph's nodes, or their number."""
    found = list(_graph(call, graph).nodes)
    if nodes:
        room = call.unpacked("Q", count)
        call.pack(f"{len(found[:room])}Q", nodes, *found[:room])
    call.pack("Q", count, len(found))


def cudaGraphNodeGetType(call: Caller, node: int, kind: int) -> None:
    """The type of a node."""
    call.pack("i", kind, _TYPES[_node(call, node).kind])


def cudaGraphAddKernelNode(call: Caller, node: int, graph: int, before: int, count: int, parameters: int) -> None:
    """Add a kernel launch."""
    _added(call, node, graph, before, count, "kernel", _launch(call, parameters))


def cudaGraphKernelNodeSetParams(call: Caller, node: int, parameters: int) -> None:
    """Change the launch of a node."""
    _node(call, node).work = _launch(call, parameters)


def cudaGraphExecKernelNodeSetParams(call: Caller, executable: int, node: int, parameters: int) -> None:
    """Change a node's launch in an instantiated graph."""
    nodes = _graph(call, executable).nodes
    if node not in nodes:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    nodes[node].work = _launch(call, parameters)


def cudaGraphAddMemcpyNode1D(
    call: Caller, node: int, graph: int, before: int, count: int, target: int, source: int, size: int, kind: int
) -> None:
    """Add a copy of bytes."""
    _added(call, node, graph, before, count, "copy", lambda now: copied(now.gpu, target, source, size, kind))


def cudaGraphAddMemcpyNode(call: Caller, node: int, graph: int, before: int, count: int, parameters: int) -> None:
    """Add a copy of rows of planes."""
    values = call.unpacked(_COPY, parameters)
    _added(call, node, graph, before, count, "copy", lambda now: moved_3d(now, values))


def cudaGraphAddMemsetNode(call: Caller, node: int, graph: int, before: int, count: int, parameters: int) -> None:
    """Add a fill of rows of elements."""
    target, step, value, element, width, height = call.unpacked(_MEMSET, parameters)
    if element not in (1, 2, 4):
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    data = value.to_bytes(4, "little")[:element]
    work = functools.partial(filled_rows, target=target, step=step, word=data, width=width, height=height)
    _added(call, node, graph, before, count, "set", lambda now: work(now.gpu))


def cudaGraphAddHostNode(call: Caller, node: int, graph: int, before: int, count: int, parameters: int) -> None:
    """Add a call of a host function."""
    function, data = call.unpacked("2Q", parameters)

    def work(now: Caller) -> None:
        now.invoke(function, data)

    _added(call, node, graph, before, count, "host", work)


def cudaGraphAddEmptyNode(call: Caller, node: int, graph: int, before: int, count: int) -> None:
    """Add an empty node."""
    _added(call, node, graph, before, count, "empty", lambda now: None)


def cudaGraphAddMemAllocNode(call: Caller, node: int, graph: int, before: int, count: int, parameters: int) -> None:
    """Allocate memory for later nodes: its address is known at once, and it lives as long as a graph uses it."""
    address = call.gpu.allocate(call.unpacked("Q", parameters + _ALLOCATED_BYTES))
    call.runtime.graph_memory[address] = False
    call.pack("Q", parameters + _ALLOCATED_BYTES + 8, address)
    _added(call, node, graph, before, count, "memory", memory_left(address, allocated=True))
    _graph(call, graph).memory.add(address)


def cudaGraphAddMemFreeNode(call: Caller, node: int, graph: int, before: int, count: int, address: int) -> None:
    """Free memory that no later node uses."""
    if address not in call.runtime.graph_memory:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    _added(call, node, graph, before, count, "free", memory_left(address, allocated=False))
    _graph(call, graph).memory.add(address)


def cudaDeviceGetGraphMemAttribute(call: Caller, device: int, attribute: int, value: int) -> None:
    """Bytes that graphs use or reserve."""
    extents = [call.gpu.memory.extent(address) for address in call.runtime.graph_memory]
    call.pack("Q", value, sum(one[1] for one in extents if one is not None))


def cudaGraphAddChildGraphNode(call: Caller, node: int, graph: int, before: int, count: int, child: int) -> None:
    """Add a graph as a node, in its present state."""
    inner = _graph(call, child).copy()
    _added(call, node, graph, before, count, "graph", inner.run)
    _graph(call, graph).memory |= inner.memory


def cudaGraphAddDependencies(call: Caller, graph: int, first: int, then: int, edges: int, count: int) -> None:
    """Make nodes run after others."""
    pairs = zip(_list(call, first, count), _list(call, then, count), strict=True)
    nodes = _graph(call, graph).nodes
    for one, other in pairs:
        if one not in nodes or other not in nodes:
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
        nodes[other].after.add(one)


def cudaGraphInstantiate(call: Caller, executable: int, graph: int, flags: int) -> None:
    """Instantiate a graph in its present state."""
    call.pack("Q", executable, _named(call, _graph(call, graph).copy()))


def cudaGraphExecUpdate(call: Caller, executable: int, graph: int, result: int) -> None:
    """Replace the work of an instantiated graph by that of a graph of the same form."""
    found, new = _graph(call, executable), _graph(call, graph).copy()
    gone, found.nodes, found.memory = found.memory - new.memory, new.nodes, new.memory
    for address in gone:
        call.runtime.graph_memory_unused(address)
    call.pack("i", result, 0)


def cudaGraphUpload(call: Caller, executable: int, stream: int) -> None:
    """Move a graph to the device; no effect here."""
    _graph(call, executable)


def cudaGraphLaunch(call: Caller, executable: int, stream: int) -> None:
    """Run the work of a graph."""
    call.gpu.stream(stream)
    found, inside = _graph(call, executable), call.runtime.in_graph
    call.gpu.outstanding.queued(stream)
    call.runtime.in_graph = True
    try:
        found.run(call)
    finally:
        call.runtime.in_graph = inside


cudaGraphInstantiateWithFlags, cudaGraphExecDestroy = cudaGraphInstantiate, cudaGraphDestroy


def _launch(call: Caller, parameters: int) -> Work:
    function, *extents, shared, arguments, _ = call.unpacked(_KERNEL, parameters)
    config, kernel = LaunchConfig(tuple(extents[:3]), tuple(extents[3:]), None, shared), call.kernel(function)
    values = values_at(call.gpu, kernel, arguments)
    return lambda now: now.launch(now.gpu, 0, config, kernel, values)


def _added(call: Caller, node: int, graph: int, before: int, count: int, kind: str, work: Work) -> None:
    """Add a node to a graph, after others."""
    found = _graph(call, graph)
    handle = call.gpu.new_handle()
    after = set(_list(call, before, count))
    if not after <= found.nodes.keys():
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    found.nodes[handle] = Node(work, kind, after)
    call.pack("Q", node, handle)


def _list(call: Caller, address: int, count: int) -> tuple[int, ...]:
    return call.words(count, address) if address else ()


def _named(call: Caller, graph: Graph) -> int:
    handle = call.gpu.new_handle()
    call.runtime.graphs[handle] = graph
    return handle


def _graph(call: Caller, handle: int) -> Graph:
    found = call.runtime.graphs.get(handle)
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return found


def _node(call: Caller, handle: int) -> Node:
    nodes = itertools.chain.from_iterable(graph.nodes.items() for graph in call.runtime.graphs.values())
    found = next((node for one, node in nodes if one == handle), None)
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return found
