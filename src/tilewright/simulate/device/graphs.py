"""CUDA graphs: nodes of work with dependencies, and the capture of streams into them.

Every front end's work goes through :func:`submit`: it is done at once, or becomes a node of the graph that captures its
stream. `libcuda/graphs.py` has the calls.

Source: CUDA Programming Guide, "CUDA Graphs"; CUDA Driver API, "Graph Management" and "Stream Management".
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

from tilewright.simulate.device.driver_errors import DriverError

#: A node's work. It gets the stream that the graph is launched in.
Work = Callable[[int], Any]
#: Both handles of the default stream that synchronises with others. Source: cuda.h, CU_STREAM_LEGACY.
_LEGACY = frozenset({0, 1})
_OUTSIDE = "while a graph is captured, launches must be in its streams; use those, or launch before or after"


class HasGraphs(Protocol):
    """What this module needs of a `SimulatedGpu`."""

    graphs: Graphs
    streams: dict[int, Any]

    def stream(self, handle: Any) -> Any:
        """A stream by its handle."""


@dataclass(eq=False)
class Node:
    """A piece of work, and the nodes that must run before it."""

    kind: str
    work: Work
    after: set[int] = field(default_factory=set)
    child: Graph | None = None  #: The graph that a node of kind `graph` runs.


@dataclass(eq=False)
class Graph:
    """Nodes by handle, in the order of their creation."""

    nodes: dict[int, Node] = field(default_factory=dict)
    memory: set[int] = field(default_factory=set)  #: Addresses that its nodes allocate or free.
    objects: dict[int, int] = field(default_factory=dict)  #: References to a program's objects.
    kept: list[Any] = field(default_factory=list)  #: Tensors whose memory the nodes use.
    clones: dict[int, int] = field(default_factory=dict)  #: Node that was cloned -> its clone.

    def copied(self, name: Callable[[int], int] = int) -> Graph:
        """A copy; `name` converts handles of nodes."""
        names = {handle: name(handle) for handle in self.nodes}
        nodes = {
            names[handle]: replace(node, after={names[one] for one in node.after})
            for handle, node in self.nodes.items()
        }
        return Graph(nodes, set(self.memory), dict(self.objects), list(self.kept), names)

    def order(self) -> list[int]:
        """Handles in an order that dependencies allow: creation order, except for nodes that must wait.

        Raises DriverError: a node waits for itself.

        >>> graph = Graph({1: Node("empty", print, {2}), 2: Node("empty", print), 3: Node("empty", print)})
        >>> graph.order()
        [2, 1, 3]
        """
        handles = list(self.nodes)
        waiting = {handle: len(node.after) for handle, node in self.nodes.items()}
        followers: dict[int, list[int]] = {}
        for at, node in enumerate(self.nodes.values()):
            for one in node.after:
                followers.setdefault(one, []).append(at)
        ready = [at for at, handle in enumerate(handles) if not waiting[handle]]
        found: list[int] = []
        while ready:
            found.append(handles[heapq.heappop(ready)])
            for at in followers.get(found[-1], ()):
                waiting[handles[at]] -= 1
                if not waiting[handles[at]]:
                    heapq.heappush(ready, at)
        if len(found) < len(handles):
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "a graph must have no cycle of dependencies")
        return found

    def run(self, stream: int) -> None:
        """Do the work."""
        for handle in self.order():
            self.nodes[handle].work(stream)

    def take(self, other: Graph) -> tuple[str, int, int]:
        """Replace the work of the nodes by that of a graph with the same nodes and dependencies.

        Returns "", or what differs: `topology` or `type`, with the nodes of this graph and of the other one.
        """
        here, there = list(self.nodes), list(other.nodes)
        if len(here) != len(there):
            return "topology", 0, 0
        same = dict(zip(there, here, strict=True))
        for mine, its in zip(here, there, strict=True):
            node, new = self.nodes[mine], other.nodes[its]
            if node.kind != new.kind:
                return "type", mine, its
            if node.after != {same[one] for one in new.after}:
                return "topology", mine, its
        for mine, its in zip(here, there, strict=True):
            self.nodes[mine] = replace(other.nodes[its], after=self.nodes[mine].after)
        self.memory, self.kept = set(other.memory), list(other.kept)
        return "", 0, 0


@dataclass(eq=False)
class Branch:
    """The work that the next work of a captured stream follows, or that an event follows."""

    last: set[int]  #: The nodes that it depends on.
    before: set[int]  #: All nodes before it, and the captured streams whose work so far it follows.

    def copied(self) -> Branch:
        """A copy."""
        return Branch(set(self.last), set(self.before))

    def join(self, other: Branch) -> None:
        """Follow the work of another branch too."""
        passed = (other.before - other.last) | (self.before - self.last)
        self.last = (self.last | other.last) - passed
        self.before |= other.before


class Capture:
    """A graph that gets the work of streams.

    `only`: whether work in other streams is refused meanwhile, as PyTorch's captures do here.
    """

    def __init__(self, stream: int, handle: int, new_handle: Callable[[], int], *, only: bool = False) -> None:
        self.stream = stream  #: The stream whose capture began it.
        self.handle = handle  #: The graph's.
        self.graph = Graph()
        self.only = only
        self.invalid = False  #: Whether a call has failed that a capture forbids.
        self.streams: dict[int, Branch] = {stream: Branch(set(), {stream})}
        self.events: dict[int, Branch] = {}
        self._new_handle = new_handle

    def refuse(self, call: str, why: str = "it needs results, which a capture does not compute") -> NoReturn:
        """Raises RuntimeError: a call cannot be captured."""
        raise RuntimeError(f"{call} must not be called while a graph is captured ({why}); call it before or after")

    def require(self, stream: int, call: str) -> None:
        """Raises RuntimeError: a stream is not captured."""
        if stream not in self.streams:
            raise RuntimeError(f"{call} is in a stream that is not captured; {_OUTSIDE}")

    def add(self, stream: int, work: Work, kind: str = "kernel", child: Graph | None = None) -> None:
        """Add work to a captured stream."""
        branch, node = self.streams[stream], self._new_handle()
        self.graph.nodes[node] = Node(kind, work, branch.last, child)
        branch.last = {node}
        branch.before.add(node)

    def recorded(self, event: int, stream: int) -> bool:
        """Record an event; return whether its stream is captured."""
        self.events.pop(event, None)
        if stream in self.streams:
            self.events[event] = self.streams[stream].copied()
        return event in self.events

    def waits(self, stream: int, event: int) -> bool:
        """Make a stream follow the work before an event; return whether it is of the capture, as the stream then is."""
        if event in self.events:
            self.streams.setdefault(stream, Branch(set(), {stream})).join(self.events[event])
        return event in self.events

    @property
    def unjoined(self) -> bool:
        """Whether a stream has work that the first one does not follow."""
        return any(not branch.before <= self.streams[self.stream].before for branch in self.streams.values())


@dataclass(slots=True)
class UserObject:
    """A program's object, and the function that is called when nothing refers to it any more."""

    pointer: int
    destroy: int
    count: int


class Graphs:
    """The graphs of one GPU by handle, with the captures, and the memory and objects that graphs keep."""

    def __init__(self, new_handle: Callable[[], int], free: Callable[[int], None]) -> None:
        self.named: dict[int, Graph] = {}
        self.ready: dict[int, Graph] = {}  #: Instantiated graphs.
        self.captures: list[Capture] = []
        #: Memory that graphs allocate, kept as long as a graph uses it; whether a launch left it allocated.
        self.memory: dict[int, bool] = {}
        self.objects: dict[int, UserObject] = {}
        self.running = False  #: Whether the work of a graph is being done.
        self._new_handle, self._free = new_handle, free

    def reset(self) -> None:
        """Forget everything."""
        for known in (self.named, self.ready, self.captures, self.memory, self.objects):
            known.clear()

    def name(self, graph: Graph, *, ready: bool = False) -> int:
        """A handle for a graph, instantiated or not."""
        handle = self._new_handle()
        (self.ready if ready else self.named)[handle] = graph
        return handle

    def graph(self, handle: int) -> Graph:
        """A graph by its handle; also that of a capture, which `cuStreamGetCaptureInfo` names."""
        for capture in self.captures:
            if capture.handle == handle:
                return capture.graph
        return _found(self.named, handle, "graph")

    def executable(self, handle: int) -> Graph:
        """An instantiated graph by its handle."""
        return _found(self.ready, handle, "instantiated graph")

    def of_node(self, handle: int) -> Graph:
        """The graph that has a node."""
        for graph in (*self.named.values(), *(capture.graph for capture in self.captures)):
            if handle in graph.nodes:
                return graph
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "there is no such node")

    def new_node(self, graph: Graph, kind: str, work: Work, after: Iterable[int], child: Graph | None = None) -> int:
        """Add a node; return its handle."""
        before = set(after)
        if not before <= graph.nodes.keys():
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "a node must depend on nodes of its own graph")
        handle = self._new_handle()
        graph.nodes[handle] = Node(kind, work, before, child)
        return handle

    def clone(self, graph: Graph) -> Graph:
        """A copy with nodes of its own."""
        return graph.copied(lambda _: self._new_handle())

    def forget(self, handle: int) -> None:
        """Destroy an instantiated graph, with memory that no other graph uses; no effect if it is gone."""
        graph = self.ready.pop(handle, None)
        for address in graph.memory if graph is not None else ():
            self.unused(address)

    def run(self, graph: Graph, stream: int) -> None:
        """Do the work of a graph."""
        outer, self.running = self.running, True
        try:
            graph.run(stream)
        finally:
            self.running = outer

    # -- captures -----------------------------------------------------------------------------------------------

    @property
    def capturing(self) -> Capture | None:
        """The first capture that has not ended."""
        return self.captures[0] if self.captures else None

    def begin(self, stream: int, *, only: bool = False) -> Capture:
        """Capture a stream from now on."""
        self.captures.append(Capture(stream, self._new_handle(), self._new_handle, only=only))
        return self.captures[-1]

    def captured(self, stream: int) -> Capture | None:
        """The capture of a stream.

        Raises DriverError: a forbidden call has made it invalid.
        """
        found = next((one for one in self.captures if stream in one.streams), None)
        if found is not None and found.invalid:
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "a call that captures forbid has failed before")
        return found

    def forbid(self, stream: int | None = None, why: str = "a stream that is captured does no work") -> None:
        """Reject a call that waits for a captured stream, or (None) for all streams, and make the capture invalid."""
        for capture in [self.captured(stream)] if stream is not None else self.captures:
            if capture is not None:
                capture.invalid = True
                raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", why)

    # -- memory -------------------------------------------------------------------------------------------------

    def allocated(self, graph: Graph, address: int) -> Work:
        """The work of a node that allocates; the memory is there already."""
        graph.memory.add(address)
        self.memory.setdefault(address, False)
        return lambda _: self.memory.update({address: True})

    def freed(self, graph: Graph, address: int) -> Work:
        """The work of a node that frees memory, which stays for the next launch."""
        if address not in self.memory:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "a graph can only free memory that a graph allocates")
        graph.memory.add(address)
        return lambda _: self.memory.update({address: False})

    def give_back(self, address: int) -> bool:
        """Free memory; return whether it is a graph's."""
        if address not in self.memory:
            return False
        self.memory[address] = False
        self.unused(address)
        return True

    def unused(self, address: int) -> None:
        """Free a graph's memory if no graph uses it and no launch left it allocated."""
        graphs = (*self.named.values(), *self.ready.values(), *(one.graph for one in self.captures))
        if self.memory.get(address) is False and not any(address in graph.memory for graph in graphs):
            del self.memory[address]
            self._free(address)


def submit(gpu: HasGraphs, stream: int, work: Work, kind: str, child: Graph | None = None) -> None:
    """Do a stream's work now, or make it a node of the graph that captures the stream.

    Raises DriverError: there is no such stream, the work fails, or a capture forbids it.
    """
    gpu.stream(stream)  # it exists
    captures = gpu.graphs.captures
    capture = gpu.graphs.captured(stream) if captures else None
    if capture is not None:
        capture.add(stream, work, kind, child)
        return
    for other in captures:
        if other.only:
            code = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
            raise DriverError(code, f"{code}: {_OUTSIDE}")
        if stream in _LEGACY and not _independent(gpu.streams, other):
            other.invalid = True
            rule = "work in the default stream would wait for a captured stream; make that with cudaStreamNonBlocking"
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", rule)
    work(stream)


def _independent(streams: Mapping[int, Any], capture: Capture) -> bool:
    return all(streams[one].independent for one in capture.streams if one in streams)


def _found(known: dict[int, Graph], handle: int, what: str) -> Graph:
    if handle not in known:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", f"there is no such {what}")
    return known[handle]
