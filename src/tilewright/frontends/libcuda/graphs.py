"""Calls for graphs: nodes of work, which run when the graph is launched. `captures.py` has those of stream capture.

Source: CUDA Driver API, "Graph Management"; CUDA Programming Guide, "CUDA Graphs".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tilewright.frontends.libcuda.structures import Block, Fill, Started
from tilewright.frontends.libcuda.transfers import copy_block
from tilewright.simulate.device.allocations import copied, filled_rows
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.device.graphs import Graph, UserObject, Work, submit

_MOVE = 1  #: `CU_GRAPH_USER_OBJECT_MOVE`.
#: Offset of the size in `CUDA_MEM_ALLOC_NODE_PARAMS`; the address follows.
_ALLOCATED_BYTES = 104
_TYPES = {"kernel": 0, "copy": 1, "set": 2, "host": 3, "graph": 4, "empty": 5, "memory": 10, "free": 11}
#: What differs between two graphs -> CUgraphExecUpdateResult.
_DIFFERENCES: Mapping[str, int] = MappingProxyType({"": 0, "topology": 2, "type": 3})
#: More nodes than a graph has.
_MOST_NODES = 1 << 24


# -- graphs and nodes -------------------------------------------------------------------------------------------


def cuGraphCreate(gpu: SimulatedGpu, flags: int) -> int:
    """An empty graph."""
    return gpu.graphs.name(Graph())


def cuGraphClone(gpu: SimulatedGpu, graph: int) -> int:
    """A copy of a graph, with nodes of its own."""
    return _retained(gpu, gpu.graphs.clone(gpu.graphs.graph(graph)))


def cuGraphNodeFindInClone(gpu: SimulatedGpu, node: int, clone: int) -> int:
    """The node of a clone for a node of the original."""
    clones = gpu.graphs.graph(clone).clones
    if node not in clones:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "the graph is no clone of the node's graph")
    return clones[node]


def cuGraphDestroy(gpu: SimulatedGpu, graph: int) -> None:
    """Destroy a graph; instantiated graphs stay."""
    if graph not in gpu.graphs.named:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "there is no such graph")
    _ended(gpu, gpu.graphs.named.pop(graph))


def cuGraphGetNodes(gpu: SimulatedGpu, graph: int, nodes: int, count: int) -> None:
    """A graph's nodes, or their number."""
    _listed(gpu, list(gpu.graphs.graph(graph).nodes), nodes, count)


def cuGraphGetRootNodes(gpu: SimulatedGpu, graph: int, nodes: int, count: int) -> None:
    """The nodes that depend on no other."""
    _listed(gpu, [handle for handle, node in gpu.graphs.graph(graph).nodes.items() if not node.after], nodes, count)


def cuGraphGetEdges(gpu: SimulatedGpu, graph: int, first: int, then: int, count: int) -> None:
    """A graph's edges, or their number."""
    edges = [(one, handle) for handle, node in gpu.graphs.graph(graph).nodes.items() for one in sorted(node.after)]
    if first and then:
        for place, ends in zip((first, then), zip(*edges, strict=True), strict=False):
            _written(gpu, ends, place, count)
    gpu.host.pack("Q", count, len(edges))


def cuGraphNodeGetDependencies(gpu: SimulatedGpu, node: int, nodes: int, count: int) -> None:
    """The nodes that a node depends on, or their number."""
    _listed(gpu, sorted(gpu.graphs.of_node(node).nodes[node].after), nodes, count)


def cuGraphNodeGetDependentNodes(gpu: SimulatedGpu, node: int, nodes: int, count: int) -> None:
    """The nodes that depend on a node, or their number."""
    _listed(gpu, [handle for handle, one in gpu.graphs.of_node(node).nodes.items() if node in one.after], nodes, count)


def cuGraphNodeGetType(gpu: SimulatedGpu, node: int) -> int:
    """The type of a node."""
    return _TYPES[gpu.graphs.of_node(node).nodes[node].kind]


def cuGraphAddDependencies(gpu: SimulatedGpu, graph: int, first: int, then: int, count: int) -> None:
    """Make nodes run after others."""
    for one, other in _edges(gpu, graph, first, then, count):
        gpu.graphs.graph(graph).nodes[other].after.add(one)


def cuGraphRemoveDependencies(gpu: SimulatedGpu, graph: int, first: int, then: int, count: int) -> None:
    """Remove edges."""
    for one, other in _edges(gpu, graph, first, then, count):
        if one not in gpu.graphs.graph(graph).nodes[other].after:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "the graph has no such edge")
        gpu.graphs.graph(graph).nodes[other].after.remove(one)


def cuGraphDestroyNode(gpu: SimulatedGpu, node: int) -> None:
    """Remove a node from its graph, with its edges."""
    graph = gpu.graphs.of_node(node)
    del graph.nodes[node]
    for one in graph.nodes.values():
        one.after.discard(node)


def cudaGraphAddMemcpyNode1D(
    gpu: SimulatedGpu, graph: int, before: int, count: int, target: int, source: int, size: int, kind: int
) -> int:
    """Add a copy of bytes."""
    return _added(gpu, graph, before, count, "copy", lambda _: copied(gpu, target, source, size, kind))


def cuGraphAddEmptyNode(gpu: SimulatedGpu, graph: int, before: int, count: int) -> int:
    """Add an empty node."""
    return _added(gpu, graph, before, count, "empty", lambda _: None)


def cuGraphAddChildGraphNode(gpu: SimulatedGpu, graph: int, before: int, count: int, child: int) -> int:
    """Add a graph as a node, in its present state."""
    inner = gpu.graphs.clone(gpu.graphs.graph(child))
    node = _added(gpu, graph, before, count, "graph", inner.run, inner)
    gpu.graphs.graph(graph).memory |= inner.memory
    return node


def cuGraphChildGraphNodeGetGraph(gpu: SimulatedGpu, node: int) -> int:
    """The graph that a node runs, which belongs to it."""
    child = gpu.graphs.of_node(node).nodes[node].child
    if child is None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "the node runs no graph")
    known = next((handle for handle, graph in gpu.graphs.named.items() if graph is child), None)
    return gpu.graphs.name(child) if known is None else known


def cuGraphAddMemAllocNode(gpu: SimulatedGpu, graph: int, before: int, count: int, parameters: int) -> int:
    """Allocate memory for later nodes: its address is known at once, and it lives as long as a graph uses it."""
    found = gpu.graphs.graph(graph)
    address = gpu.allocate(gpu.host.unpacked("Q", parameters + _ALLOCATED_BYTES))
    gpu.host.pack("Q", parameters + _ALLOCATED_BYTES + 8, address)
    return _added(gpu, graph, before, count, "memory", gpu.graphs.allocated(found, address))


def cuGraphAddMemFreeNode(gpu: SimulatedGpu, graph: int, before: int, count: int, address: int) -> int:
    """Free memory that no later node uses."""
    return _added(gpu, graph, before, count, "free", gpu.graphs.freed(gpu.graphs.graph(graph), address))


# -- instantiated graphs ----------------------------------------------------------------------------------------


def cuGraphInstantiateWithFlags(gpu: SimulatedGpu, graph: int, flags: int) -> int:
    """A graph that can be launched, in its present state; it stays when `graph` is destroyed."""
    found = gpu.graphs.graph(graph)
    found.order()  # there is one
    return _retained(gpu, found.copied(), ready=True)


def cuGraphInstantiateWithParams(gpu: SimulatedGpu, graph: int, parameters: int) -> int:
    """As :func:`cuGraphInstantiateWithFlags`; the flags among the parameters have no effect here."""
    return cuGraphInstantiateWithFlags(gpu, graph, 0)


def cuGraphExecUpdate_v2(gpu: SimulatedGpu, executable: int, graph: int, result: int) -> None:
    """Replace the work of an instantiated graph by that of a graph of the same form."""
    found = gpu.graphs.executable(executable)
    used = set(found.memory)
    difference, mine, its = found.take(gpu.graphs.graph(graph).copied())
    gpu.host.pack("i4x2Q", result, _DIFFERENCES[difference], mine, its)
    if difference:
        rule = f"a graph of the same form must replace an instantiated one (the {difference} differs)"
        raise DriverError("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", rule)
    for address in used - found.memory:
        gpu.graphs.unused(address)


def cuGraphUpload(gpu: SimulatedGpu, executable: int, stream: int) -> None:
    """Prepare a launch; there is nothing to prepare."""
    gpu.stream(stream)
    gpu.graphs.executable(executable)


def cuGraphLaunch(gpu: SimulatedGpu, executable: int, stream: int) -> None:
    """Do the work of a graph."""
    gpu.require_context()
    found = gpu.graphs.executable(executable)
    gpu.stream(stream)
    if gpu.graphs.captured(stream) is None:
        gpu.outstanding.queued(stream)
    submit(gpu, stream, lambda where: gpu.graphs.run(found, where), "graph", found)


def cuGraphExecDestroy(gpu: SimulatedGpu, executable: int) -> None:
    """Destroy an instantiated graph."""
    gpu.graphs.executable(executable)
    _ended(gpu, gpu.graphs.ready.pop(executable))


def cuDeviceGetGraphMemAttribute(gpu: SimulatedGpu, device: int, attribute: int, value: int) -> None:
    """Bytes that graphs use or reserve."""
    extents = [gpu.memory.extent(address) for address in gpu.graphs.memory]
    gpu.host.pack("Q", value, sum(one[1] for one in extents if one is not None))


# -- objects of a program ---------------------------------------------------------------------------------------


def cuUserObjectCreate(gpu: SimulatedGpu, pointer: int, destroy: int, count: int, flags: int) -> int:
    """A program's object that graphs can keep."""
    number = gpu.new_handle()
    gpu.graphs.objects[number] = UserObject(pointer, destroy, count)
    return number


def cuUserObjectRetain(gpu: SimulatedGpu, number: int, count: int) -> None:
    """Add references to an object."""
    _object(gpu, number).count += count


def cuUserObjectRelease(gpu: SimulatedGpu, number: int, count: int) -> None:
    """Remove references to an object."""
    found = _object(gpu, number)
    found.count -= count
    if found.count <= 0:
        del gpu.graphs.objects[number]
        gpu.host.invoke(found.destroy, found.pointer)


def cuGraphRetainUserObject(gpu: SimulatedGpu, graph: int, number: int, count: int, flags: int) -> None:
    """Keep an object with a graph; references are moved there, or new."""
    found = gpu.graphs.graph(graph)
    if not flags & _MOVE:
        cuUserObjectRetain(gpu, number, count)
    found.objects[number] = found.objects.get(number, 0) + count


def cuGraphReleaseUserObject(gpu: SimulatedGpu, graph: int, number: int, count: int) -> None:
    """Remove a graph's references to an object."""
    found = gpu.graphs.graph(graph)
    if found.objects.get(number, 0) < count:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "the graph has fewer references to the object")
    found.objects[number] -= count
    if not found.objects[number]:
        del found.objects[number]  # the object may be gone before the graph
    cuUserObjectRelease(gpu, number, count)


def _object(gpu: SimulatedGpu, number: int) -> UserObject:
    if number not in gpu.graphs.objects:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "there is no such object")
    return gpu.graphs.objects[number]


# -- what the calls share ---------------------------------------------------------------------------------------


def _launch(gpu: SimulatedGpu, of: Started) -> Work:
    return lambda stream: gpu.host.launch(gpu, stream, of.config, of.kernel, of.values)


def _copy(gpu: SimulatedGpu, of: Block) -> Work:
    return lambda _: copy_block(gpu, of)


def _fill(gpu: SimulatedGpu, of: Fill) -> Work:
    if of.element_bytes not in (1, 2, 4):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "an element must have 1, 2 or 4 bytes")
    word = of.value.to_bytes(4, "little")[: of.element_bytes]
    return lambda _: filled_rows(gpu, of.target, of.step, word, of.width, of.height)


def _call(gpu: SimulatedGpu, of: tuple[int, int]) -> Work:
    return lambda stream: gpu.host.call_back(gpu, stream, *of)


def _added(
    gpu: SimulatedGpu, graph: int, before: int, count: int, kind: str, work: Work, child: Graph | None = None
) -> int:
    """Add a node to a graph, after others."""
    return gpu.graphs.new_node(gpu.graphs.graph(graph), kind, work, _handles(gpu, before, count), child)


def _changed(graph: Graph, node: int, kind: str, work: Work) -> None:
    if node not in graph.nodes or graph.nodes[node].kind != kind:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", f"the graph has no such node of kind {kind}")
    graph.nodes[node].work = work


def _calls_of(kind: str, work: Callable[[SimulatedGpu, Any], Work]) -> tuple[Callable[..., Any], ...]:
    """The calls that add a node of a kind, change one, and change one of an instantiated graph."""

    def add(gpu: SimulatedGpu, graph: int, before: int, count: int, of: Any, context: int = 0) -> int:
        return _added(gpu, graph, before, count, kind, work(gpu, of))

    def change(gpu: SimulatedGpu, node: int, of: Any) -> None:
        _changed(gpu.graphs.of_node(node), node, kind, work(gpu, of))

    def change_executable(gpu: SimulatedGpu, executable: int, node: int, of: Any, context: int = 0) -> None:
        _changed(gpu.graphs.executable(executable), node, kind, work(gpu, of))

    return add, change, change_executable


cuGraphAddKernelNode, cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams = _calls_of("kernel", _launch)
cuGraphAddMemcpyNode, cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams = _calls_of("copy", _copy)
cuGraphAddMemsetNode, cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams = _calls_of("set", _fill)
cuGraphAddHostNode, cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams = _calls_of("host", _call)


def _handles(gpu: SimulatedGpu, address: int, count: int) -> tuple[int, ...]:
    if not address:
        return ()
    if count > _MOST_NODES:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", f"a graph has fewer nodes (got {count:,})")
    return gpu.host.words(count, address)


def _edges(gpu: SimulatedGpu, graph: int, first: int, then: int, count: int) -> list[tuple[int, int]]:
    """Edges in two arrays, whose nodes are all in the graph."""
    found = list(zip(_handles(gpu, first, count), _handles(gpu, then, count), strict=True))
    nodes = gpu.graphs.graph(graph).nodes
    if not all(one in nodes and other in nodes and one != other for one, other in found):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "an edge must lead from a node of the graph to another one")
    return found


def _listed(gpu: SimulatedGpu, handles: list[int], place: int, count: int) -> None:
    """Write handles to an array of so many; then or instead their number."""
    if place:
        _written(gpu, handles, place, count)
    gpu.host.pack("Q", count, len(handles))


def _written(gpu: SimulatedGpu, handles: Iterable[int], place: int, count: int) -> None:
    found = list(handles)[: gpu.host.unpacked("Q", count)]
    gpu.host.pack(f"{len(found)}Q", place, *found)


def _with_edge_data(call: Callable[..., None], *, lists: bool) -> Callable[..., None]:
    """The version of a call that has data of edges too, before its last parameter; here these are 8 bytes of 0 each."""

    def version(gpu: SimulatedGpu, *given: int) -> None:
        data, count = given[-2:]
        wanted = gpu.host.unpacked("Q", count) if lists else 0
        call(gpu, *given[:-2], count)
        if lists and data:
            gpu.host.write(data, bytes(8 * min(wanted, gpu.host.unpacked("Q", count))))

    return version


cuGraphGetEdges_v2 = _with_edge_data(cuGraphGetEdges, lists=True)
cuGraphNodeGetDependencies_v2 = _with_edge_data(cuGraphNodeGetDependencies, lists=True)
cuGraphNodeGetDependentNodes_v2 = _with_edge_data(cuGraphNodeGetDependentNodes, lists=True)
cuGraphAddDependencies_v2 = _with_edge_data(cuGraphAddDependencies, lists=False)
cuGraphRemoveDependencies_v2 = _with_edge_data(cuGraphRemoveDependencies, lists=False)


def _retained(gpu: SimulatedGpu, graph: Graph, *, ready: bool = False) -> int:
    """A handle for a copied graph, which refers to the program's objects too."""
    for number, count in graph.objects.items():
        cuUserObjectRetain(gpu, number, count)
    return gpu.graphs.name(graph, ready=ready)


def _ended(gpu: SimulatedGpu, graph: Graph) -> None:
    """Release what a graph kept: objects, and memory that no other graph uses and no launch left allocated."""
    for number, count in graph.objects.items():
        cuUserObjectRelease(gpu, number, count)
    for address in graph.memory:
        gpu.graphs.unused(address)
