"""The installed simulated GPU: the one that driver calls of this process go to, whichever package makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.drivers.gpu import SimulatedGpu
from tilewright.errors import DeviceError
from tilewright.native.once import once


@once
def _installed() -> list[SimulatedGpu]:
    """Those of nested `with` blocks, the innermost last."""
    return []


@contextmanager
def registered(gpu: SimulatedGpu) -> Iterator[None]:
    """Let driver calls go to a simulated GPU in the body of `with`."""
    _installed().append(gpu)
    try:
        yield
    finally:
        _installed().remove(gpu)


def installed_gpu() -> SimulatedGpu | None:
    """The simulated GPU that driver calls go to; None if there is none."""
    installed = _installed()
    return installed[-1] if installed else None


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
