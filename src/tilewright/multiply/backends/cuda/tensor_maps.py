"""Tensor maps for kernels on a real GPU, encoded by its driver: their format is not documented.

Source: CUDA Driver API, "Tensor Map Object Management"; CUTLASS, `copy_traits_sm90_tma.hpp`, of the promotion in L2.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.multiply.backends.cuda import current
from tilewright.simulate.programs.array_arguments import ArrayParameter
from tilewright.simulate.programs.optional import require
from tilewright.simulate.tensor_maps.encoding import SWIZZLES, Encoding
from tilewright.simulate.tensor_maps.hardware import MAP_BYTES
from tilewright.simulate.tensor_maps.tensor_map import ImageMap, TensorMap

#: Encoded addresses kept for each map: alternating buffers are few.
_MOST = 64


@dataclass(frozen=True, eq=False)
class DriverMap(ArrayParameter):
    """A tensor map encoded by the driver."""

    shape = (16,)

    map: TensorMap | ImageMap
    #: Encoded maps by address: the driver's call takes some microseconds.
    _known: dict[int, bytes] = field(default_factory=dict)

    @property
    def array(self) -> Any:  # type: ignore[override]  # what may be asked, not set
        """The array that the map describes."""
        return self.map.array

    def encoded(self, address: int) -> bytes:
        """The 128 bytes, for an array at a device's address.

        Raises DeviceError: the driver refuses the map.
        """
        found = self._known.get(address)
        if found is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            found = self._known[address] = _encoded(self.map.encoding(address))
        return found


def of_driver(argument: Any) -> Any:
    """An argument of a launch with its tensor maps encoded by the driver, also within tuples."""
    if isinstance(argument, tuple):
        return tuple(map(of_driver, argument))
    return DriverMap(argument) if isinstance(argument, TensorMap | ImageMap) else argument


def _encoded(one: Encoding) -> bytes:
    driver = require("cuda.bindings.driver", "Encoding a tensor map")
    words, longs = driver.cuuint32_t, driver.cuuint64_t

    def numbers(kind: Any, given: Sequence[int]) -> list[Any]:
        return [kind(number) for number in given]

    tensor = (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{one.type}"),
        len(one.extents),
        one.address,
        numbers(longs, one.extents),
        numbers(longs, one.strides),
    )
    modes = (
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle(SWIZZLES.index(one.swizzle)),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill(int(one.nans)),
    )
    steps = numbers(words, one.steps)
    if one.pixels:
        corners = [list(one.low), list(one.high)]
        made = driver.cuTensorMapEncodeIm2col(*tensor, *corners, one.box[0], one.pixels, steps, *modes)
    else:
        made = driver.cuTensorMapEncodeTiled(*tensor, numbers(words, one.box), steps, *modes)
    return ctypes.string_at(current.check(made, "encoding a tensor map").getPtr(), MAP_BYTES)
