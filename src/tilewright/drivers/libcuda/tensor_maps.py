"""Tensor maps by the driver's functions for programs in C, whose arrays are addresses.

Source: CUDA Driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tilewright.drivers import tensor_maps
from tilewright.drivers.gpu import DriverError, SimulatedGpu
from tilewright.gpu.map_encoding import AXES_MOST


def cuTensorMapEncodeTiled(
    gpu: SimulatedGpu, target: int, type_: int, rank: int, address: int, extents: int, strides: int, box: int,
    steps: int, *modes: int,
) -> None:  # fmt: skip
    """A map of a tensor, to 128 bytes."""
    if not target or not 1 <= rank <= AXES_MOST or not (extents and box and steps and (strides or rank == 1)):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "cuTensorMapEncodeTiled: the rank must be 1 to 5, no array null")

    def numbers(kind: Any, at: int, count: int) -> list[int]:
        return list((kind * count).from_address(at)) if count else []

    longs, words = ctypes.c_uint64, ctypes.c_uint32
    made = tensor_maps.cuTensorMapEncodeTiled(
        gpu, type_, rank, address, numbers(longs, extents, rank), numbers(longs, strides, rank - 1),
        numbers(words, box, rank), numbers(words, steps, rank), *modes,
    )  # fmt: skip
    encoded = np.array([int(word) for word in made.opaque], np.uint64).tobytes()
    ctypes.memmove(target, encoded, len(encoded))
