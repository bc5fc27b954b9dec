"""The catalogue's kernels of the host."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy.typing as npt

from tilewright.errors import ArgumentValueError
from tilewright.multiply.backends.cpu import product, three_loops
from tilewright.multiply.kernels.record import Record

Array = npt.NDArray[Any]
_PRODUCTS = MappingProxyType({"three_loops": three_loops.multiply, "cpu_engine": product.multiply})


def run(record: Record, a: Array, b: Array) -> Array:
    """Multiply with a kernel of the host.

    Raises ArgumentValueError: the kernel is not one of the host.
    """
    if record.name not in _PRODUCTS:
        raise ArgumentValueError(
            f"kernel {record.name!r} runs on a GPU; launch its program with tilewright.simt.launch"
        )
    return _PRODUCTS[record.name](a, b)
