"""Memory that numba-cuda frees later."""

from __future__ import annotations

import contextlib
import sys


def free_pending() -> None:
    """Free arrays that the program has released: numba-cuda delays this until there are enough of them."""
    devices = sys.modules.get("numba.cuda.cudadrv.devices")
    if devices is not None:
        with contextlib.suppress(Exception):  # in a context that an error has ended, nothing is freed
            devices.get_context().memory_manager.deallocations.clear()
