"""The 128 bytes of a tensor map: its fields, the rules of the driver's encoding calls, and our layout.

Source: CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col; PTX ISA, section 5.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from tilewright.simulate.state import TENSOR_MAGIC, TENSOR_MAP_RECORD

#: Bytes within which 16-byte units are permuted; 0 for none. Indexed by the driver's numbers.
SWIZZLES: Final = (0, 32, 64, 128)
AXES_MOST, BOX_MOST, STEP_MOST, UNIT_BYTES = 5, 256, 8, 16
STRIDE_MOST = 1 << 40
_EXTENT_MOST, _PIXELS_MOST = 1 << 32, 1024
#: Element types: names in the order of the driver's numbers, with their sizes.
TYPES: Final = {
    "UINT8": 1, "UINT16": 2, "UINT32": 4, "INT32": 4, "UINT64": 8, "INT64": 8, "FLOAT16": 2, "FLOAT32": 4,
    "FLOAT64": 8, "BFLOAT16": 2, "FLOAT32_FTZ": 4, "TFLOAT32": 4,
}  # fmt: skip
#: Names in the order of the numbers in instructions. Source: PTX ISA, `tensormap.replace`, `.elemtype`.
TYPES_OF_PTX: Final = tuple(
    "UINT8 UINT16 UINT32 INT32 UINT64 INT64 FLOAT16 FLOAT32 FLOAT32_FTZ FLOAT64 BFLOAT16 TFLOAT32".split()
)
_NUMBERS: Final = {name: number for number, name in enumerate(TYPES)}
#: The fill value of elements outside the tensor: zeros, or a NaN by size. Source: CUtensorMapFloatOOBfill.
_NANS: Final = {2: 0x7FFF7FFF7FFF7FFF, 4: 0x7FFFFFFF7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}
#: Least corner of an image's spatial box, by the tensor's rank; the greatest is one less than its negative.
_CORNERS: Final = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}


@dataclass(frozen=True, slots=True)
class Encoding:
    """The fields of a tensor map, the innermost axis first.

    `box` has one extent for each axis. For images (`pixels` is not 0) its first extent counts channels, and `low` and
    `high` are the corners of the spatial box. `strides` are in bytes, of all axes except the innermost.
    """

    type: str
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int = 0
    nans: bool = False
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    pixels: int = 0

    def broken_rule(self) -> str:
        """The driver's first rule that does not hold, with the given value; "" if all hold.

        >>> Encoding("FLOAT32", 24, (64,), (), (16,), (1,)).broken_rule()
        'the address must be a multiple of 16 bytes (got 0x18)'
        """
        return next((text for holds, text in chain(self._of_tensor(), self._of_box()) if not holds), "")

    def _of_tensor(self) -> Iterator[tuple[bool, str]]:
        rank, ranks = len(self.extents), "3 to 5" if self.pixels else f"1 to {AXES_MOST}"
        yield (3 if self.pixels else 1) <= rank <= AXES_MOST, f"the rank must be {ranks} (got {rank})"
        wanted = {"strides": rank - 1, "boxDim": rank, "elementStrides": rank}
        for (name, count), given in zip(wanted.items(), (self.strides, self.box, self.steps), strict=True):
            yield len(given) == count, f"{name} must have {count} numbers (got {len(given)})"
        yield self.address % UNIT_BYTES == 0, f"the address must be a multiple of 16 bytes (got {self.address:#x})"
        yield all(1 <= x <= _EXTENT_MOST for x in self.extents), f"globalDim must be 1 to 2^32 (got {self.extents})"
        good = all(x % UNIT_BYTES == 0 and 0 <= x < STRIDE_MOST for x in self.strides)
        yield good, f"globalStrides must be multiples of 16 bytes below 2^40 (got {self.strides})"

    def _of_box(self) -> Iterator[tuple[bool, str]]:
        name = "channelsPerPixel" if self.pixels else "boxDim"
        yield all(1 <= x <= BOX_MOST for x in self.box), f"{name} must be 1 to {BOX_MOST} (got {self.box})"
        yield (
            all(1 <= x <= STEP_MOST for x in self.steps),
            f"elementStrides must be 1 to {STEP_MOST} (got {self.steps})",
        )
        size = self.box[0] * TYPES[self.type]
        yield size % UNIT_BYTES == 0, f"a box's innermost extent must be a multiple of 16 bytes (got {size})"
        most = self.swizzle or size
        yield size <= most, f"a box's innermost extent must be at most the swizzle, {most} bytes (got {size})"
        yield not self.nans or "FLOAT" in self.type, f"only floats can be filled with NaN (got {self.type})"
        if not self.pixels:
            return
        yield self.pixels <= _PIXELS_MOST, f"pixelsPerColumn must be at most {_PIXELS_MOST} (got {self.pixels})"
        least = _CORNERS[len(self.extents)]
        for name, corner in (("pixelBoxLowerCorner", self.low), ("pixelBoxUpperCorner", self.high)):
            good = len(corner) == len(self.extents) - 2 and all(-least <= x < least for x in corner)
            yield good, f"{name} must have {len(self.extents) - 2} numbers from {-least} to {least - 1} (got {corner})"
        inner = zip(self.extents[1:], self.low, self.high, strict=False)
        yield all(low < extent + high for extent, low, high in inner), "the box of places must not be empty"

    def encoded(self) -> bytes:
        """The 128 bytes, if every rule holds."""
        rank, record = len(self.extents), np.zeros((), TENSOR_MAP_RECORD)
        record["address"], record["rank"], record["magic"] = self.address, rank, TENSOR_MAGIC
        record["element_bytes"], record["type"] = TYPES[self.type], _NUMBERS[self.type]
        record["strides"][: rank - 1], record["box"][:rank], record["steps"][:rank] = self.strides, self.box, self.steps
        record["steps"][0] = 1  # the driver ignores it
        # Coordinates are signed 32-bit numbers, so none reaches the last element of the largest extent.
        record["extents"][:rank] = [min(extent, _EXTENT_MOST - 1) for extent in self.extents]
        record["units"] = max(self.swizzle, UNIT_BYTES) // UNIT_BYTES
        record["filler"] = _NANS[TYPES[self.type]] if self.nans else 0
        record["low"][: len(self.low)], record["high"][: len(self.high)] = self.low, self.high
        record["pixels"] = self.pixels
        return record.tobytes()
