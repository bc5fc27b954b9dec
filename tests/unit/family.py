"""The GPU on which a kernel of the catalogue is tested."""

from __future__ import annotations

from tilewright.kernels.record import Record


def gpu_of(record: Record) -> str:
    """The default GPU, or one of the only family that the kernel is for."""
    return "b200" if record.unfit((9, 0)) else "h100"
