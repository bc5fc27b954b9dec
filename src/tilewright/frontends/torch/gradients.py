"""Gradients that nobody computed: torch's C++ gives a program's `backward` zeros of the host, where a GPU's are due.

Source: PyTorch, "Extending torch.autograd", `set_materialize_grads`; its sources, `python_function.cpp`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import function

from tilewright.frontends.torch.tensors import DeviceTensor, on_gpu
from tilewright.ground.native.replaced_names import Row

#: The attribute of a node that says which of its results are on the device.
_THERE = "_tilewright_on_gpu"


def rows() -> Iterator[Row]:
    """The names that are replaced."""
    starts, node = (function.Function, function._SingleLevelFunction), function.BackwardCFunction
    inherited = torch._C._FunctionBase.__dict__["apply"]
    yield from (
        (function.__name__, f"{one.__name__}.apply", _noting(vars(one).get("apply", inherited))) for one in starts
    )
    yield from (
        (function.__name__, f"{node.__name__}.{name}", _on_device(getattr(node, name)))
        for name in ("apply", "apply_boxed")
        if hasattr(node, name)
    )


def _noting(start: Any) -> Any:
    """Replaces the start of a program's function: its node keeps which results are on the device."""

    def apply(cls: Any, *given: Any, **named: Any) -> Any:
        made = start.__get__(None, cls)(*given, **named)
        results = made if isinstance(made, tuple) else (made,)
        there = [isinstance(one, DeviceTensor) for one in results]
        for one in results:
            if isinstance(one, DeviceTensor) and isinstance(one.grad_fn, function.BackwardCFunction):
                setattr(one.grad_fn, _THERE, there)
        return made

    return classmethod(apply)


def _on_device(run: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces the call of a program's `backward`."""

    @functools.wraps(run)
    def running(node: Any, *given: Any) -> Any:
        there = getattr(node, _THERE, ())
        boxed = len(given) == 1 and isinstance(given[0], list)
        gradients = given[0] if boxed else list(given)
        for at, (one, needed) in enumerate(zip(gradients, there, strict=False)):
            if needed and type(one) is torch.Tensor:
                gradients[at] = on_gpu(one)
        return run(node, gradients) if boxed else run(node, *gradients)

    return running
