"""JAX's arrays as operands and results; a value that `jax.jit` or `jax.grad` traces has no memory to read."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError
from tilewright.multiply.engine.libraries.adapter import Array, Read, Wrap


def array(value: Any, name: str) -> Array:
    """The array's memory; a copy if it is on another device.

    Raises ArgumentTypeError: it is traced.
    """
    if isinstance(value, sys.modules["jax"].core.Tracer):
        raise ArgumentTypeError(
            f"`{name}` must have values (got one that JAX traces); call tilewright in jax.pure_callback, or outside of "
            "jax.jit and jax.grad"
        )
    return np.asarray(value)


def operands(a: Any, b: Any, read: Read) -> tuple[Array, Array, Wrap]:
    """The arrays of two operands; their product is a JAX array, of a dtype that JAX allows at that time."""
    return read(a, "a"), read(b, "b"), sys.modules["jax"].numpy.asarray
