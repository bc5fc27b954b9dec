"""Arrays of the device that the host computes with, in place of machine code that CuPy calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.internal_code import source_line
from tilewright.simulate.observer import ArgumentFact

Array = npt.NDArray[Any]


def array_at(
    gpu: SimulatedGpu, address: int, dtype: Any, shape: Sequence[int], strides: Sequence[int] | None = None
) -> Array:
    """The array at a device address, which is a host address too. `strides` are in bytes; None: by rows."""
    kind = np.dtype(dtype)
    sizes = tuple(shape)
    steps = tuple(strides) if strides is not None else _by_rows(sizes, kind.itemsize)
    reach = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True)) + kind.itemsize
    gpu.check_range(address, reach if math.prod(sizes) else 0)
    gpu.used([address])
    # as bytes, since the protocol has no name for bfloat16
    described = {"data": (address, False), "shape": (*sizes, kind.itemsize), "typestr": "|u1", "version": 3}
    described["strides"] = (*steps, 1)
    found: Array = np.asarray(SimpleNamespace(__array_interface__=described)).view(kind)[..., 0]
    return found


def read(gpu: SimulatedGpu, array: Array) -> Array:
    """Tell observers that the host reads an array; return it."""
    if array.size:
        fact = ArgumentFact("", array.dtype, array.shape, array.strides, array.ctypes.data)
        for observer in gpu.observers:
            observer.host_reads(fact, source_line())
    return array


def write(gpu: SimulatedGpu, target: Array, values: Array) -> None:
    """Write values into an array, and tell observers."""
    if not target.size:
        return
    gpu.changes([target.ctypes.data])
    target[...] = values
    order = sorted(range(target.ndim), key=lambda axis: target.strides[axis])
    rows = target.transpose(order[::-1])
    if rows.flags.c_contiguous:
        gpu.wrote(rows.ctypes.data, rows.nbytes)
        return
    for at in np.ndindex(rows.shape[:-1]):  # not what lies between rows
        gpu.wrote(rows[at].ctypes.data, rows.shape[-1] * rows.itemsize)


def _by_rows(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) * item_bytes for axis in range(len(shape)))
