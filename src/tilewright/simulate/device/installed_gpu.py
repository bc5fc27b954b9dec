"""The installed simulated GPU, which gets the driver calls of all packages in this process."""

from __future__ import annotations

from typing import cast

from tilewright.errors import DeviceError
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.installed_device import installed_device


def installed_gpu() -> SimulatedGpu | None:
    """The simulated GPU that driver calls go to; None if there is none."""
    return cast("SimulatedGpu | None", installed_device())


def current_gpu() -> SimulatedGpu:
    """The same where there must be one.

    Raises DeviceError: there is none.
    """
    gpu = installed_device()
    if gpu is None:
        raise DeviceError(
            "a kernel of a simulated GPU must run inside `with tilewright.simulated_gpu():` (got none installed)"
        )
    return cast("SimulatedGpu", gpu)
