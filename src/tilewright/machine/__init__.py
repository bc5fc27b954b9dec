"""What it runs on: machines as plain data, and what follows from them.

Examples
--------
>>> from tilewright import machine
>>> machine.gpu("h100").multiprocessors
132
"""

from tilewright.machine import occupancy, roofline
from tilewright.machine.gpu import WARP_LANES, Gpu, LaunchLimits, chosen, gpu, gpus, launch_limits, names

__all__ = [
    "WARP_LANES",
    "Gpu",
    "LaunchLimits",
    "chosen",
    "gpu",
    "gpus",
    "launch_limits",
    "names",
    "occupancy",
    "roofline",
]
