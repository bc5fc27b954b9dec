"""Rules of torch about devices: there is one GPU, and an operation takes tensors of one device.

Source: PyTorch, "CUDA semantics"; `_index_put_impl_` and `TensorIterator` of its sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils import _pytree

from tilewright.frontends.libcuda.errors import meaning
from tilewright.simulate.device.gpu import BrokenError, SimulatedGpu

#: The one device.
CUDA = torch.device("cuda", 0)
#: Attribute of an empty storage on the device, which has no address.
MARK = "_tilewright_on_gpu"
#: Functions that move elements between devices.
_ANY_DEVICE = frozenset({"__deepcopy__", "copy_", "data"})
#: Functions that take lengths, or places of cuts, from the host.
_LENGTHS = frozenset(
    "_pack_padded_sequence _pad_packed_sequence ctc_loss gru lstm rnn_relu rnn_tanh tensor_split".split()
)
_INDEXING = frozenset({"__getitem__", "__setitem__", "index_put_", "index_put"})


def require_working(gpu: SimulatedGpu) -> None:
    """Reject work after a launch that broke the device.

    Raises AcceleratorError, torch's; a RuntimeError in releases that have none.
    """
    try:
        gpu.require_working()
    except BrokenError as error:
        raise _failed(f"{meaning(error.code)}\n{error}") from None


def _failed(text: str) -> Exception:
    error: Exception = getattr(torch, "AcceleratorError", RuntimeError)(f"CUDA error: {text}")
    return error


def require_only_gpu(device: Any) -> None:
    """Reject a device that does not exist: `cuda:1`, or its number.

    Raises AcceleratorError, torch's; a RuntimeError in releases that have none.
    """
    number = device if isinstance(device, int) else torch.device("cuda" if device is None else device).index
    if number is not None and number > 0:
        raise _failed("invalid device ordinal")


def is_traced(tensor: Any) -> bool:
    """Whether a tensor has no elements: a compiler traces operations with it."""
    return isinstance(tensor, FakeTensor | FunctionalTensor)


def is_tracing() -> bool:
    """Whether torch's factories make tensors for a compiler."""
    return active_fake_mode() is not None


def marked(storage: Any) -> Any:
    """An empty storage, on the device from now on."""
    setattr(storage, MARK, True)
    return storage


def with_properties(device: Any, found: Any) -> Any:
    """What is known of the device; reject another one.

    Raises AssertionError, as torch does.
    """
    number = device if isinstance(device, int) else torch.device("cuda" if device is None else device).index
    if number not in (None, 0):
        raise AssertionError("Invalid device id")
    return found


def refuse_mixed(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Reject a mix of host and device tensors, as torch does with a GPU.

    Raises RuntimeError: a function of torch gets one; an operator of a program decides itself.
    """
    name = getattr(function, "__name__", "")
    if name in _ANY_DEVICE or _is_programs(function):
        return
    given: Sequence[Any] = (*args, *kwargs.values())
    if name in _INDEXING:
        with torch._C.DisableTorchFunctionSubclass():
            given = _compared(with_tensors(_without_transforms, given))
    found = list(map(_without_transforms, tensors_of(given)))
    if name in _LENGTHS:
        found = [one for one in found if one.dtype != torch.int64]
    if any(not one.is_cuda and one.dim() and not one.is_meta for one in found) and any(x.is_cuda for x in found):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {CUDA} and cpu! "
            f"(when calling {name or function})"
        )


def _compared(given: Sequence[Any]) -> Sequence[Any]:
    """The tensors that must be on one device, of an indexed tensor, its index, and the values to store."""
    tensor, index, *values = given
    places = [one for one in _pytree.tree_leaves(index) if isinstance(one, torch.Tensor) and not _is_number(one)]
    if not tensor.is_cuda and any(one.is_cuda for one in places):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    stored = values[:1] if places or _has_list(index) else []  # else it is a copy
    return [tensor, *(one for one in stored if isinstance(one, torch.Tensor) and (one.is_cuda or one.numel() > 1))]


def _is_number(tensor: torch.Tensor) -> bool:
    """Whether an index is read as a number, on any device."""
    return not tensor.dim() and tensor.dtype not in (torch.bool, torch.uint8)


def _has_list(index: Any) -> bool:
    return isinstance(index, list) or (isinstance(index, tuple) and any(isinstance(one, list) for one in index))


def _is_programs(function: Any) -> bool:
    name = str(getattr(function, "_qualified_op_name", None) or getattr(function, "namespace", "aten"))
    return not name.startswith(("aten", "prim"))


#: Containers of arguments that are taken apart here. For all others torch's functions do it, in ten times as long.
PLAIN = (tuple, list)
#: Types of arguments that have no tensors in them.
LEAVES = frozenset(
    {
        *(int, float, bool, complex, str, slice, type(None), type(...), torch.Size, torch.Generator),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    }
)


def tensors_of(given: Any) -> list[torch.Tensor]:
    """The tensors in arguments or results, in their order."""
    if isinstance(given, torch.Tensor):
        return [given]
    kind = type(given)
    if kind in LEAVES:
        return []
    parts = given if kind in PLAIN else given.values() if kind is dict else None
    if parts is None:
        return [one for one in _pytree.tree_leaves(given) if isinstance(one, torch.Tensor)]
    return [one for part in parts for one in tensors_of(part)]


def with_tensors(change: Callable[[torch.Tensor], Any], given: Any) -> Any:
    """Arguments or results with each tensor replaced."""
    if isinstance(given, torch.Tensor):
        return change(given)
    kind = type(given)
    if kind in LEAVES:
        return given
    if kind in PLAIN:
        return kind([with_tensors(change, one) for one in given])
    if kind is dict:
        return {name: with_tensors(change, one) for name, one in given.items()}
    return _pytree.tree_map(lambda one: change(one) if isinstance(one, torch.Tensor) else one, given)


def _without_transforms(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor within those that the transforms of `torch.func` put around it."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor
