"""CUDA graphs of torch: a capture records operations and launches without running them; a replay runs them.

Source: PyTorch, "CUDA semantics", section "CUDA Graphs".
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tilewright.frontends.torch.streams import Stream
from tilewright.simulate.device.graphs import Capture, Graph
from tilewright.simulate.device.installed_gpu import current_gpu


class CUDAGraph:
    """A graph, like `torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._begun: Capture | None = None
        self._captured: Graph | None = None
        self._forget: Callable[[], Any] = int  # destroys what was captured
        self._pool: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        """Capture from now on. Raises RuntimeError: another capture has begun."""
        gpu = current_gpu()
        if gpu.capturing is not None:
            gpu.capturing.refuse("capture_begin()", "one graph is captured at a time")
        self._begun, self._pool = gpu.graphs.begin(torch.cuda.current_stream().cuda_stream, only=True), pool

    def capture_end(self) -> None:
        """End the capture. Raises RuntimeError: this graph has begun none, or a stream is not joined."""
        found, gpu = self._begun, current_gpu()
        if found is None or found not in gpu.graphs.captures:
            got = "no capture" if gpu.capturing is None else "another graph's"
            raise RuntimeError(f"capture_end() must follow the graph's capture_begin() (got {got}); call that first")
        self._end()
        if found.unjoined:
            rule = "the first stream must wait for each other one after its last work; call wait_stream() before"
            raise RuntimeError(f"capture_end() needs the captured streams joined: {rule}")
        self._captured, handle = found.graph, gpu.graphs.name(found.graph, ready=True)
        self._forget = weakref.finalize(self, gpu.graphs.forget, handle)

    def instantiate(self) -> None:
        """Prepare replays; there is nothing to prepare."""

    def replay(self) -> None:
        """Run what was captured. Raises RuntimeError: nothing was."""
        gpu = current_gpu()
        if gpu.capturing is not None:
            gpu.capturing.refuse("replay()", "a graph within a graph is not implemented")
        if self._captured is None:
            raise RuntimeError("replay() needs a captured graph (got none); use `with torch.cuda.graph(g):` first")
        gpu.graphs.run(self._captured, torch.cuda.current_stream().cuda_stream)

    def reset(self) -> None:
        """Release what was captured, with its memory; give up its capture."""
        self._end()
        self._forget()
        self._captured = None

    def _end(self) -> None:
        captures = current_gpu().graphs.captures
        if self._begun in captures:
            captures.remove(self._begun)
        self._begun = None

    def pool(self) -> Any:
        """Its pool's token; pools share no memory here."""
        self._pool = self._pool or pool_handle()
        return self._pool


def is_capturing() -> bool:
    """Whether the current stream is captured."""
    capture = current_gpu().capturing
    return capture is not None and torch.cuda.current_stream().cuda_stream in capture.streams


def pool_handle() -> tuple[int, int]:
    """A token for a pool."""
    return 0, current_gpu().new_handle()


@contextmanager
def graph(cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, **_: Any) -> Iterator[None]:
    """Capture the body, like `torch.cuda.graph`. After an error there is no graph."""
    with torch.cuda.stream(stream or Stream()):
        cuda_graph.capture_begin(pool)
        try:
            yield
        except BaseException:
            cuda_graph.reset()
            raise
        cuda_graph.capture_end()
