"""A graph of work: nodes and their dependencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

#: Does the work of a node, for a thread of the program: a `Caller`.
Work = Callable[[Any], None]


@dataclass(eq=False)
class Node:
    """A piece of work, and the nodes that must run before it."""

    work: Work
    kind: str
    after: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Graph:
    """Nodes by handle, in the order of their creation."""

    stream: int  #: The stream that is captured in it; 0 for none.
    nodes: dict[int, Node] = field(default_factory=dict)
    memory: set[int] = field(default_factory=set)  #: Addresses that its nodes allocate or free.

    def note(self, handle: int, work: Work, kind: str) -> None:
        """Add work that runs after all earlier nodes."""
        self.nodes[handle] = Node(work, kind)

    def copy(self) -> Graph:
        """A copy with the same nodes and handles."""
        nodes = {handle: replace(node, after=set(node.after)) for handle, node in self.nodes.items()}
        return Graph(0, nodes, set(self.memory))

    def order(self) -> list[int]:
        """Handles in an order that dependencies allow: creation order, except for nodes that must wait.

        >>> graph = Graph(0, {1: Node(print, "empty", {2}), 2: Node(print, "empty")})
        >>> graph.order()
        [2, 1]
        """
        done: dict[int, None] = {}
        waiting = list(self.nodes)
        while waiting:
            ready = [one for one in waiting if self.nodes[one].after <= done.keys()]
            done.update(dict.fromkeys(ready or waiting))
            waiting = [one for one in waiting if one not in done]
        return list(done)

    def run(self, caller: Any) -> None:
        """Do the work."""
        for handle in self.order():
            self.nodes[handle].work(caller)
