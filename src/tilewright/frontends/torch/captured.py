"""Operations of torch in a graph: a capture records them without running them; a replay runs them.

Results of captured operations get memory when they are captured, with the shapes of the same operations on torch's
device `meta`, which computes nothing. A replay copies its results there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from tilewright.simulate.device.graphs import Capture

#: Operations whose results are uninitialised.
UNSET = frozenset({"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted"})


def captured(
    capture: Capture, operation: Any, args: Any, kwargs: dict[str, Any], unset: Callable[[torch.Tensor], Any]
) -> Any:
    """Add an operation in the current stream to a capture, and return its results, of which only the memory exists.

    `unset` makes a tensor on the device like one of the CPU that nobody wrote.

    Raises RuntimeError: the stream is not captured, or the results depend on values.
    """
    stream = torch.cuda.current_stream().cuda_stream
    capture.require(stream, str(operation))
    given = {id(one): (one, _like(one, "meta")) for one in _pytree.tree_leaves((args, kwargs)) if _is_tensor(one)}
    found = _shapes(capture, operation, args, kwargs, given)
    known = {id(shape): one for one, shape in given.values()}
    fresh: list[Any] = []

    def on_device(one: Any) -> Any:
        if not _is_tensor(one) or id(one) in known:
            return known.get(id(one), one)
        fresh.append(unset(_like(one, "cpu")))
        return fresh[-1]

    results = _pytree.tree_map(on_device, found)
    capture.graph.kept += fresh  # a launch may have an address in it alone
    if operation.overloadpacket.__name__ not in UNSET:
        capture.add(stream, lambda _: _again(operation, args, kwargs, results, fresh))
    return results


def _shapes(
    capture: Capture, operation: Any, args: Any, kwargs: dict[str, Any], given: dict[int, tuple[Any, Any]]
) -> Any:
    """The results on the device `meta`. `given` has each tensor and its stand-in there."""
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": torch.device("meta")}
    args, kwargs = _pytree.tree_map(lambda one: given[id(one)][1] if _is_tensor(one) else one, (args, kwargs))
    try:
        found = operation(*args, **kwargs)
    except RuntimeError:
        capture.refuse(str(operation), "its results depend on values, or torch cannot tell their shapes without them")
    if any(one.shape != shape.shape for one, shape in given.values()):
        capture.refuse(str(operation), "it changes the shape of a tensor")
    return found


def _is_tensor(one: Any) -> bool:
    return isinstance(one, torch.Tensor)


def _like(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)


@torch.no_grad()  # type: ignore[untyped-decorator]
def _again(operation: Any, args: Any, kwargs: dict[str, Any], results: Any, fresh: list[Any]) -> None:
    """Run an operation, and copy its new results to their memory."""
    found = operation(*args, **kwargs)
    for kept, new in zip(_pytree.tree_leaves(results), _pytree.tree_leaves(found), strict=True):
        if any(kept is one for one in fresh):
            kept.copy_(new)
