"""Calls of `cuda.bindings.driver` that make tensor maps, which programs call directly, and those that launch."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.frontends.driver_binding import Binding
from tilewright.frontends.passed import passing
from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device import tensor_maps
from tilewright.simulate.device.gpu import SimulatedGpu

#: Launches, and the place of their kernel's arguments.
_LAUNCHES = {"cuLaunchKernel": 9, "cuLaunchCooperativeKernel": 9, "cuLaunchKernelEx": 2}


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    binding = Binding(gpu)
    yield from (
        ("cuda.bindings.driver", name, getattr(binding, name)) for name in vars(tensor_maps) if name[:2] == "cu"
    )
    module = importlib.import_module("cuda.bindings.driver")
    yield from ((module.__name__, name, _noting(getattr(module, name), at)) for name, at in _LAUNCHES.items())


def _noting(launch: Callable[..., Any], at: int) -> Callable[..., Any]:
    """Replaces a launch: it says what it passes, if that is a pair of values and their types and no address."""

    @functools.wraps(launch)
    def noted(*given: Any) -> Any:
        pair = given[at] if len(given) > at else None
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            return launch(*given)
        values, types = pair if isinstance(pair[0], tuple | list) else ((pair[0],), (pair[1],))
        with passing(value if type_ is None else type_(value) for value, type_ in zip(values, types, strict=False)):
            return launch(*given)

    return noted
