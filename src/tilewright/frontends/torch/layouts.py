"""Layouts that tensors on the simulated GPU do not have: sparse and nested ones are refused before torch makes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tilewright.frontends.torch.devices import tensors_of
from tilewright.frontends.torch.tensors import DeviceTensor, refuse_kind
from tilewright.ground.native.replaced_names import Row

#: Functions that make such tensors, by module.
_MAKERS = (
    *(("torch", f"sparse_{kind}_tensor") for kind in "coo csr csc bsr bsc compressed".split()),
    *(("torch.nested", name) for name in "nested_tensor as_nested_tensor nested_tensor_from_jagged".split()),
)


def rows() -> Iterator[Row]:
    """The names that are replaced."""
    for module, name in _MAKERS:
        original = getattr(torch.nested if module == "torch.nested" else torch, name, None)
        if original is not None:
            yield module, name, _refusing(original)


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces a function: it makes tensors of the host alone."""

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        require_host(original.__name__, args, kwargs)
        return original(*args, **kwargs)

    return make


def require_host(kind: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Reject a call that makes a tensor of a kind on the device.

    Raises NotImplementedError: it does.
    """
    device = kwargs.get("device")
    there = device is None and any(isinstance(one, DeviceTensor) for one in tensors_of((args, kwargs)))
    if there or torch.device(torch.get_default_device() if device is None else device).type == "cuda":
        refuse_kind(kind)
