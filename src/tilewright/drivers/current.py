"""The installed simulated GPU: the one whose binding numba-cuda's driver holds."""

from __future__ import annotations

import contextlib
import sys

from tilewright.drivers.gpu import SimulatedGpu
from tilewright.errors import DeviceError

#: numba-cuda's module that calls the driver.
DRIVER = "numba.cuda.cudadrv.driver"


def free_pending() -> None:
    """Free arrays that the program has released: numba-cuda delays this until there are enough of them."""
    devices = sys.modules.get("numba.cuda.cudadrv.devices")
    if devices is not None:
        with contextlib.suppress(Exception):  # in a context that an error has ended, nothing is freed
            devices.get_context().memory_manager.deallocations.clear()


def placed_gpu() -> SimulatedGpu | None:
    """The simulated GPU that numba-cuda's calls go to; None if there is none."""
    gpu = getattr(getattr(sys.modules.get(DRIVER), "binding", None), "gpu", None)
    return gpu if isinstance(gpu, SimulatedGpu) else None


def current_gpu() -> SimulatedGpu:
    """The simulated GPU that numba-cuda's calls go to.

    Raises DeviceError: there is none.
    """
    gpu = placed_gpu()
    if gpu is None:
        raise DeviceError(
            "a kernel of a simulated GPU must run inside `with tilewright.simulated_gpu():` (got none installed)"
        )
    return gpu
