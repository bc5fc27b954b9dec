"""Which simulated GPU is in place: the one whose binding numba-cuda's driver holds."""

from __future__ import annotations

import sys

from tilewright.errors import DeviceError
from tilewright.simulated.gpu import SimulatedGpu

#: numba-cuda's module that calls the driver.
DRIVER = "numba.cuda.cudadrv.driver"


def current_gpu() -> SimulatedGpu:
    """The simulated GPU that numba-cuda's calls go to now.

    Raises
    ------
    DeviceError
        There is none.
    """
    binding = getattr(sys.modules.get(DRIVER), "binding", None)
    gpu = getattr(binding, "gpu", None)
    if not isinstance(gpu, SimulatedGpu):
        raise DeviceError(
            "a kernel of a simulated GPU must run inside `with tilewright.simulated_gpu():` (got none in place)"
        )
    return gpu
