"""Torch's CPU tensors as operands and results; they share memory with NumPy's arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError
from tilewright.multiply.engine.libraries.adapter import Array, Read, Wrap
from tilewright.multiply.problem.dtypes import extends_numpy

#: Width of a dtype that ml_dtypes adds to NumPy -> a torch dtype of that width that NumPy has itself.
_CARRIERS = {1: "uint8", 2: "int16"}


def array(value: Any, name: str) -> Array:
    """The tensor's memory; lazily conjugated or negated ones are copied.

    Raises ArgumentTypeError: the tensor is not on the CPU, requires a gradient, or has a dtype or layout that NumPy
    lacks.
    """
    if value.device.type != "cpu":
        raise ArgumentTypeError(f"`{name}` must be a CPU tensor (this one is on {value.device}); call .cpu()")
    torch = sys.modules["torch"]
    if value.requires_grad and torch.is_grad_enabled():
        raise ArgumentTypeError(
            f"`{name}` must be without gradient (this one requires one, and only those of `a` and `b` are computed); "
            "call .detach()"
        )
    plain = value.detach().resolve_conj().resolve_neg()
    kind = str(plain.dtype).removeprefix("torch.")
    try:
        if extends_numpy(kind):
            import ml_dtypes

            carrier = getattr(torch, _CARRIERS[plain.element_size()])
            return np.asarray(plain.view(carrier).numpy()).view(getattr(ml_dtypes, kind))
        return np.asarray(plain.numpy())
    except (TypeError, RuntimeError, AttributeError) as error:
        raise ArgumentTypeError(
            f"`{name}` must be a tensor that NumPy can see (got {plain.dtype}: {error}); convert it with .to(...)"
        ) from error


def operands(a: Any, b: Any, read: Read) -> tuple[Array, Array, Wrap]:
    """The arrays of two operands; their product is a tensor."""
    return read(a, "a"), read(b, "b"), tensor


def tensor(result: Array) -> Any:
    """A tensor over an array's memory."""
    torch = sys.modules["torch"]
    kind, plain = result.dtype.name, np.asarray(result)
    if extends_numpy(kind):
        return torch.from_numpy(plain.view(_CARRIERS[plain.itemsize])).view(getattr(torch, kind))
    return torch.from_numpy(plain)
