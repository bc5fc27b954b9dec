"""The GPU on which a kernel of the catalogue is tested."""

from __future__ import annotations

from tilewright.multiply.kernels.record import Record


def gpu_of(record: Record) -> str:
    """The default GPU, or one of the only family that the kernel is for."""
    return {(7, 5): "t4", (9, 0): "h100", (10, 0): "b200"}[record.cc] if record.family else "h100"
