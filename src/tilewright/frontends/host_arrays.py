"""Arrays of the device that the host computes with, in place of machine code that a program calls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.observer import ArgumentFact
from tilewright.simulate.state import GLOBAL_BASE

Array = npt.NDArray[Any]


def array_at(
    gpu: SimulatedGpu, address: int, dtype: Any, shape: Sequence[int], strides: Sequence[int] | None = None
) -> Array:
    """The array at a device address, in this process's memory. `strides` are in bytes; None: by rows."""
    kind = np.dtype(dtype)
    sizes = tuple(shape)
    steps = tuple(strides) if strides is not None else _by_rows(sizes, kind.itemsize)
    reach = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True)) + kind.itemsize
    if not math.prod(sizes):
        gpu.check_range(address, 0)
        return np.empty(sizes, kind)
    gpu.check_range(address, reach)
    gpu.used([address])
    found: Array = np.ndarray(sizes, kind, gpu.memory.view(address, reach), strides=steps)
    return found


def address_of(gpu: SimulatedGpu, array: Array) -> int:
    """The device address of an array's first element."""
    return int(array.ctypes.data) - gpu.memory.host_address + GLOBAL_BASE


def read(gpu: SimulatedGpu, array: Array) -> Array:
    """Tell observers that the host reads an array; return it."""
    if array.size:
        fact = ArgumentFact("", array.dtype, array.shape, array.strides, address_of(gpu, array))
        for observer in gpu.observers:
            observer.host_reads(fact, gpu.line())
    return array


@contextmanager
def written(gpu: SimulatedGpu, target: Array) -> Iterator[None]:
    """The body writes every element of an array; tell observers."""
    if not target.size:
        yield
        return
    gpu.changes([address_of(gpu, target)])
    yield
    if not gpu.observers:
        return
    rising = target[tuple(slice(None, None, -1 if step < 0 else 1) for step in target.strides)]
    order = sorted(range(rising.ndim), key=lambda axis: rising.strides[axis])
    rows = rising.transpose(order[::-1])
    start = address_of(gpu, rows)
    if rows.flags.c_contiguous:
        gpu.wrote(start, rows.nbytes)
        return
    whole = rows.strides[-1] == rows.itemsize
    for at in np.ndindex(rows.shape[:-1] if whole else rows.shape):  # not what lies between rows or elements
        offset = sum(index * step for index, step in zip(at, rows.strides, strict=False))
        gpu.wrote(start + offset, (rows.shape[-1] if whole else 1) * rows.itemsize)


def write(gpu: SimulatedGpu, target: Array, values: Array) -> None:
    """Write values into an array, and tell observers."""
    with written(gpu, target):
        target[...] = values


def _by_rows(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) * item_bytes for axis in range(len(shape)))
