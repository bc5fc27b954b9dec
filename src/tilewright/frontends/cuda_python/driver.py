"""Calls of `cuda.bindings.driver` that make tensor maps, which programs call directly."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.frontends.driver_binding import Binding
from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device import tensor_maps
from tilewright.simulate.device.gpu import SimulatedGpu


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    binding = Binding(gpu)
    yield from (
        ("cuda.bindings.driver", name, getattr(binding, name)) for name in vars(tensor_maps) if name[:2] == "cu"
    )
