"""The installed simulated GPU: the one that driver calls of this process go to, whichever package makes them."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tilewright.drivers.gpu import SimulatedGpu
from tilewright.errors import DeviceError
from tilewright.native.nested import Nested
from tilewright.native.once import once


@once
def _installed() -> Nested[SimulatedGpu]:
    return Nested()


def registered(gpu: SimulatedGpu) -> AbstractContextManager[None]:
    """Let driver calls go to a simulated GPU in the body of `with`."""
    return _installed().within(gpu)


def installed_gpu() -> SimulatedGpu | None:
    """The simulated GPU that driver calls go to; None if there is none."""
    return _installed().innermost


def current_gpu() -> SimulatedGpu:
    """The same where there must be one.

    Raises DeviceError: there is none.
    """
    gpu = installed_gpu()
    if gpu is None:
        raise DeviceError(
            "a kernel of a simulated GPU must run inside `with tilewright.simulated_gpu():` (got none installed)"
        )
    return gpu
