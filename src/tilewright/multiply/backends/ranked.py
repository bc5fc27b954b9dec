"""The estimate of a kernel, by which a device's kernels are ranked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ranked:
    """The estimate of a kernel for a product."""

    name: str  #: The kernel's name in the catalogue, or the tile of an OpenCL device.
    seconds: float  #: Time for one matrix; of a GPU's kernel for the batch.
    limiter: str  #: The unit that limits the time.
    waves: float  #: Number of blocks divided by those that the device holds at once.
    source: str  #: Source of the time: "estimated", or "tuned" if `tilewright tune` timed it.
    bound: str = ""  #: The error bound of a result; "" if it has the canonical bits.
