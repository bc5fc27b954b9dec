"""CUDA arrays: elements in device memory, row by row, for textures, surfaces and copies.

Source: CUDA Runtime API, `cudaChannelFormatDesc`, `cudaExtent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.simulate.device.gpu import DriverError
from tilewright.simulate.state import TEXTURE_NUMBERS, TEXTURE_RECORD, TEXTURES

_KINDS = tuple(TEXTURES[f"elements_{name}"] for name in ("signed", "unsigned", "float"))


@dataclass(frozen=True)
class Elements:
    """Elements in device memory: those of an array, or of the memory of a texture."""

    address: int
    format: tuple[int, ...]  #: `cudaChannelFormatDesc`.
    extent: tuple[int, int, int]  #: Elements along each axis; 0 for an axis that the array does not have.
    row_bytes: int
    flags: int = 0

    def __post_init__(self) -> None:
        """Reject an invalid format: channels of different widths, or of a width that textures do not have.

        Raises DriverError: the format is invalid.
        """
        *channels, kind = self.format
        widths = {bits for bits in channels if bits}
        if len(widths) != 1 or not widths <= {8, 16, 32} or kind not in _KINDS:
            raise DriverError("cudaErrorInvalidChannelDescriptor")

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return sum(self.format[:4]) // 8

    @property
    def plane_bytes(self) -> int:
        """Bytes from one plane or layer to the next."""
        return self.row_bytes * max(self.extent[1], 1)

    def record(self, **how: Any) -> bytes:
        """The record of a texture or surface object."""
        record = np.zeros(1, TEXTURE_RECORD)
        channels = [bits for bits in self.format[:4] if bits]
        fields = {
            "address": self.address,
            "row_bytes": self.row_bytes,
            "plane_bytes": self.plane_bytes,
            "extents": [max(one, 1) for one in self.extent],
            "channels": len(channels),
            "bits": channels[0],
            "elements": self.format[4],
            "modes": [TEXTURES["clamp"]] * 3,
            "magic": TEXTURE_NUMBERS["magic"],
            **how,
        }
        for name, value in fields.items():
            record[name] = value
        return record.tobytes()
