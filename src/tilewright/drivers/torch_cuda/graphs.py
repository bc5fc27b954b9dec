"""CUDA graphs of torch: a capture records operations and launches without running them; a replay runs them.

Results of captured operations get memory when they are captured, with the shapes of the same operations on torch's
device `meta`, which computes nothing. A replay copies its results there.

Source: PyTorch, "CUDA semantics", section "CUDA Graphs".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch.utils import _pytree

from tilewright.drivers import capturing
from tilewright.drivers.current import current_gpu
from tilewright.drivers.torch_cuda.streams import Stream
from tilewright.drivers.torch_cuda.tensors import UNSET, on_gpu


class Capture(capturing.Capture):
    """What a graph of torch runs, with operations of torch."""

    def __init__(self, stream: int) -> None:
        super().__init__(stream)
        self._kept: list[Any] = []

    def refuse(self, call: str, why: str = "it needs results, which a capture does not compute") -> NoReturn:
        """Raises RuntimeError: a call cannot be captured."""
        raise RuntimeError(f"{call} must not be called while a graph is captured ({why}); call it before or after")

    def operation(self, operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Add an operation of torch, and return its results, of which only the memory exists."""
        given = {id(one): (one, _like(one, "meta")) for one in _pytree.tree_leaves((args, kwargs)) if _is_tensor(one)}
        found = self._shapes(operation, args, kwargs, given)
        known = {id(shape): one for one, shape in given.values()}
        fresh: list[Any] = []

        def on_device(one: Any) -> Any:
            if not _is_tensor(one) or id(one) in known:
                return known.get(id(one), one)
            fresh.append(on_gpu(_like(one, "cpu"), unset=True))
            return fresh[-1]

        results = _pytree.tree_map(on_device, found)
        self._kept += fresh  # a launch may have an address in it alone
        if operation.overloadpacket.__name__ not in UNSET:
            self.steps.append(lambda: _again(operation, args, kwargs, results, fresh))
        return results

    def _shapes(self, operation: Any, args: Any, kwargs: dict[str, Any], given: dict[int, tuple[Any, Any]]) -> Any:
        """The results on the device `meta`. `given` has each tensor and its stand-in there."""
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": torch.device("meta")}
        args, kwargs = _pytree.tree_map(lambda one: given[id(one)][1] if _is_tensor(one) else one, (args, kwargs))
        try:
            found = operation(*args, **kwargs)
        except RuntimeError:
            self.refuse(str(operation), "its results depend on values, or torch cannot tell their shapes without them")
        if any(one.shape != shape.shape for one, shape in given.values()):
            self.refuse(str(operation), "it changes the shape of a tensor")
        return found

    def replay(self) -> None:
        """Run all steps."""
        with torch.no_grad():
            super().replay()


def _is_tensor(one: Any) -> bool:
    return isinstance(one, torch.Tensor)


def _like(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)


def _again(operation: Any, args: Any, kwargs: dict[str, Any], results: Any, fresh: list[Any]) -> None:
    """Run an operation, and copy its new results to their memory."""
    found = operation(*args, **kwargs)
    for kept, new in zip(_pytree.tree_leaves(results), _pytree.tree_leaves(found), strict=True):
        if any(kept is one for one in fresh):
            kept.copy_(new)


class CUDAGraph:
    """A graph, like `torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._captured: Capture | None = None
        self._pool: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        """Capture from now on. Raises RuntimeError: another capture has begun."""
        gpu = current_gpu()
        if gpu.capturing is not None:
            gpu.capturing.refuse("capture_begin()", "one graph is captured at a time")
        gpu.capturing, self._pool = Capture(torch.cuda.current_stream().cuda_stream), pool

    def capture_end(self) -> None:
        """End the capture. Raises RuntimeError: none has begun."""
        gpu = current_gpu()
        if gpu.capturing is None:
            raise RuntimeError("capture_end() must follow capture_begin() (got no capture); call that first")
        self._captured, gpu.capturing = gpu.capturing, None

    def instantiate(self) -> None:
        """Prepare replays; there is nothing to prepare."""

    def replay(self) -> None:
        """Run what was captured. Raises RuntimeError: nothing was."""
        gpu = current_gpu()
        if gpu.capturing is not None:
            gpu.capturing.refuse("replay()", "a graph within a graph is not implemented")
        if self._captured is None:
            raise RuntimeError("replay() needs a captured graph (got none); use `with torch.cuda.graph(g):` first")
        self._captured.replay()

    def reset(self) -> None:
        """Release what was captured, with its memory."""
        self._captured = None

    def pool(self) -> Any:
        """Its pool's token; pools share no memory here."""
        self._pool = self._pool or pool_handle()
        return self._pool


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
            cuda_graph.capture_end()
            cuda_graph.reset()
            raise
        cuda_graph.capture_end()
