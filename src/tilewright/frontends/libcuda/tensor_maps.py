"""Tensor maps from the driver functions of code in C, whose arrays are addresses.

Source: CUDA Driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import struct

import numpy as np

from tilewright.simulate.device import tensor_maps
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.tensor_maps.encoding import AXES_MOST


def cuTensorMapEncodeTiled(
    gpu: SimulatedGpu,
    target: int,
    type_: int,
    rank: int,
    address: int,
    extents: int,
    strides: int,
    box: int,
    steps: int,
    *modes: int,
) -> None:
    """Write a map of a tensor to 128 bytes."""
    if not target or not 1 <= rank <= AXES_MOST or not (extents and box and steps and (strides or rank == 1)):
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "cuTensorMapEncodeTiled: the rank must be 1 to 5, no array null")

    words = [gpu.host.words(count, at) for at, count in ((extents, rank), (strides, rank - 1))]
    numbers = [struct.unpack(f"<{rank}I", gpu.host.read(at, 4 * rank)) for at in (box, steps)]
    made = tensor_maps.cuTensorMapEncodeTiled(gpu, type_, rank, address, *words, *numbers, *modes)
    gpu.host.write(target, np.array([int(word) for word in made.opaque], np.uint64).tobytes())
