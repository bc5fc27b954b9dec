"""Tensor maps for kernels on a real GPU, encoded by its driver: only the driver knows how the hardware reads them.

Source: CUDA Driver API, "Tensor Map Object Management"; CUTLASS, `copy_traits_sm90_tma.hpp`, of the promotion in L2.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.backends.cuda import current
from tilewright.gpu.map_encoding import SWIZZLES, Encoding
from tilewright.gpu.map_hardware import MAP_BYTES
from tilewright.gpu.tensor_maps import ImageMap, TensorMap
from tilewright.programs.host_arrays import ArrayParameter
from tilewright.programs.optional import require

#: So many addresses of a map are kept: buffers that take turns are few.
_MOST = 64


@dataclass(frozen=True, eq=False)
class DriverMap(ArrayParameter):
    """A tensor map whose bytes are the driver's."""

    shape = (16,)

    map: TensorMap | ImageMap
    _known: dict[int, bytes] = field(default_factory=dict)  #: By address: a driver's call takes some microseconds.

    @property
    def array(self) -> Any:  # type: ignore[override]  # what may be asked, not set
        """The array that it is a map of."""
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
    """An argument of a launch, whose tensor maps the driver encodes; a tuple's too."""
    if isinstance(argument, tuple):
        return tuple(map(of_driver, argument))
    return DriverMap(argument) if isinstance(argument, TensorMap | ImageMap) else argument


def _encoded(one: Encoding) -> bytes:
    driver = require("cuda.bindings.driver", "Encoding a tensor map")
    words, longs = driver.cuuint32_t, driver.cuuint64_t

    def numbers(kind: Any, given: Sequence[int]) -> list[Any]:
        return [kind(number) for number in given]

    tensor = (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{one.type}"), len(one.extents), one.address,
        numbers(longs, one.extents), numbers(longs, one.strides),
    )  # fmt: skip
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
